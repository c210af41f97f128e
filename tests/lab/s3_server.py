"""A real S3 server that verifies checksums, on a loopback port, without a bucket.

SeaweedFS, which the lab fetches; with LAB_S3 set to the path of a versitygw program, that.
"""

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from tests.lab import servers
from tests.lab.certificate import Certificate, certificate
from tests.lab.s3_accounts import options

ACCESS, SECRET = "test-access", "test-secret-key"
START_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where it listens, the keys that may do everything, and by TLS whose certificate it has.

    `shell` takes orders for a SeaweedFS; () for another.
    """

    endpoint: str
    access: str = ACCESS
    secret: str = SECRET
    token: str = ""
    ca: Path | None = None
    shell: tuple[str, ...] = ()


def client(server: S3Server) -> Any:
    """boto3's, to look at the server with, and to do harm."""
    return boto3.client(
        "s3",
        endpoint_url=server.endpoint,
        aws_access_key_id=server.access,
        aws_secret_access_key=server.secret,
        aws_session_token=server.token or None,
        region_name="us-east-1",
        verify=str(server.ca) if server.ca else None,
        # On a machine that is busy an answer may be late: who asks again is told that it is done already.
        config=Config(read_timeout=600),
    )


@contextmanager
def s3_server(*, tls: bool = False, other: str = os.environ.get("LAB_S3", "")) -> Iterator[S3Server]:
    """With all it needs, its data in a new directory that goes with it; a certificate, too, for TLS.

    `other` is a versitygw to take instead of SeaweedFS.
    """
    home = Path(tempfile.mkdtemp(prefix="s3-"))
    log = home / "log"
    port = _free_port()
    cert = certificate(home) if tls else None
    argv = _versitygw(other, home, port, cert) if other else _seaweedfs(home, port, cert)
    process = subprocess.Popen(argv, stdout=log.open("wb"), stderr=subprocess.STDOUT)
    made = S3Server(
        f"{'https' if tls else 'http'}://127.0.0.1:{port}",
        ca=cert.cert if cert else None,
        shell=() if other else _shell(argv),
    )
    try:
        _wait(process, made, log)
        yield made
    finally:
        # SeaweedFS does not end for SIGTERM while it has volumes open.
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(home, ignore_errors=True)


def _versitygw(program: str, home: Path, port: int, cert: Certificate | None) -> list[str]:
    data, versions = home / "data", home / "versions"
    for directory in (data, versions):
        directory.mkdir()
    listen = ("--access", ACCESS, "--secret", SECRET, "--port", f"127.0.0.1:{port}")
    secured = ("--cert", str(cert.cert), "--key", str(cert.key)) if cert else ()
    return [program, *listen, *secured, "posix", "--versioning-dir", str(versions), str(data)]


def _seaweedfs(home: Path, port: int, cert: Certificate | None) -> list[str]:
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
        *options(home, ACCESS, SECRET),
        "-s3.autoCreateBucket=false",
        # Their ports are fixed ones: a second server would end for it.
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        *((f"-s3.cert.file={cert.cert}", f"-s3.key.file={cert.key}") if cert else ()),
        *(f"-{name}.port={number}" for name, number in ports.items()),
        *(f"-{name}.port.grpc={number}" for name, number in grpc.items()),
    ]


def _shell(argv: Sequence[str]) -> tuple[str, ...]:
    """What takes orders for the SeaweedFS that was started so."""
    given = dict(word.removeprefix("-").split("=", 1) for word in argv[2:] if "=" in word)
    places = {name: f"{given['ip']}:{given[f'{name}.port']}" for name in ("master", "filer")}
    reached = (f"-{name}={place}.{given[f'{name}.port.grpc']}" for name, place in places.items())
    return (argv[0], "shell", *reached)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", server: S3Server, log: Path) -> None:
    trusting = ssl.create_default_context(cafile=server.ca) if server.ca else None
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(server.endpoint, timeout=2, context=trusting).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
