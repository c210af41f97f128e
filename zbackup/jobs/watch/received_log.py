"""Look at the log that is archived on a host that receives backups, by listings alone."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from zbackup.destinations.zfs_archive import LocalLogs
from zbackup.model.errors import CommandFailed, Refused, VerificationFailed
from zbackup.proc.run import Runner


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedLot:
    """The log of an instance that is archived below the dataset `home`: how many files and bytes, and how
    much they take there.

    `newest` is what the clock of the server's host said when its log was looked at last, and `age` how long
    ago that is; None where nothing is archived. `problems` are what is wrong with it, or why nobody can tell.
    """

    instance: str
    home: str
    files: int = 0
    size: int = 0
    stored: int = 0
    newest: datetime | None = None
    age: timedelta | None = None
    problems: tuple[str, ...] = ()


def archived_lots(runner: Runner, homes: Iterable[str], now: datetime) -> tuple[ArchivedLot, ...]:
    """One for each of the datasets that has an archive."""
    lots = (_lot(runner, home, now) for home in homes)
    return tuple(lot for lot in lots if lot.files or lot.problems)


def _lot(runner: Runner, home: str, now: datetime) -> ArchivedLot:
    instance = home.rpartition("/")[2]
    try:
        found = LocalLogs(home=home, address=home, runner=runner).archived()
    except (CommandFailed, OSError, Refused, VerificationFailed) as unknown:
        return ArchivedLot(instance=instance, home=home, problems=(str(unknown),))
    newest = max((each.last.read for each in found.files), default=None)
    return ArchivedLot(
        instance=instance,
        home=home,
        files=len(found.files),
        size=sum(each.size for each in found.files),
        stored=sum(each.stored for each in found.files),
        newest=newest,
        # One from the future is not newer: a clock was wrong.
        age=max(now - newest, timedelta()) if newest else None,
        problems=found.problems,
    )
