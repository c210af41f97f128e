"""Tell which archived log continues the log in which backups, and how far. Pure.

At a destination the archive is known by its listing alone. A file continues a backup if it is of its server,
has the number and name of the file that the backup's log ends in, and reaches beyond that position; which of
the epochs it is, the bytes tell when they are at hand, and until then when they were read: what was still the
server's log when the backup was taken is what the backup holds, and not what has the same name since a reset.
An oplog's files say in their names from where to where
they go: one continues a backup whose log ends between the two. From there on each file continues the one
before, as it was seen when it was archived: the archive counts up to the first hole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from zbackup.model import bounds
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, server_key
from zbackup.model.backup import Backup
from zbackup.model.log import LogSpan, position_of
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import ARCHIVED, LOG_HEAD, LOG_SIZE, Record
from zbackup.model.silence import Silence
from zbackup.plan.recovery.coverage import continues, log_known

_LOOKED: Final = timedelta(seconds=2)
"""From a reading of the clock to the end of the look that follows, and what a log's whole second may hide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Archived files of which each continues the one before, from that on in which a backup's log ends.

    `complete_to`: everything committed before it is in them, by what is listed of them, which nobody proved;
    None where none of them says. `why` tells why it ends before the archive does; "" if it does not. `forks`
    are files that continue one of these, too, and were given up for one of a newer epoch, each with those
    that continue it. `before` are those that the first one continues, where they hold what the backup itself
    may not have any more (an oplog's). `cut_off`: the last one is not there whole.
    """

    files: tuple[ArchivedFile, ...]
    complete_to: datetime | None
    why: str = ""
    forks: tuple[tuple[ArchivedFile, ...], ...] = ()
    before: tuple[ArchivedFile, ...] = ()
    cut_off: bool = False

    def cut(self, number: int, size: int) -> "Chain | None":
        """The same without what lies behind `size` bytes of its file at that index; None if that is all."""
        whole = self.files[:number]
        last = self.files[number]
        begun = (replace(last, last=_ended(last.last, size), complete_to=None),) if size else ()
        if not whole and not begun:
            return None
        return Chain(
            files=(*whole, *begun),
            complete_to=_complete(whole),
            why="what follows is damaged",
            before=self.before,
            cut_off=bool(begun),
        )

    @property
    def end(self) -> str:
        """The position in the log, in the server's words."""
        return self.files[-1].end

    @property
    def begin(self) -> str:
        """The position of the first entry in all of it; "" where that is for the backup to say."""
        return str((*self.before, *self.files)[0].file.begin or "")

    def contains(self, other: "Chain") -> bool:
        """Whether, by positions alone, it holds all of another one: who has an entry of a term has all
        before it."""
        end = other.files[-1].end_position
        known = (position for f in self.files for position in (f.file.begin, f.end_position) if position)
        return end is not None and any(p.term == end.term and p >= end for p in known)

    def silent_behind(self, record: Record) -> Silence | None:
        """What is told by the sizes: a file that others follow has got more than the backup has, unless its
        server crashed or was rolled back. When the next one was begun is known by when that was seen."""
        first = self.files[0]
        try:
            size = bounds.count(record.server.get(LOG_SIZE, ""))
        except ValueError:
            return None
        if first.file.begin or len(self.files) == 1 or first.size > size:
            return None
        return Silence(record.log_to, record.complete_to or record.taken, first.last.read + _LOOKED)

    def since(self, record: Record) -> "Chain":
        """The same from the file on in which that backup's log ends, which is older maybe."""
        end, every = oplog_end(record), (*self.before, *self.files)
        if end is None:
            return self
        later = [f for f in every if f.file.begin and f.file.begin.cluster_time > end.cluster_time]
        first = max(0, len(every) - len(later) - 1)
        return replace(self, files=every[first:], before=every[:first])


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """A backup that archived log continues. `chains` are in the order in which they are to be tried: which
    it is of several epochs, only the bytes tell."""

    backup: Backup
    chains: tuple[Chain, ...]

    @property
    def holder(self) -> Backup:
        """The backup with the archived log behind it, as one more holder of the log."""
        chain, record = self.chains[0], self.backup.record
        span = LogSpan(max(chain.begin, record.log_from, key=position_of), chain.end)
        held = with_archive(record, span, chain.complete_to)
        if silent := chain.silent_behind(record):
            held = held.with_silences((*record.silences, silent))
        return Backup(record=held, snapshots=self.backup.snapshots)

    def since(self, record: Record) -> "Carrier":
        """The same for a backup that may be older, and wants its log from where its own ends."""
        return replace(self, chains=tuple(chain.since(record) for chain in self.chains))


def with_archive(record: Record, span: LogSpan, complete_to: datetime | None) -> Record:
    """The record of a backup with archived log behind it, so far: good as a source of log only.

    Its position and GTIDs were those of the backup, and its clock's reading, too.
    """
    known = [each for each in (complete_to, record.complete_to) if each]
    complete = max(known, default=None)
    as_of = max([each for each in (complete, record.as_of) if each], default=None)
    return replace(
        record,
        backup=f"{record.backup}+archive",
        purpose="log",
        lock="none",
        position="",
        gtid="",
        clock=None,
        as_of=as_of,
        complete_to=complete,
        log_from=span.first,
        log_to=span.last,
        server=record.server | {ARCHIVED: "1"},
    )


def chains_from(record: Record, files: Sequence[ArchivedFile]) -> tuple[Chain, ...]:
    """All that may continue the backup's log, the newest epoch first: an older one was given up since. Of
    another log, which the server began later under the same names, last."""
    own = [f for f in files if f.file.server == server_key(record.server_uuid)]
    begins = begins_for(record, own)
    first = sorted(begins, key=lambda f: (_is_later_log(f, begins, record), -f.file.epoch))
    links = _Links(own)
    found = [_chain(f, own, links) for f in first]
    if oplog_end(record) is None:
        return tuple(found)
    reaching = [chain for chain in found if _passes(chain, record)]
    # One whose log another one holds, and more of it, is tried last.
    return tuple(sorted(reaching, key=lambda c: any(o.contains(c) and not c.contains(o) for o in reaching)))


def begins_for(record: Record, files: Sequence[ArchivedFile]) -> list[ArchivedFile]:
    """The files that may be the one in which the backup's log ends, one in each epoch."""
    server, end = server_key(record.server_uuid), oplog_end(record)
    if end:
        holding = [f for f in files if f.file.server == server and _is_within(end, f)]
        return list({f.file.epoch: f for f in sorted(holding, key=lambda f: f.file)}.values())
    name, _, offset = record.log_to.rpartition(":")
    # Records of older versions do not say it, and leave it to the bytes.
    head = record.server.get(LOG_HEAD)
    return [
        f
        for f in files
        if (f.file.server, f.file.name) == (server, name)
        and f.file.number == position_of(name)[-1]
        and f.size >= int(offset)
        and head in (None, f.file.head)
    ]


def is_other_log(one: ArchivedFile, other: ArchivedFile) -> bool:
    """Whether two files of one name were begun as two, as before a reset and after it."""
    return not one.file.begin and one.file.head != other.file.head


def _is_later_log(file: ArchivedFile, begins: Sequence[ArchivedFile], record: Record) -> bool:
    """Whether the server began this file's log only after the backup was taken: another one that the
    backup may end in, of an older epoch, was its log then, and was archived as such."""
    return any(
        each.file.epoch < file.file.epoch and is_other_log(each, file) and each.last.read >= record.taken
        for each in begins
    )


def oplog_end(record: Record) -> OplogPosition | None:
    """The position where a backup's oplog ends; None where its log is none. Of its term nothing is known."""
    try:
        return OplogPosition.parse(record.log_to)
    except ValueError:
        return None


def _is_within(end: OplogPosition, file: ArchivedFile) -> bool:
    begin, last = file.file.begin, file.end_position
    return bool(begin and last and begin.cluster_time <= end.cluster_time <= last.cluster_time)


def _passes(chain: Chain, record: Record) -> bool:
    """Whether it leads beyond what the backup was seen to hold."""
    last = chain.files[-1].end_position
    return last is not None and last.cluster_time >= position_of(record.position or record.log_to)[:2]


def carriers(backups: Sequence[Backup], archive: ArchiveInventory) -> tuple[Carrier, ...]:
    """The fewest backups that hold, with archived log behind them, all the log that any of them leads to.

    None behind which the server's log was not whole: what was archived since may lack something.
    """
    found: list[Carrier] = []
    known = [b for b in backups if b.complete and b.finished and log_known(b.record)]
    broken = [b for b in backups if b.record.breaks_log or b.record.log_ended]
    for backup in sorted(known, key=lambda b: (b.createtxg, b.record.backup), reverse=True):
        if any(continues(each.holder, backup) for each in found):
            continue
        if any(_is_behind(each, backup) for each in broken):
            continue
        if chains := chains_from(backup.record, archive.files):
            found.append(Carrier(backup=backup, chains=chains))
    return tuple(found)


def stranded(backups: Sequence[Backup], archive: ArchiveInventory, server: str) -> str:
    """Why no backup at a destination leads to the newest of a server's archived log; "" if one does."""
    newest = max(archive.of(server), key=lambda f: f.file, default=None)
    chains = (chain for each in carriers(backups, archive) for chain in each.chains)
    if newest is None or any(newest.file == f.file for chain in chains for f in chain.files):
        return ""
    if not backups:
        return "no backup has been shipped there yet"
    return f"no backup there leads to it: {newest.file.name} is of epoch {newest.file.epoch}"


def _is_behind(broken: Backup, backup: Backup) -> bool:
    same = broken.record.server_uuid == backup.record.server_uuid
    return same and broken.createtxg >= backup.createtxg


class _Links:
    """The files of one server, by which was seen to continue which."""

    def __init__(self, own: Sequence[ArchivedFile]) -> None:
        self._own: dict[tuple[int | None, int], ArchivedFile] = {
            (f.file.epoch, f.file.number): f for f in own
        }
        self._following: dict[tuple[int | None, int], list[ArchivedFile]] = {}
        for f in sorted(own, key=lambda f: f.file.epoch):
            self._following.setdefault((f.file.follows, f.file.number), []).append(f)

    def behind(self, file: ArchivedFile) -> list[ArchivedFile]:
        """The files that continue this one, the newest epoch last."""
        found = self._following.get((file.file.epoch, file.file.number + 1), ())
        return [f for f in found if f.continues(file)]

    def in_front(self, file: ArchivedFile) -> ArchivedFile | None:
        """The file that this one continues."""
        found = self._own.get((file.file.follows, file.file.number - 1))
        return found if found and file.continues(found) else None


def _chain(first: ArchivedFile, own: Sequence[ArchivedFile], links: _Links) -> Chain:
    chain, forks = [first], list[tuple[ArchivedFile, ...]]()
    while following := links.behind(chain[-1]):
        chain.append(following.pop())
        forks += (_row(fork, links) for fork in following)
    before: list[ArchivedFile] = []
    while first.file.begin and (older := links.in_front(before[-1] if before else first)):
        before.append(older)
    return Chain(
        files=tuple(chain),
        complete_to=chain_complete(chain, lambda f: f.complete_to),
        why=_why(chain[-1], own),
        forks=tuple(forks),
        before=tuple(reversed(before)),
    )


def _row(first: ArchivedFile, links: _Links) -> tuple[ArchivedFile, ...]:
    row = [first]
    while following := links.behind(row[-1]):
        row.append(following[-1])
    return tuple(row)


def _complete(files: Sequence[ArchivedFile]) -> datetime | None:
    return chain_complete(files, lambda f: f.complete_to)


def _ended(last: Chunk, size: int) -> Chunk:
    return replace(last, begin=size, end=size, complete_to=None, closed=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """The parting of archived log that counts from that of an `other` epoch, which leads up to `end`: in file
    `name`. All that was committed before `common` (None: not known) is in both."""

    name: str
    epoch: int
    other: int
    end: str
    common: datetime | None


def parting(
    counts: Sequence[ArchivedFile],
    other: Sequence[ArchivedFile],
    begins_same: Callable[[ArchivedFile, ArchivedFile], bool],
) -> Parting | None:
    """Where the other way holds what that which counts does not; None where it holds nothing else.

    `begins_same(one, longer)` tells whether the longer file begins with all the bytes of the one.
    """
    at = {f.file.number: n for n, f in enumerate(counts)}
    first = at[other[0].file.number]
    common = _complete(counts[:first])
    for number, each in enumerate(other):
        mine = counts[first + number] if first + number < len(counts) else None
        last = number == len(other) - 1
        if mine and each.size <= mine.size and (last or each.size == mine.size) and begins_same(each, mine):
            same = first + number + 1
            one, two = _complete(counts[:same]), _complete([*counts[:first], *other[: number + 1]])
            common = min(one, two) if one and two else common
            continue
        return Parting(
            name=each.file.name,
            epoch=(mine or counts[-1]).file.epoch,
            other=each.file.epoch,
            end=other[-1].end,
            common=common,
        )
    return None


def chain_complete(
    files: Sequence[ArchivedFile], said: Callable[[ArchivedFile], datetime | None]
) -> datetime | None:
    """Up to when everything committed is in files of which each continues the one before; see complete_of().

    `said` is what is known of one, and is asked of the last ones only.
    """
    bound: datetime | None = None
    for each in reversed(files):
        if complete := said(each):
            return min(complete, bound) if bound else complete
        bound = min(each.last.read, bound) if bound else each.last.read
    return None


def _why(last: ArchivedFile, own: Sequence[ArchivedFile]) -> str:
    """Return why there is no more of it, where there is more in the archive."""
    newer = [f for f in own if f.file > last.file]
    if not newer:
        return ""
    following = min(newer, key=lambda f: f.file)
    if following.file.epoch == last.file.epoch and (following.file.begin or not last.closed):
        return f"nothing was archived from {last.end} to {following.file.begin or following.file.name}"
    if last.closed:
        return (
            f"what follows {last.file.name} is missing: the next file archived is {following.file.name}, "
            "which was not seen to continue it"
        )
    return (
        f"the server's log went another way behind {last.end} (reset, rolled back, or cut "
        f"off by a crash): {following.file.name} begins another one"
    )
