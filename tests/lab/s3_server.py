"""A real S3 server that verifies checksums, on a loopback port, without a bucket.

SeaweedFS, which the lab fetches; with LAB_S3 set to the path of a versitygw program, that.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from tests.lab import servers

ACCESS, SECRET = "test-access", "test-secret-key"
START_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it listens, and the keys that may do everything."""

    endpoint: str
    access: str = ACCESS
    secret: str = SECRET


def client(server: S3Server) -> Any:
    """boto3's, to look at the server with, and to do harm."""
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access,
        aws_secret_access_key=server.secret,
        region_name="us-east-1",
    )


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """With all it needs, its data in a new directory that goes with it."""
    home = Path(tempfile.mkdtemp(prefix="s3-"))
    log = home / "log"
    port = _free_port()
    other = os.environ.get("LAB_S3")
    argv = _versitygw(other, home, port) if other else _seaweedfs(home, port)
    process = subprocess.Popen(argv, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    try:
        _wait(process, f"http://127.0.0.1:{port}/", log)
        yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        # SeaweedFS does not end for SIGTERM while it has volumes open.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _versitygw(program: str, home: Path, port: int) -> list[str]:
    data, versions = home / "data", home / "versions"
    for directory in (data, versions):
        directory.mkdir()
    listen = ("--access", ACCESS, "--secret", SECRET, "--port", f"127.0.0.1:{port}")
    return [program, *listen, "posix", "--versioning-dir", str(versions), str(data)]


def _seaweedfs(home: Path, port: int) -> list[str]:
    identity = {
        "name": "tester",
        "credentials": [{"accessKey": ACCESS, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    accounts = home / "accounts.json"
    accounts.write_text(json.dumps({"identities": [identity]}), encoding="ascii")
    weed = servers.ensure(["s3"])["s3"] / "bin" / "weed"
    ports = {name: str(_free_port()) for name in ("master", "volume", "filer")}
    grpc = {name: str(_free_port()) for name in ("master", "volume", "filer", "s3")}
    return [
        str(weed),
        "server",
        f"-dir={home}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=100",
        "-s3",
        f"-s3.port={port}",
        f"-s3.config={accounts}",
        "-s3.iam=false",
        "-s3.autoCreateBucket=false",
        # Their ports are fixed ones: a second server would end for it.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *(f"-{name}.port={number}" for name, number in ports.items()),
        *(f"-{name}.port.grpc={number}" for name, number in grpc.items()),
    ]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(url, timeout=2).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
