"""Look at what a destination has: its backups, and the log that was archived there behind them."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime

from zbackup.destinations.base import Archiving, Provable, Sealing, Session
from zbackup.destinations.copies import Copies
from zbackup.jobs.context import Context
from zbackup.model.archive import TAIL, ArchivedFile, ArchiveInventory, LogFileId, tail_hash
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed, ConnectionFailed, NoArchive, Refused, VerificationFailed
from zbackup.model.moment import local_text
from zbackup.plan.recovery.archived import (
    Carrier,
    Chain,
    Parting,
    carriers,
    chain_complete,
    oplog_end,
    parting,
)
from zbackup.proc.pipeline import Meter

NO_ARCHIVE = ArchiveInventory(address="")


@dataclass(frozen=True, slots=True)
class ArchivedCopies:
    """The backups at a destination, and those that archived log goes on from, each with the holder of the log
    that it is with that. `unknown` is why the archive could not be looked at, "" if it was."""

    copies: Copies
    archive: ArchiveInventory
    carried: tuple[tuple[Backup, Carrier], ...]
    unknown: str = ""

    @property
    def with_holders(self) -> Copies:
        """The backups, each holder of archived log behind its backup."""
        holders = tuple(holder for holder, _ in self.carried)
        backups = sorted((*self.copies.backups, *holders), key=lambda b: (b.createtxg, b.record.backup))
        return replace(self.copies, backups=tuple(backups))

    def carrier(self, holder: Backup) -> Carrier | None:
        """Return what a holder of the log is made of; None for a backup that lies there as it is."""
        return next((carrier for each, carrier in self.carried if each is holder), None)

    def real(self, backup: Backup) -> Backup:
        """The backup that lies there."""
        carrier = self.carrier(backup)
        return carrier.backup if carrier else backup

    @property
    def ends(self) -> tuple[str, ...]:
        """Return why archived log does not lead as far as the archive reaches, for each backup that it goes
        on from."""
        return tuple(c.chains[0].why for _, c in self.carried if c.chains[0].why)


def archived_log(session: Session) -> tuple[ArchiveInventory, str]:
    """Return what is archived there, and why that cannot be told, "" if it can.

    What is wrong with an archive keeps nobody from the backups. Raise ConnectionFailed.
    """
    if not isinstance(session, Archiving):
        return NO_ARCHIVE, ""
    try:
        return session.archived(), ""
    except NoArchive:
        return NO_ARCHIVE, ""
    except ConnectionFailed:
        raise
    except (CommandFailed, Refused, VerificationFailed) as unknown:
        return NO_ARCHIVE, str(unknown)


def archived_copies(session: Session, copies: Copies, epoch: int | None = None) -> ArchivedCopies:
    """These backups of the destination with what is archived there; one more look. `epoch`: newer ones do
    not count."""
    archive, unknown = archived_log(session)
    if epoch is not None:
        archive = replace(archive, files=tuple(f for f in archive.files if f.file.epoch <= epoch))
    carried = tuple((each.holder, each) for each in carriers(copies.backups, archive))
    return ArchivedCopies(copies, archive, carried, unknown)


def bytes_in_backup(carrier: Carrier) -> int:
    """Bytes of the first file that the backup has itself: they are compared, and not fetched."""
    record = carrier.backup.record
    return 0 if oplog_end(record) else int(record.log_to.rpartition(":")[2])


def parted(session: Archiving, carrier: Carrier, chain: Chain) -> Iterator[tuple[Parting, datetime | None]]:
    """The ways that part from the chain, where that is, and up to when all that was committed is in both."""
    offset, first = bytes_in_backup(carrier), chain.files[0]

    def tail(file: ArchivedFile, size: int) -> str:
        return tail_hash(b"".join(session.read_log(file.file, max(0, size - TAIL), size, Meter())))

    def begins_same(one: ArchivedFile, longer: ArchivedFile) -> bool:
        return one.file.head == longer.file.head and tail(longer, one.size) == one.last.tail

    def proves(other: ArchivedFile) -> bool:
        """A damaged file proves nothing."""
        with suppress(VerificationFailed):
            return other.file.head == first.file.head and tail(other, offset) == tail(first, offset)
        return False

    ways = [*chain.forks]
    ways += [c.files for c in carrier.chains if c.files[0] != first and proves(c.files[0])]
    for way in ways:
        if found := parting(chain.files, way, begins_same):
            common = [c for c in (found.common, carrier.backup.record.complete_to) if c]
            yield found, max(common, default=None)


def undisputed(session: Session, there: ArchivedCopies) -> tuple[Backup, ...]:
    """The backups, each with archived log behind it no farther than where that goes two ways."""
    ends: dict[str, datetime] = {}
    for holder, carrier in there.carried:
        if isinstance(session, Archiving) and oplog_end(carrier.backup.record) is None:
            for _, common in parted(session, carrier, carrier.chains[0]):
                end = common or carrier.backup.record.taken
                ends[holder.record.backup] = min(end, ends.get(holder.record.backup, end))
    return tuple(
        replace(b, record=replace(b.record, complete_to=ends[b.record.backup]))
        if b.record.backup in ends
        else b
        for b in there.with_holders.backups
    )


def require_readable_log(session: Session, carrier: Carrier | None) -> None:
    """Raise PrivateKeyElsewhere, before anything is fetched, where the archived log cannot be read here.

    Each file's end is asked: with another public key since, one needs the private keys of both.
    """
    if carrier and isinstance(session, Sealing):
        for each in carrier.chains[0].files:
            session.require_log_key(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLog:
    """The archived log at a destination that was verified: how many files and bytes are there, how many bytes
    were read and proven, up to when all that was committed can be restored with it, what is wrong with it,
    and where it ends before the archive does."""

    files: int
    size: int
    read: int
    complete_to: datetime | None
    problems: tuple[str, ...]
    ends: tuple[str, ...]


def check_log(ctx: Context, session: Session, copies: Copies, most: int, meter: Meter) -> CheckedLog | None:
    """Prove what is archived there: by the listing, and up to `most` bytes by their hashes, the newest first
    (0: all, -1: none; of a bucket all or none). None where nothing is archived.

    Of what is read from its beginning on it is also proven up to when it is complete; of the rest its name
    is believed.
    """
    there = archived_copies(session, copies)
    files, read, problems = there.archive.files, 0, [*there.archive.problems, *filter(None, [there.unknown])]
    if not (files or problems) or not isinstance(session, Archiving):
        return None
    budget = 0 if most < 0 or (most and isinstance(session, Provable)) else most or sum(f.size for f in files)
    proven: dict[LogFileId, datetime | None] = {}
    for each in sorted(files, key=lambda f: (f.last.read, f.file), reverse=True):
        wanted = min(each.size, budget - read)
        if wanted <= 0:
            continue
        ctx.progress.phase("reading archived log", each.file.name)
        try:
            read += _read(session, each, each.size - wanted, meter)
            if wanted == each.size and each.complete_to:
                proven[each.file] = _proven(ctx, session, each, problems)
        except VerificationFailed as wrong:
            problems.append(f"archived log: {wrong}")
    ends = [
        chain_complete(c.chains[0].files, lambda f: proven.get(f.file, f.complete_to))
        for _, c in there.carried
    ]
    return CheckedLog(
        files=len(files),
        size=sum(f.size for f in files),
        read=read,
        complete_to=max((end for end in ends if end), default=None),
        problems=tuple(problems),
        ends=there.ends,
    )


def _proven(ctx: Context, session: Archiving, archived: ArchivedFile, problems: list[str]) -> datetime | None:
    """Return up to when the file is proven to be complete; what its name says more is a problem."""
    found = session.proven_to(archived)
    if not _says_no_more(archived, found):
        # What it was when it was listed may have been folded since into more: that says so now.
        grown = (f for f in session.archived().files if f.file == archived.file and f.size > archived.size)
        found = next(filter(None, map(session.proven_to, grown)), found)
    if archived.complete_to and not _says_no_more(archived, found):
        said = local_text(archived.complete_to, ctx.zone)
        upto = f"up to {local_text(found, ctx.zone)} only" if found else "nowhere"
        problems.append(f"archived log: {archived.file} says that it is complete up to {said}, and is {upto}")
    return found


def _says_no_more(archived: ArchivedFile, proven: datetime | None) -> bool:
    """Whether the file's name says no more than is proven."""
    return archived.complete_to is None or (proven is not None and proven >= archived.complete_to)


def _read(session: Archiving, archived: ArchivedFile, begin: int, meter: Meter) -> int:
    """Bytes of the file's end that were proven. Raise VerificationFailed also where there are fewer."""
    count = sum(len(chunk) for chunk in session.read_log(archived.file, begin, archived.size, meter))
    if count != archived.size - begin:
        raise VerificationFailed(f"{archived.file} has {begin + count} bytes, and not {archived.size}")
    return count
