"""The record of operations: a small file for each, in a directory that root writes to and the reader sees.

It is in the run directory, so a reboot, after which no operation runs, empties it.
"""

import grp
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from zbackup.model.errors import Refused, Taken
from zbackup.model.event_log import log
from zbackup.model.operation import Operation
from zbackup.model.printable import printable
from zbackup.proc import secure_files
from zbackup.proc.detached import Process
from zbackup.proc.lock import exclusive
from zbackup.proc.run_directory import USER, daemon_directory

DIRECTORY = ".operations"
"""No clone's name begins with a dot."""
MOST_KEPT = 50
MOST_RUNNING = 4
LONG = ("create", "reset", "restore")
"""Verbs of which only MOST_RUNNING run at once. None of them keeps a lease from being extended, or room from
being freed."""
MOST_NOTES = 20
MOST_TEXT = 1000
EVERY_S = 0.5
"""Seconds between two notes of how far a phase is."""
MOST_STILL_S = 25 * 3600.0
"""Seconds that an operation may go on without a new phase, count or note; then it hangs, and is ended. A
server that replays says nothing meanwhile, and has a day for that; one that does nothing is ended long before
(engines.stall)."""
LET_GO_S = 900.0
"""Seconds that what is ended has to stop servers and to remove what it made, until it is told again."""
LIMIT = 1 << 18
"""Bytes of a record: all texts as long as they may be, in any script."""
_ONE = TypeAdapter(Operation)


@dataclass(frozen=True, slots=True)
class Operations:
    """All operations that there are a record of, in the run directory."""

    run_dir: Path

    @property
    def directory(self) -> Path:
        return self.run_dir / DIRECTORY

    def read(self) -> tuple[Operation, ...]:
        """All of them, the newest first. One whose process is gone was cut short."""
        try:
            names = secure_files.names(self.directory)
        except OSError:
            return ()
        found = [one for name in names if name.endswith(".json") if (one := self._one(name))]
        return tuple(sorted(found, key=lambda each: (each.began, each.id), reverse=True))

    def begin(self, wanted: Operation) -> bool:
        """Write down that it begins; False when it was asked for already. Raise Taken when too many long ones
        run."""
        self._prepare()
        with exclusive(daemon_directory(self.run_dir) / "zbackup.operations.lock", "zbackup helper --clones"):
            there = self.read()
            if any(each.id == wanted.id for each in there):
                return False
            running = [each for each in there if each.state == "running" and each.verb in LONG]
            if wanted.verb in LONG and len(running) >= MOST_RUNNING:
                raise Taken(f"{len(running)} operations run, and more are not begun: wait until one is done")
            for old in [each for each in there if each.state != "running"][MOST_KEPT - 1 :]:
                secure_files.unlink(self.directory / f"{old.id}.json")
            self.write(wanted)
        return True

    def write(self, one: Operation) -> None:
        """Write down how it is now."""
        secure_files.replace(self.directory / f"{one.id}.json", _ONE.dump_json(one).decode(), mode=0o640)

    def _prepare(self) -> None:
        group = os.getegid()
        with suppress(KeyError):
            group = grp.getgrnam(USER).gr_gid if os.geteuid() == 0 else group
        # What is made in it belongs to the group, which the reader is in.
        secure_files.make_directory(self.directory, mode=0o2750, owner=(os.geteuid(), group))

    def _one(self, name: str) -> Operation | None:
        try:
            one = _ONE.validate_json(secure_files.read_text(self.directory / name, LIMIT))
        except (OSError, Refused, ValidationError) as unreadable:
            log.warning("operation.unreadable", file=name, reason=str(unreadable))
            return None
        if one.state == "running" and not _lives(one.process):
            return replace(one, state="cut short", said="its process ended before it was done: ask again")
        return one


def _lives(process: str) -> bool:
    try:
        one = Process.parse(process)
    except ValueError:
        return False
    with suppress(PermissionError):
        if one.alive:
            return True
    return _is_hidden(one.pid)


def _is_hidden(pid: int) -> bool:
    """Whether there is a process of this number that we may not see (proc(5), hidepid)."""
    if os.access(f"/proc/{pid}/stat", os.R_OK):
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return False


def ourselves() -> str:
    """Tell this process from all others, as Operation.process has it."""
    return str(Process.of(os.getpid()))


class Noted:
    """Progress (see model.progress) that is written down for whoever looks later."""

    def __init__(
        self, operations: Operations, one: Operation, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._operations, self.one, self._clock = operations, one, clock
        self._written = self._moved = clock()

    def phase(self, name: str, detail: str = "") -> None:
        self._moved = self._clock()
        self._write(replace(self.one, phase=_short(name), detail=_short(detail), done=0, total=0))

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        if done != self.one.done:
            self._moved = self._clock()
        self.one = replace(self.one, done=done, total=total, unit=_short(unit))
        if self._clock() - self._written >= EVERY_S:
            self._write(self.one)

    def note(self, text: str) -> None:
        self._moved = self._clock()
        self._write(replace(self.one, notes=(*self.one.notes, _short(text))[-MOST_NOTES:]))

    def require_moving(self) -> None:
        """Raise KeyboardInterrupt, which ends all that is done as Ctrl-C does, where nothing has moved for
        too long: it would keep its place from others for ever."""
        now = self._clock()
        if now - self._moved > MOST_STILL_S:
            # Whoever is told a second time while he cleans up leaves what he made.
            self._moved = now - MOST_STILL_S + LET_GO_S
            where = f" in the phase {self.one.phase}" if self.one.phase else ""
            raise KeyboardInterrupt(f"nothing moved for {MOST_STILL_S / 3600:.0f} hours{where}: it was ended")

    def name(self, clone: str) -> None:
        """The clone has its name now."""
        self._write(replace(self.one, clone=clone))

    @contextmanager
    def ending(self, now: Callable[[], datetime]) -> Iterator[Callable[[str], None]]:
        """Write down how it ends: with what is told to what is yielded, or why it failed."""
        said = ""

        def say(text: str) -> None:
            nonlocal said
            said = _short(text)

        try:
            yield say
        except BaseException as failure:
            untold = (
                "it was told to end" if isinstance(failure, KeyboardInterrupt) else type(failure).__name__
            )
            why = _short(str(failure) or untold)
            self._write(replace(self.one, state="failed", said=why, ended=now()))
            raise
        self._write(replace(self.one, state="done", said=said, ended=now(), phase="", detail=""))

    def _write(self, one: Operation) -> None:
        self.one, self._written = one, self._clock()
        try:
            self._operations.write(one)
        except (OSError, Refused) as unwritable:
            # Nothing that is worked on fails for want of room in the run directory.
            log.warning("operation.not_written", operation=one.id, reason=str(unwritable))


def _short(text: str) -> str:
    plain = printable(" ".join(text.split()))
    return plain if len(plain) <= MOST_TEXT else f"{plain[: MOST_TEXT - 1]}…"
