"""Decide what is appended to a log archive: what the server has, what was archived, what follows. Pure.

Nothing that is archived is ever overwritten. Where the server's log is not what was archived of it any more,
a new epoch begins with the first file that differs; what it continues is said only where that was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.model.archive import MOST_CHUNK, MOST_EPOCH, ArchivedFile, LogFileId
from zbackup.model.errors import Refused
from zbackup.model.written_log import WrittenFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Bytes of a file that are to be appended; see model.archive.Chunk. There may be none."""

    file: LogFileId
    source: WrittenFile
    begin: int
    end: int
    complete_to: datetime | None
    closed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivePlan:
    """The plan of a round: the steps in this order, and what is to be told of it in clauses; "" for nothing.

    `new_epoch`: why a new epoch begins. `gap`: what of the log is in no archive and never will be.
    """

    appends: tuple[Append, ...] = ()
    new_epoch: str = ""
    gap: str = ""


def plan_archive(
    server: str,
    archived: Sequence[ArchivedFile],
    here: Sequence[WrittenFile],
    most: int = MOST_CHUNK,
    begin: tuple[int, str] = (0, ""),
) -> ArchivePlan:
    """`archived` is everything there of the server, in order; `here` what it has, with `same` told of what is
    in the newest epoch. `most` is the largest append in bytes, and `begin` an epoch to begin, whatever
    was archived (0: none), and why. Raise Refused for what no archive can name."""
    if not here:
        return ArchivePlan()
    if begin[0]:
        return ArchivePlan(appends=_from(server, begin[0], None, here, {}, most), new_epoch=begin[1])
    epoch = newest_epoch(archived)
    there = {each.file.number: each for each in archived if each.file.epoch == epoch}
    if not there:
        return ArchivePlan(appends=_from(server, 0, None, here, {}, most))
    newest = there[max(there)]
    same = [file.number for file in here if file.same]
    if same and max(same) == newest.file.number:
        rest = [file for file in here if file.number >= newest.file.number]
        return ArchivePlan(appends=_from(server, epoch, epoch, rest, there, most))
    if here[0].number > newest.file.number:
        gap = f"of the log nothing is left from {newest.end} to {here[0].begins}"
        return ArchivePlan(appends=_from(server, epoch, None, here, {}, most), gap=gap)
    other, follows = here, here[0].follows
    if same:
        before = there[max(same)]
        other = [file for file in here if file.number > before.file.number]
        follows = epoch if before.closed else None
    return ArchivePlan(
        appends=_from(server, epoch + 1, follows, other, {}, most),
        new_epoch=f"the server's log is not what was archived up to {newest.end}",
    )


def newest_epoch(archived: Sequence[ArchivedFile]) -> int:
    """The newest of one server's epochs; 0 when there is nothing."""
    return max((each.file.epoch for each in archived), default=0)


def is_behind(plan: ArchivePlan) -> bool:
    """Whether the archive lacks anything that was found."""
    return any(append.end > append.begin for append in plan.appends)


def _from(
    server: str,
    epoch: int,
    follows: int | None,
    here: Sequence[WrittenFile],
    there: dict[int, ArchivedFile],
    most: int,
) -> tuple[Append, ...]:
    """These files, the first of which follows that epoch; `there` is what they go on from."""
    found: list[Append] = []
    for number, source in enumerate(here):
        known = there.get(source.number)
        file = known.file if known else _named(server, epoch, epoch if number else follows, source)
        begin = known.size if known else 0
        if (known and known.closed) or (source.size == begin and not source.closed):
            continue
        found += _pieces(file, source, begin, most)
    return tuple(found)


def _named(server: str, epoch: int, follows: int | None, source: WrittenFile) -> LogFileId:
    if epoch > MOST_EPOCH:
        raise Refused(
            f"the log archive has an epoch {MOST_EPOCH} of {server}, behind which there is no other: nobody "
            "archived so often; remove what has that number there"
        )
    try:
        return LogFileId(
            server=server,
            epoch=epoch,
            number=source.number,
            follows=follows,
            head=source.head,
            name=source.name,
        )
    except ValueError as strange:
        raise Refused(
            f"{source.name!a} cannot be archived: its name may have letters, digits, dots, dashes and "
            "underscores only; set log_bin to such a name"
        ) from strange


def _pieces(file: LogFileId, source: WrittenFile, begin: int, most: int) -> list[Append]:
    """Cut it into appends that are not too large. Only the last is known to end between transactions, but
    where the file says where they may end."""
    ends = [cut for cut in source.cuts if cut > begin] or [
        *range(begin + most, source.size, most),
        source.size,
    ]
    begins = [begin, *ends[:-1]]
    return [
        Append(
            file=file,
            source=source,
            begin=first,
            end=end,
            complete_to=source.complete_to if end == source.size else None,
            closed=source.closed and end == source.size,
        )
        for first, end in zip(begins, ends, strict=True)
    ]
