"""zbackup's commands without Python's start, which in the lab's guest takes longer than most of them do.

A server has imported what commands need. Each command is a process of its own that it forks, in a session of
its own, with the environment and the output it is to have: what the program is after its imports.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

WORD = 8
"""Bytes of a number on the wire."""
MADV_POPULATE_WRITE = 23
ALONE_AFTER = 5.0
"""Seconds after which a server at the latest sees that whoever started it is gone."""


class Forks:
    """Runs commands at the server that listens at the address."""

    def __init__(self, address: Path) -> None:
        self._address = str(address)

    def run(
        self, words: tuple[str, ...], environment: Mapping[str, str], limit: float
    ) -> tuple[int, str, str]:
        """Its exit status (-N: ended by signal N) and what it said. AssertionError after `limit` seconds."""
        said = [os.memfd_create("said") for _ in range(2)]
        order = json.dumps({"words": words, "environment": {**os.environ, **environment}}).encode()
        with socket.socket(socket.AF_UNIX) as server:
            server.connect(self._address)
            socket.send_fds(server, [len(order).to_bytes(WORD)], said)
            server.sendall(order)
            pid = int.from_bytes(_exactly(server, WORD))
            server.settimeout(limit)
            try:
                status = int.from_bytes(_exactly(server, WORD), signed=True)
            except TimeoutError:
                os.killpg(pid, signal.SIGKILL)
                raise AssertionError(f"no end within {limit:g} s: zbackup {' '.join(words)}") from None
        out, err = (_whole(descriptor) for descriptor in said)
        return status, out, err


@contextlib.contextmanager
def forks(home: Path, *modules: str) -> Iterator[Forks]:
    """A server, which ends with the block. `modules` are what commands import only when they need it."""
    address = home / "forks.sock"
    argv = (sys.executable, "-m", "tests.system.forked", str(address), *modules)
    server = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        while not address.exists():
            assert server.poll() is None, "it does not start"
            time.sleep(0.02)
        yield Forks(address)
    finally:
        server.kill()
        server.wait()
        address.unlink(missing_ok=True)


@cache
def shared() -> Forks:
    """The server of this process, started when it is first asked for; it ends when this process does."""
    stack = contextlib.ExitStack()
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zforks-")))
    server = stack.enter_context(forks(home))
    atexit.register(stack.close)
    return server


def _whole(descriptor: int) -> str:
    with os.fdopen(descriptor) as file:
        file.seek(0)
        return file.read()


def _exactly(end: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = end.recv(count - len(found))
        assert more, "the server is gone"
        found += more
    return found


def _copy_memory() -> None:
    """Copy what was inherited as a whole: page by page, as it is touched, costs a guest thrice as much."""
    libc = ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, *_ = line.split()
        if rights == "rw-p":
            begin, end = (int(address, 16) for address in addresses.split("-"))
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_POPULATE_WRITE)


def serve(address: str, *modules: str) -> None:
    """Until it is killed or alone. What asked is answered by a child, which waits for the command."""
    from zbackup.cli.main import build, run

    build()
    for module in modules:
        importlib.import_module(module)
    # A page that the garbage collector touches is a page that a guest copies.
    gc.disable()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.new")
        listening.listen(16)
        listening.settimeout(ALONE_AFTER)
        parent = os.getppid()
        Path(f"{address}.new").rename(address)
        while True:
            try:
                asking, _ = listening.accept()
            except TimeoutError:
                if os.getppid() != parent:
                    return
                continue
            if os.fork() == 0:
                listening.close()
                break
            asking.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with asking:
        length, said, _, _ = socket.recv_fds(asking, WORD, 2)
        order = json.loads(_exactly(asking, int.from_bytes(length)))
        if command := os.fork():
            asking.sendall(command.to_bytes(WORD))
            _, status = os.waitpid(command, 0)
            asking.sendall(os.waitstatus_to_exitcode(status).to_bytes(WORD, signed=True))
            os._exit(0)
    os.setsid()
    _copy_memory()
    for ours, theirs in zip(said, (1, 2), strict=True):
        os.dup2(ours, theirs)
        os.close(ours)
    os.environ.clear()
    os.environ.update(order["environment"])
    sys.argv[1:] = order["words"]
    run()


if __name__ == "__main__":
    serve(*sys.argv[1:])
