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


class Begun:
    """A command under way, to be used as a Popen is. It leads a session of its own."""

    def __init__(
        self, address: str, words: tuple[str, ...], environment: Mapping[str, str], *given: int
    ) -> None:
        self.args = ("zbackup", *words)
        self.returncode: int | None = None
        self._said = [os.fdopen(os.memfd_create("said"), "r+") for _ in range(2)]
        order = json.dumps({"words": words, "environment": {**os.environ, **environment}}).encode()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(address)
        socket.send_fds(
            self._server, [len(order).to_bytes(WORD)], [*(said.fileno() for said in self._said), *given]
        )
        self._server.sendall(order)
        self.pid = int.from_bytes(_exactly(self._server, WORD))

    def poll(self) -> int | None:
        """Its exit status (-N: ended by signal N) if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; returns its exit status. Raises TimeoutExpired after so many seconds."""
        if self.returncode is None:
            if not select.select([self._server], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int.from_bytes(_exactly(self._server, WORD), signed=True)
            self._server.close()
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait as `wait` does; returns what it said on standard output and on standard error."""
        self.wait(timeout)
        for said in self._said:
            said.seek(0)
        out, err = (said.read() for said in self._said)
        return out, err

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """Runs commands at the server that listens at the address."""

    def __init__(self, address: Path) -> None:
        self.address = str(address)

    def begin(self, words: tuple[str, ...], environment: Mapping[str, str], *given: int) -> Begun:
        """Start a command, whose standard input may be `given`."""
        return Begun(self.address, words, environment, *given)

    def run(
        self, words: tuple[str, ...], environment: Mapping[str, str], limit: float
    ) -> tuple[int, str, str]:
        """Its exit status (-N: ended by signal N) and what it said. AssertionError after `limit` seconds."""
        begun = self.begin(words, environment)
        try:
            out, err = begun.communicate(limit)
        except subprocess.TimeoutExpired:
            os.killpg(begun.pid, signal.SIGKILL)
            begun.communicate()
            raise AssertionError(f"no end within {limit:g} s: zbackup {' '.join(words)}") from None
        return begun.wait(), out, err


_PROGRAM = """#!{python} -IS
import json, os, socket, sys
order = json.dumps({{"words": sys.argv[1:], "environment": dict(os.environ)}}).encode()
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    socket.send_fds(server, [len(order).to_bytes({word})], [1, 2])
    server.sendall(order)
    with server.makefile("rb") as answers:
        answers.read({word})
        status = int.from_bytes(answers.read({word}), signed=True)
sys.exit(status if status >= 0 else 128 - status)
"""


def program(forks: "Forks", place: Path) -> Path:
    """A program for a shell, in the directory `place`, that has each command run at the server."""
    made = place / "zbackup"
    made.write_text(_PROGRAM.format(python=sys.executable, address=forks.address, word=WORD))
    made.chmod(0o755)
    return made


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
def shared(*modules: str) -> Forks:
    """The server of this process, started when it is first asked for; it ends when this process does.

    `modules` are what commands import only when they need it: there is one server for each such choice.
    """
    stack = contextlib.ExitStack()
    home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="zforks-")))
    server = stack.enter_context(forks(home, *modules))
    atexit.register(stack.close)
    return server


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
        length, said, _, _ = socket.recv_fds(asking, WORD, 3)
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
    """Leave what is the server's, and take the output that was given, and the input if it was."""
    os.setsid()
    _map_memory()
    for asking in sockets:
        asking.close()
    for descriptor in descriptors:
        os.close(descriptor)
    for ours, theirs in zip(said, (1, 2, 0), strict=False):
        os.dup2(ours, theirs)
        os.close(ours)


if __name__ == "__main__":
    serve(*sys.argv[1:])
