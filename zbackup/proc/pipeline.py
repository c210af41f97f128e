"""Bytes from one program to another: throttled, counted, in bounded memory, and both ends' failures told.

The bytes pass this process by splice(2): from pipe to pipe, without being copied.
"""

import contextlib
import errno
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fcntl import F_SETPIPE_SZ, fcntl
from typing import IO

from zbackup.model.errors import CommandFailed, Stopped
from zbackup.model.event_log import log
from zbackup.proc.start import NOTHING, PIPE, Child, TimedOut, start

# What an unprivileged process may set a pipe to (pipe(7), pipe-max-size).
PIPE_SIZE = 1 << 20

# How often a throttled stream is let go on: short enough to be even, long enough to be cheap.
SLICE_S = 0.1

TELL_EVERY_S = 0.5

# The other end has lost its input or its reader by then, and has nothing to do but say so.
END_LIMIT_S = 60.0

MOST_SAID = 16_384


def _never() -> bool:
    return False


def _tell_nobody(_: int) -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """The meter that a stream passes: at most `limit` bytes a second (0: as they come).

    `moved` is told now and then how many bytes have passed; the stream is cut when `stop` says so.
    """

    limit: int = 0
    moved: Callable[[int], None] = _tell_nobody
    stop: Callable[[], bool] = _never


@dataclass(slots=True)
class Pace:
    """The pace of a stream, as its meter wants it."""

    meter: Meter
    count: int = 0
    began: float = field(default_factory=time.monotonic)

    def passed(self, count: int) -> None:
        """Count bytes more; wait if that was too fast. Raise Stopped when the meter says so."""
        self.count += count
        self.meter.moved(self.count)
        if self.meter.stop():
            raise Stopped(("zfs", "send"), -1, "zbackup was told to end")
        if self.meter.limit and (wait := self.count / self.meter.limit - (time.monotonic() - self.began)) > 0:
            time.sleep(wait)


