"""Tell when prune may remove what is there now: by days at first, and later by months. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from zbackup.model.overview import OverviewBackup

BY_DAY = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class LeavingBackups:
    """Backups (`count`, of `used` bytes), taken from `first` to `last`, that may go from `when` on."""

    when: datetime
    count: int
    used: int
    first: datetime
    last: datetime


def leaving(backups: Iterable[OverviewBackup], now: datetime, zone: ZoneInfo) -> tuple[LeavingBackups, ...]:
    """The backups that stay until a known time, the next first. None of them goes before its `when`."""
    dated = sorted(
        ((b.until, b) for b in backups if b.keep and b.until is not None and not b.forever),
        key=lambda pair: pair[0],
    )

    def day(pair: tuple[datetime, OverviewBackup]) -> tuple[int, int, int]:
        local = pair[0].astimezone(zone)
        return local.year, local.month, local.day if pair[0] - now < BY_DAY else 0

    groups = ([*found] for _, found in groupby(dated, day))
    return tuple(
        LeavingBackups(
            each[0][0],
            len(each),
            sum(b.used for _, b in each),
            min(b.taken for _, b in each),
            max(b.taken for _, b in each),
        )
        for each in groups
    )
