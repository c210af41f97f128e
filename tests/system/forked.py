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
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

WORD = 8
"""Bytes of a number on the wire."""
MADV_POPULATE_READ, MADV_POPULATE_WRITE = 22, 23
POPULATE = {
    "rw-p": MADV_POPULATE_WRITE,
    "rwxp": MADV_POPULATE_WRITE,  # a guest's heap
    "r-xp": MADV_POPULATE_READ,
    "r--p": MADV_POPULATE_READ,
}
"""How memory is mapped at once, by the rights to it."""
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


def _map_memory() -> None:
    """Map what was inherited as a whole: page by page, as it is touched, costs a guest ten times as much."""
    libc = ctypes.CDLL(None)
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, rights, *_ = line.split()
        if how := POPULATE.get(rights):
            begin, end = (int(address, 16) for address in addresses.split("-"))
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), how)


def serve(address: str, *modules: str) -> None:
    """Until it is killed or alone."""
    from zbackup.cli.main import build, run

    build()
    for module in modules:
        importlib.import_module(module)
    # A page that the garbage collector touches is a page that a guest copies.
    gc.disable()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.new")
        listening.listen(16)
        Path(f"{address}.new").rename(address)
        order = _next_order(listening)
    if order is not None:
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.argv[1:] = order["words"]
        run()


def _next_order(listening: socket.socket) -> Any:
    """What a command is to do, in its process; None in the server, when whoever started it is gone.

    The server waits for the commands itself: a process that waited for one would be a fork more.
    """
    parent = os.getppid()
    waiting: dict[int, tuple[int, socket.socket]] = {}
    poll = select.poll()
    poll.register(listening, select.POLLIN)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll(ALONE_AFTER * 1000)]
        if not ready and os.getppid() != parent:
            return None
        for ended in set(ready) & set(waiting):
            command, asking = waiting.pop(ended)
            poll.unregister(ended)
            os.close(ended)
            _, status = os.waitpid(command, 0)
            with asking, contextlib.suppress(BrokenPipeError):  # who asked may have given up
                asking.sendall(os.waitstatus_to_exitcode(status).to_bytes(WORD, signed=True))
        if listening.fileno() not in ready:
            continue
        asking, _ = listening.accept()
        length, said, _, _ = socket.recv_fds(asking, WORD, 2)
        order = json.loads(_exactly(asking, int.from_bytes(length)))
        command = os.fork()
        if command == 0:
            _become_a_command(said, [asking, *(other for _, other in waiting.values())], list(waiting))
            return order
        for descriptor in said:
            os.close(descriptor)
        asking.sendall(command.to_bytes(WORD))
        ended = os.pidfd_open(command)
        waiting[ended] = command, asking
        poll.register(ended, select.POLLIN)


def _become_a_command(said: list[int], sockets: list[socket.socket], descriptors: list[int]) -> None:
    """Leave what is the server's, and take the output that was given."""
    os.setsid()
    _map_memory()
    for asking in sockets:
        asking.close()
    for descriptor in descriptors:
        os.close(descriptor)
    for ours, theirs in zip(said, (1, 2), strict=True):
        os.dup2(ours, theirs)
        os.close(ours)


if __name__ == "__main__":
    serve(*sys.argv[1:])
