"""Transactions of a log as lines for people, and as JSON for scripts."""

from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import ZoneInfo

from zbackup.cli import prose
from zbackup.cli.output import plain
from zbackup.cli.tables import size as size_text
from zbackup.model.command_line import command_line
from zbackup.model.log import how_many
from zbackup.model.log_entry import LogEntry, LogRead
from zbackup.model.moment import local_text

MOST_TABLES = 4
"""Tables that are named in a line; of more only how many there are."""
INDENT = "    "
LEAST_TEXT = 20
"""Columns that a statement needs at the least to share a line."""


class LogLines:
    """The lines of one listing. A transaction that is longer than `width`, if that is not 0, has a line of
    what was done when, and one of its names and its statement, of which alone the end is cut.

    `by_size`: the largest comes first, and is what matters; else that is the last drop or truncate, or the
    last of all. `at`: the destination that was looked at.
    """

    def __init__(
        self, zone: ZoneInfo, instance: str, engine: str, width: int = 0, *, by_size: bool, at: str = ""
    ) -> None:
        self._zone, self._instance, self._engine = zone, instance, engine
        self._width, self._by_size, self._at = width, by_size, at
        self._count = 0
        self._first: LogEntry | None = None
        self._last: LogEntry | None = None
        self._harm: LogEntry | None = None

    def saw(self, entry: LogEntry) -> None:
        """Take it in for the last line."""
        self._count += 1
        self._first, self._last = self._first or entry, entry
        if not {"drop", "truncate"}.isdisjoint(entry.kinds()):
            self._harm = entry

    def line(self, entry: LogEntry) -> str:
        """One transaction."""
        self.saw(entry)
        text = in_words(entry, self._zone)
        if not self._width or len(text) <= self._width:
            return text
        return "\n".join(_folded(entry, self._zone, self._width))

    def restore(self) -> str:
        """The command that restores to just before the one that matters; "" if there is none."""
        entry = self._first if self._by_size else self._harm or self._last
        if entry is None:
            return ""
        subject = entry.transaction
        if self._engine == "mongodb":
            where = ("--to-timestamp", subject.start.partition("@")[0])
        else:
            where = ("--before", subject.gtid or subject.start)
        origin = ("--from", self._at) if self._at else ()
        return command_line("zbackup", "restore", self._instance, *where, *origin)

    def end(self, reads: Sequence[LogRead]) -> Iterator[str]:
        """What was read, and the command that follows."""
        size = size_text(sum(read.size for read in reads))
        files = how_many(sum(read.lost is None for read in reads), "file", "files")
        yield f"{how_many(self._count)} of {files} of the log, {size}."
        if command := self.restore():
            yield f"To restore to just before {self._which()}: {command}"

    def _which(self) -> str:
        if self._by_size:
            return "the largest"
        if self._harm is not None and self._harm is not self._last:
            return "the last drop or truncate"
        return "the last one" if self._count > 1 else "it"


def gaps(reads: Sequence[LogRead], zone: ZoneInfo) -> str:
    """Of log that is lost from before what is promised, in one sentence."""
    lost = [read.lost for read in reads if read.lost]
    since = min((each.since for each in lost if each.since), default=None)
    until = local_text(max(each.until for each in lost if each.until), zone)
    when = f"between {local_text(since, zone)} and {until}" if since else f"up to {until}"
    return (
        f"the log has {how_many(len(lost), 'gap', 'gaps')} {when}, before the window that is promised: what "
        "happened there is not shown"
    )


def in_words(entry: LogEntry, zone: ZoneInfo) -> str:
    """A transaction on one line."""
    subject = entry.transaction
    when = local_text(subject.committed, zone)
    parts = [when, subject.gtid, subject.start, *_done(entry), _statement(entry)]
    return "  ".join(part for part in parts if part)


def _folded(entry: LogEntry, zone: ZoneInfo, width: int) -> list[str]:
    when, subject = local_text(entry.transaction.committed, zone), entry.transaction
    lines = prose.folded("  ".join((when, *_done(entry))), width)
    names, statement = "  ".join(filter(None, (subject.gtid, subject.start))), _statement(entry)
    begins = f"{INDENT}{names}  "
    if width - len(begins) < min(len(statement), LEAST_TEXT):
        lines, begins = [*lines, begins.rstrip()], INDENT
    room = max(width - len(begins), 1)
    last = begins + (f"{statement[: room - 1]}…" if len(statement) > room else statement)
    return [*lines, last.rstrip()] if last.strip() else lines


def _done(entry: LogEntry) -> list[str]:
    parts = [what(entry), f"{how_many(entry.events, 'event', 'events')}, {size_text(entry.size)}"]
    return [
        *parts,
        *([f"thread {entry.thread}"] if entry.thread else []),
        *([entry.user] if entry.user else []),
    ]


def _statement(entry: LogEntry) -> str:
    return " ".join(entry.text.split())


def what(entry: LogEntry) -> str:
    """What it did to which tables, in short."""
    named = [f"{each.name or '-'} {'+'.join(_told(each.kinds))}".strip() for each in entry.tables]
    if len(named) > MOST_TABLES:
        named = [*named[:MOST_TABLES], f"and {len(named) - MOST_TABLES} more"]
    said = ", ".join(named) or "-"
    said += " (by text)" if entry.by_text else ""
    said += " (prepared)" if entry.prepared else ""
    return said + (f" (no replay beyond it: {entry.stops_replay})" if entry.stops_replay else "")


def _told(kinds: Sequence[str]) -> Sequence[str]:
    """Leave out "ddl" beside other kinds: that a drop is DDL goes without saying."""
    return [kind for kind in kinds if kind != "ddl"] or kinds


def entry_shape(entry: LogEntry) -> dict[str, Any]:
    """One transaction as JSON."""
    subject = entry.transaction
    return {
        "committed": plain(subject.committed),
        "gtid": subject.gtid or None,
        "start": subject.start,
        "end": subject.end,
        "tables": [{"name": each.name, "kinds": list(each.kinds)} for each in entry.tables],
        "events": entry.events,
        "bytes": entry.size,
        "thread": entry.thread or None,
        "user": entry.user or None,
        "text": entry.text or None,
        "by_text": entry.by_text,
        "prepared": entry.prepared,
        "stops_replay": entry.stops_replay or None,
    }


def read_shape(read: LogRead) -> dict[str, Any]:
    """What was read of one file, as JSON."""
    return {
        "name": read.name,
        "bytes": read.size,
        "end": read.end or None,
        "problem": read.problem or None,
        "damaged": read.damaged,
        "torn": read.torn,
        "lost": read.lost is not None,
    }
