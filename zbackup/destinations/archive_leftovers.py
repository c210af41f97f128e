"""Leftovers of removals of archived log that were cut short: nothing of them counts."""

from zbackup.destinations.base import Archiving
from zbackup.model.archive import LogFileId
from zbackup.model.errors import (
    BucketRefused,
    CommandFailed,
    ConnectionFailed,
    NoArchive,
    Refused,
    VerificationFailed,
)
from zbackup.model.event_log import log


def leftovers(session: Archiving) -> tuple[LogFileId, ...]:
    """List them; none where the archive cannot be looked at. Raise ConnectionFailed."""
    try:
        return session.archived().leftovers
    except ConnectionFailed:
        raise
    except (CommandFailed, NoArchive, Refused, VerificationFailed):
        return ()


def remove_leftovers(session: Archiving) -> tuple[str, ...]:
    """Take them away; return what they were, for people. One that has to stay keeps no other."""
    removed = []
    for file in leftovers(session):
        try:
            session.remove_log(file)
        except ConnectionFailed:
            raise
        except (BucketRefused, CommandFailed, Refused, VerificationFailed) as failure:
            log.warning("prune.leftover_stays", file=str(file), why=str(failure))
        else:
            removed.append(orphan(file))
    return tuple(removed)


def orphan(file: LogFileId) -> str:
    """One of them, for people."""
    return f"archived log {file}, whose removal was cut short"