@dataclass(frozen=True, slots=True)
class Head:
    """The first `size` bytes of an input, and what raises an error unless they may begin it."""

    size: int
    require: Callable[[bytes], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One end of a pipeline: what is run, and what its failure is called.

    `failure` makes an error of an exit status and what was said on stderr. A program with a `head` gets no
    byte of its input before that has been looked at.
    """

    argv: tuple[str, ...]
    failure: Callable[[int, str], CommandFailed]
    head: Head | None = None


@dataclass(slots=True)
class _RunningCommand:
    command: Command
    process: Child[bytes]
    said: IO[bytes]
    ended_by_us: bool = field(default=False)

    def end(self) -> int:
        """Wait for it; one that does not end although there is nothing left to do is ended."""
        try:
            return self.process.wait(timeout=END_LIMIT_S)
        except TimedOut:
            self.kill()
            return self.process.wait()

    def kill(self) -> None:
        self.ended_by_us = True
        self.process.kill()

    def stderr(self) -> str:
        self.said.seek(0, os.SEEK_END)
        self.said.seek(max(0, self.said.tell() - MOST_SAID))
        return self.said.read().decode(errors="surrogateescape")

    def failure(self, status: int, other: str = "", said: str = "") -> CommandFailed:
        """Its failure, judged by what it said itself, with the last that the `other` end said behind it."""
        found = self.command.failure(status, said or self.stderr())
        if lines := other.strip().splitlines():
            found.args = (f"{found}; the other end said: {lines[-1].strip()}",)
            found.stderr = f"{found.stderr.rstrip()}\n{other}"
        return found


@contextmanager
def reading(sender: Command) -> Iterator[IO[bytes]]:
    """A program's output, to be read to its end. Raise the sender's failure if it did not end well.

    Left early, by an exception, the program is ended.
    """
    with _started(sender, stdin=NOTHING, stdout=PIPE) as running:
        source = running.process.stdout
        if source is None:
            raise AssertionError("it was started with a pipe")
        with contextlib.suppress(OSError):
            fcntl(source.fileno(), F_SETPIPE_SZ, PIPE_SIZE)
        yield source
        source.close()
        if (status := running.end()) != 0:
            raise running.failure(status)


@contextmanager
def writing(receiver: Command) -> Iterator[Callable[[bytes | bytearray | memoryview], None]]:
    """A program's input: what is called with its next bytes. Raise its failure if it did not end well.

    Left early, by an exception, the program is ended: what it has got by then is not the end of the input.
    """
    with _started(receiver, stdin=PIPE, stdout=NOTHING) as running:
        sink = running.process.stdin
        if sink is None:
            raise AssertionError("it was started with a pipe")
        descriptor = sink.fileno()
        with contextlib.suppress(OSError):
            fcntl(descriptor, F_SETPIPE_SZ, PIPE_SIZE)

        checked = _HeadCheck(receiver.head, descriptor)
        try:
            yield checked.write
            checked.end()
        except BrokenPipeError as broken:
            raise running.failure(running.end() or -1) from broken
        sink.close()
        if (status := running.end()) != 0:
            raise running.failure(status)


@dataclass(slots=True)
class _HeadCheck:
    """Writes to a descriptor, and looks at the head first."""

    head: Head | None
    descriptor: int
    kept: bytes = b""

    def write(self, content: bytes | bytearray | memoryview) -> None:
        with memoryview(content) as view:
            if self.head is None:
                _write(self.descriptor, view)
                return
            lacking = self.head.size - len(self.kept)
            self.kept += bytes(view[:lacking])
            if len(self.kept) == self.head.size:
                self.end()
                _write(self.descriptor, view[lacking:])

    def end(self) -> None:
        """Let through what was kept, if it may begin the input."""
        if self.head is not None:
            self.head.require(self.kept)
            self.head = None
            _write(self.descriptor, memoryview(self.kept))


def _write(descriptor: int, view: memoryview) -> None:
    at = 0
    while at < len(view):
        at += os.write(descriptor, view[at : at + PIPE_SIZE])


def transfer(sender: Command, receiver: Command, meter: Meter) -> int:
    """Run both, pass on what the sender writes, and return how many bytes that were.

    Raise the failure of the end that failed first, with what the other said behind it: the receiver's, unless
    the sender ended by itself before. Raise Stopped when the meter says so; both ends are gone then.
    """
    with (
        _started(receiver, stdin=PIPE, stdout=NOTHING) as receiving,
        _started(sender, stdin=NOTHING, stdout=PIPE) as sending,
    ):
        source, sink = sending.process.stdout, receiving.process.stdin
        if source is None or sink is None:
            raise AssertionError("they were started with pipes")
        begun = _pass_head(receiver.head, source.fileno(), sink.fileno(), sending)
        count, broken = _pass_on(source.fileno(), sink.fileno(), meter, begun)
        if broken:
            sending.kill()
        _close(source)
        _close(sink)
        _judge(sending, receiving, count)
        return count


def _pass_head(head: Head | None, source: int, sink: int, sending: _RunningCommand) -> int:
    """Look at the head and pass it on: how many bytes. Raise what is wrong with it, unless it is that the
    sender failed."""
    if head is None:
        return 0
    found = b""
    while len(found) < head.size and (more := os.read(source, head.size - len(found))):
        found += more
    if len(found) < head.size and (status := sending.end()) != 0:
        raise sending.failure(status)
    head.require(found)
    with contextlib.suppress(BrokenPipeError):  # it ended before its input did: it is asked why
        _write(sink, memoryview(found))
    return len(found)


def _judge(sending: _RunningCommand, receiving: _RunningCommand, count: int) -> None:
    sent, received = sending.end(), receiving.end()
    log.debug("stream.ended", bytes=count, sender=sent, receiver=received)
    if sent != 0 and not sending.ended_by_us:
        raise sending.failure(sent, receiving.stderr())
    if received != 0:
        raise receiving.failure(received, sending.stderr())
    if sent != 0:
        raise receiving.failure(-1, said="it ended well before the stream did")


def _pass_on(source: int, sink: int, meter: Meter, begun: int = 0) -> tuple[int, bool]:
    """Until the end of the source: bytes passed, `begun` of them before, and whether the sink was gone."""
    for descriptor in (source, sink):
        with contextlib.suppress(OSError):
            fcntl(descriptor, F_SETPIPE_SZ, PIPE_SIZE)
    step = max(1, min(PIPE_SIZE, int(meter.limit * SLICE_S))) if meter.limit else PIPE_SIZE
    count, began = begun, time.monotonic()
    told = began
    while True:
        try:
            passed = os.splice(source, sink, step)
        except OSError as failure:
            if failure.errno == errno.EPIPE:
                return count, True
            raise
        if not passed:
            meter.moved(count)
            return count, False
        count += passed
        now = time.monotonic()
        if now - told >= TELL_EVERY_S:
            meter.moved(count)
            told = now
        if meter.stop():
            raise Stopped(("zfs", "send"), -1, "zbackup was told to end")
        if meter.limit and (ahead := count / meter.limit - (now - began)) > 0:
            time.sleep(ahead)


@contextmanager
def _started(command: Command, *, stdin: int, stdout: int) -> Iterator[_RunningCommand]:
    log.debug("command.started", argv=command.argv)
    with tempfile.TemporaryFile() as said:
        process = start(command.argv, stdin=stdin, stdout=stdout, stderr=said)
        running = _RunningCommand(command, process, said)
        try:
            yield running
        finally:
            if process.poll() is None:
                running.kill()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    _close(pipe)
            process.wait()


def _close(pipe: IO[bytes]) -> None:
    """Its other end may be gone, with what was still to be written."""
    with contextlib.suppress(BrokenPipeError):
        pipe.close()


def local(argv: Sequence[str]) -> Command:
    """A program on this host."""
    words = tuple(argv)
    return Command(argv=words, failure=lambda status, said: CommandFailed(words, status, said))
