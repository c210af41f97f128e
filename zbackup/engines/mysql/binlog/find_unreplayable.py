"""Search a log's files for what no server can replay on a clone."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.binlog.compressed import hides_text
from zbackup.engines.mysql.binlog.contents import read_contents
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted, BinlogTooOld
from zbackup.engines.mysql.binlog.events import FIRST_EVENT, Buffer
from zbackup.engines.mysql.binlog.files import sequence
from zbackup.engines.mysql.binlog.reader import describe, opened
from zbackup.engines.mysql.binlog.required_plugins import WORDS, Need
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.unreplayable import STOP_WORDS
from zbackup.engines.mysql.binlog.word_finder import WordFinder
from zbackup.model.log import LogPosition, Transaction
from zbackup.model.unreplayable import Unreplayable

_HEAD: Final = 256
_FLAGS: Final = (21, 23)
"""In a file's first event: a server clears one there when it leaves the file."""


_WORDS: Final = (*STOP_WORDS, *WORDS)

Lacking = Callable[[Need], str]
"""Tells why a server cannot do what needs this; "" where it can, or nobody knows."""


@dataclass(frozen=True, slots=True)
class _Stop:
    """`why` no server can replay it; with "" one can that has all of `needs`."""

    transaction: Transaction
    why: str
    needs: tuple[Need, ...]

    def told(self, lacking: Lacking) -> Unreplayable | None:
        """None where a server can replay it that lacks no more than this."""
        why = self.why or next(filter(None, map(lacking, self.needs)), "")
        return Unreplayable(self.transaction, why) if why else None


@dataclass(frozen=True, slots=True)
class _Seen:
    """The findings in a file from `since` on. No transaction begins before `between` and ends behind it; none
    of the words is anywhere before `searched` that was not looked at."""

    head: bytes
    since: int
    between: int
    searched: int
    stops: tuple[_Stop, ...] = ()


class SeenStops:
    """Remembers how far files were read that a server still writes: what is looked at every few minutes is
    read once.

    A file is known by its path and its first events, which tell when it was begun.
    """

    def __init__(self) -> None:
        self._seen: dict[Path, _Seen] = {}

    def forget_others(self, files: Sequence[Path]) -> None:
        """Forget those beside these, which are gone."""
        if files:
            for path in [p for p in tuple(self._seen) if p.parent == files[0].parent and p not in files]:
                self._seen.pop(path, None)

    def known(self, path: Path, data: Buffer, begin: int) -> _Seen:
        """What is known of the file from `begin` on."""
        head = data[: _FLAGS[0]] + data[_FLAGS[1] : _HEAD]
        seen = self._seen.get(path)
        if seen is None or seen.head != head or begin < seen.since or seen.searched > len(data):
            return _Seen(head, begin, begin, begin)
        if begin > seen.between:
            return _Seen(head, begin, begin, max(seen.searched, begin))
        return seen

    def learn(self, path: Path, seen: _Seen) -> None:
        """Remember it."""
        self._seen[path] = seen


LIVE: Final = SeenStops()
"""Stops that were seen in the logs of the servers that this process watches."""


def _nothing(_: Need) -> str:
    return ""


def find_unreplayable(
    files: Sequence[Path],
    start: LogPosition,
    end: LogPosition | None = None,
    seen: SeenStops | None = None,
    lacking: Lacking = _nothing,
) -> list[Unreplayable]:
    """The transactions from `start` on, and before `end`, that cannot be replayed on a clone, in log order.

    What is not damaged is read. `files` are of one log, oldest first. What is `seen` is not read again;
    `lacking` tells of the clone's server.
    """
    found: list[Unreplayable] = []
    memory = seen or SeenStops()
    memory.forget_others(files)
    for path in files:
        number = sequence(path.name)
        if number < start.sequence or (end and number > end.sequence):
            continue
        begin = start.offset if number == start.sequence else FIRST_EVENT
        limit = end.offset if end and number == end.sequence else None
        with suppress(BinlogDamaged, BinlogEncrypted, BinlogTooOld), opened(path, limit) as scanner:
            stops = (stop.told(lacking) for stop in _stops_in(path, scanner, begin, memory))
            found += filter(None, stops)
    return found


def _stops_in(path: Path, scanner: Scanner, begin: int, memory: SeenStops) -> list[_Stop]:
    data, known = scanner.data, memory.known(path, scanner.data, begin)
    finder = WordFinder(data, _WORDS)
    stops = list(known.stops)
    if not scanner.is_mariadb and finder.at(known.searched) > len(data):
        searched = max(known.searched, len(data) - max(map(len, _WORDS)) + 1)
        memory.learn(path, replace(known, searched=searched))
    else:
        with suppress(BinlogDamaged):
            _walk(path, scanner, known.between, finder, stops)
        reached = max(scanner.reached, known.between)
        memory.learn(path, replace(known, between=reached, searched=reached, stops=tuple(stops)))
    return [stop for stop in stops if LogPosition.parse(stop.transaction.start).offset >= begin]


def _walk(path: Path, scanner: Scanner, start: int, finder: WordFinder, stops: list[_Stop]) -> None:
    mariadb = scanner.is_mariadb
    for begin, end, committed in scanner.spans(start):
        if finder.at(begin) < end or (mariadb and hides_text(scanner.data, begin, end)):
            contents = read_contents(scanner, (begin, end))
            if contents.stops or contents.needs:
                subject = describe(path, scanner, (begin, end, committed)).described()
                stops.append(_Stop(subject, contents.stops, contents.needs))
