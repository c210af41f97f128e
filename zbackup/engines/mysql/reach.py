"""How far a backup's data reaches, by its own binlog. Pure."""

from datetime import datetime

from zbackup.model.record import Record
from zbackup.model.recovery import Reach


def reach(record: Record, last: datetime | None, begun: datetime | None) -> Reach:
    """From the last commit in a backup's log, and the newest file's beginning.

    A log that holds no transaction says nothing of when the last one was, but it was not after the snapshot.
    A primary's data may be younger than the last commit in its log: that of a recovered server put to work
    came with the files. All of it was there when the server began its newest log file. A replica's log
    carries its source's times, and what the source had committed may not have reached it yet.
    """
    if last is None:
        return Reach(as_of=record.taken, complete_to=record.taken)
    if record.role == "replica":
        return Reach(as_of=last, complete_to=last)
    return Reach(as_of=max(last, begun or last), complete_to=record.taken)
