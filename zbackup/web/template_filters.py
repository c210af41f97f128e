"""Values as people read them: what templates write."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from zbackup.model.moment import local_text, utc_text
from zbackup.model.printable import printable
from zbackup.plan.checked_tables import not_checked
from zbackup.plan.duration_text import exact_length, length
from zbackup.plan.size_text import size

ORDER = {"critical": 0, "warning": 1, "advice": 2, "ok": 3}


class Words:
    """The words for times of a page that was made `now`, in `zone`."""

    def __init__(self, zone: ZoneInfo, now: datetime) -> None:
        self.zone, self.now = zone, now

    def time(self, at: datetime | None) -> str:
        """A time to the second, with its zone."""
        return local_text(at.replace(microsecond=0), self.zone) if at else "-"

    def exact(self, at: datetime | None) -> str:
        """The same with all its digits."""
        return local_text(at, self.zone) if at else "-"

    def ago(self, at: datetime | None) -> str:
        """How long ago, or in how long."""
        if at is None:
            return "never"
        span = self.now - at
        return f"{length(span)} ago" if span >= timedelta() else f"in {length(-span)}"

    def due(self, at: datetime) -> str:
        """Tell in how long; what should have begun begins now."""
        return self.ago(at) if at > self.now else "now"

    def span(self, seconds: float | timedelta | None) -> str:
        """A length of time: exact where it is short enough for that to matter."""
        if seconds is None:
            return "-"
        span = seconds if isinstance(seconds, timedelta) else timedelta(seconds=seconds)
        return exact_length(span.total_seconds()) if span < timedelta(days=2) else length(span)

    def size(self, count: int) -> str:
        """Bytes."""
        return size(count)

    def not_checked(self, count: int) -> str:
        """Say behind the number of tables that a drill had checked how many were not; "" for none."""
        return not_checked(count)

    def plain(self, text: str) -> str:
        """Return what others named, without anything that moves a cursor."""
        return printable(text)

    def iso(self, at: datetime) -> str:
        """For addresses, to the second: `2024-05-01T08:02:00Z`."""
        return utc_text(at)
