"""A Docker engine: the one that answers on this machine, or one of our own for as long as it is needed."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker  # type: ignore[import-untyped]
from docker.errors import DockerException  # type: ignore[import-untyped]
from testcontainers.core.docker_client import DockerClient

from tests.lab import apt
from tests.lab.places import logs
from tests.lab.progress import StepFailed, logged, say

_START_LIMIT_S = 60.0
_STOP_LIMIT_S = 30.0
_LAST_LINES = 5

# Containers talk through a forwarding process to a network that is removed with them, so nothing of the
# machine's firewall, bridges or routing needs to change; an engine would leave its rules behind.
_UNINTRUSIVE = (
    "--bridge=none",
    "--iptables=false",
    "--ip6tables=false",
    "--ip-forward=false",
    "--ip-masq=false",
)


class EngineUnavailable(Exception):
    """One line that says why there is no Docker engine."""


@contextmanager
def engine() -> Iterator[tuple[docker.DockerClient, bool]]:
    """The engine, and whether it is our own, which ends with the body. Raise EngineUnavailable."""
    client = answering()
    if client is None and not shutil.which("dockerd"):
        _install()
        # Where there is a service manager, the package has started it.
        client = answering()
    if client is not None:
        _require_local(client)
        yield client, False
        return
    with _own() as client:
        yield client, True


def answering() -> docker.DockerClient | None:
    """A client of the engine that DOCKER_HOST, Docker's context or the usual socket leads to, if it answers.

    Raise EngineUnavailable if DOCKER_HOST names one that does not.
    """
    try:
        return DockerClient().client  # which asks it for its version
    except DockerException as failure:
        if host := os.environ.get("DOCKER_HOST"):
            raise EngineUnavailable(f"no Docker engine answers at DOCKER_HOST={host}: {failure}") from None
        return None


def _require_local(client: docker.DockerClient) -> None:
    """A server in a container must see the data directory that we made, and we its port."""
    address = client.api.base_url
    if not address.startswith("http+docker://") or address.endswith("//ssh"):
        raise EngineUnavailable(f"the Docker engine at {address} is not on this machine: unset DOCKER_HOST")


def _install() -> None:
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "docker.io"]
    if os.geteuid() != 0:
        raise EngineUnavailable(f"no Docker engine answers, and there is none here: sudo {' '.join(command)}")
    say("no Docker engine answers, installing docker.io")
    command[1:1] = ["-o", "DPkg::Lock::Timeout=300"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    log = logs() / "docker.log"
    try:
        for argv in (["apt-get", "-q", "update"], command):
            logged(" ".join(argv[:2]), argv, cwd=Path("/"), log=log, environment=environment)
    except StepFailed as failed:
        raise EngineUnavailable(f"docker.io cannot be installed: {str(failed).splitlines()[0]}") from failed


@contextmanager
def _own() -> Iterator[docker.DockerClient]:
    if os.geteuid() != 0:
        raise EngineUnavailable("no Docker engine answers: start one that you may use, or be root")
    data = apt.cache_root() / "docker"
    with apt.locked(data.with_suffix(".lock")), tempfile.TemporaryDirectory(prefix="zbd-") as place:
        shutil.rmtree(data, ignore_errors=True)  # of a run that was killed
        data.mkdir(mode=0o700)
        os.environ["DOCKER_HOST"] = f"unix://{place}/docker.sock"
        process, log = _start(Path(place), data)
        try:
            yield _await_answer(process, log)
        finally:
            del os.environ["DOCKER_HOST"]
            process.terminate()
            try:
                process.wait(_STOP_LIMIT_S)
            finally:
                process.kill()
                shutil.rmtree(data)


def _start(run: Path, data: Path) -> tuple[subprocess.Popen[bytes], Path]:
    settings, log = run / "daemon.json", logs() / "dockerd.log"
    settings.write_text("{}")  # else the machine's own, whose settings may contradict these
    argv = ["dockerd", f"--config-file={settings}", f"--host={os.environ['DOCKER_HOST']}", *_UNINTRUSIVE]
    argv += [f"--data-root={data}", f"--exec-root={run / 'exec'}", f"--pidfile={run / 'pid'}"]
    with log.open("wb") as sink:
        # A session of its own: at Ctrl-C containers are removed first. And it ends with us if we are killed.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *argv],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    return process, log


def _await_answer(process: subprocess.Popen[bytes], log: Path) -> docker.DockerClient:
    deadline = time.monotonic() + _START_LIMIT_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if client := answering():
                return client
        except EngineUnavailable:
            time.sleep(0.2)
    last = " / ".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
    raise EngineUnavailable(f"dockerd does not start on this machine (whole log: {log}): {last}")
