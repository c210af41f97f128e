"""Copies farther away than on another pool: on another host by ssh, and in a bucket."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.disaster_ways import BY_SSH, FROM_S3, RECEIVE_BY_SSH, Way, by_receive, by_zbackup
from tests.lab.demo_stage import Stage
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.lab.two_hosts import TwoHosts, second_host

BUCKET = "bench"
SHIP = """
[[instance.shop.ship]]
name = "by-ssh"
to = "{url}"
initial = "allow"
[instance.shop.ship.ssh]
identity = "{identity}"
known_hosts = "{known_hosts}"

[[instance.shop.ship]]
name = "bucket"
to = "s3://{bucket}/copies"
initial = "allow"
[instance.shop.ship.s3]
endpoint = "{endpoint}"
region = "us-east-1"
access_key = "{access}"
secret_key = {{ file = "{secret}" }}
path_style = true
"""


@contextmanager
def far(made: Stage) -> Iterator[Callable[[str], dict[str, Way]]]:
    """Two more places for `zbackup ship` while the body runs; the ways back of the backup named."""
    with second_host() as hosts, s3_server() as server:
        client(server).create_bucket(Bucket=BUCKET)
        secret = made.home / "s3-secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        configuration = made.home / "zbackup.toml"
        configuration.write_text(
            configuration.read_text()
            + SHIP.format(
                url=hosts.url,
                identity=hosts.identity("trusted"),
                known_hosts=hosts.known_hosts,
                bucket=BUCKET,
                endpoint=server.endpoint,
                access=ACCESS,
                secret=secret,
            )
        )
        os.environ["PATH"] = hosts.environment["PATH"]
        yield lambda newest: _ways(hosts, newest)


def _ways(hosts: TwoHosts, newest: str) -> dict[str, Way]:
    def send(copy: str) -> "subprocess.Popen[bytes]":
        line = [*hosts.ssh_argv(), f"zfs send -Lec '{copy}@{newest}'"]
        return subprocess.Popen(line, stdout=subprocess.PIPE)

    return {
        RECEIVE_BY_SSH: by_receive(hosts.root, newest, send),
        BY_SSH: by_zbackup("--from", "by-ssh", "--to", "latest"),
        FROM_S3: by_zbackup("--from", "bucket", "--to", "latest"),
    }
