"""Keep what somebody with the credentials saw at an address, for a page whose reader has none.

`zbackup fleet ADDRESS --report FILE` writes it, as root or as whoever may look there, as often as its timer
says; the reader of the page believes no file but root's and its own.
"""

import grp
import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from zbackup.model.errors import Refused
from zbackup.model.fleet import Fleet
from zbackup.plan.due import CLOCK_TOLERANCE
from zbackup.proc import secure_files
from zbackup.proc.run_directory import USER

LIMIT = 32 << 20
"""Bytes: 10,000 instances have room."""
OLD = timedelta(hours=24)
"""A report that is older tells of a timer that does not run."""
_FLEET = TypeAdapter(Fleet)


def write(path: Path, found: Fleet) -> None:
    """Write it in one step, for root, who we are and the user that the page is read by. Raise Refused."""
    group = os.getegid()
    if os.geteuid() == 0:
        with suppress(KeyError):
            group = grp.getgrnam(USER).gr_gid
    try:
        secure_files.ensure_directory(path.parent)
        owner = (os.geteuid(), group)
        secure_files.replace(path, _FLEET.dump_json(found).decode(), mode=0o640, owner=owner)
    except OSError as failure:
        raise Refused(f"the report cannot be written to {path}: {failure.strerror}") from failure


def read(path: Path, now: datetime) -> tuple[Fleet, str]:
    """Return the fleet as it was when somebody looked, and why that may not be how it is, "" where it may be.
    Raise Refused where it cannot be read, or is of somebody who is not believed."""
    try:
        with secure_files.open_regular(path) as file:
            there = os.fstat(file.fileno())
            if there.st_uid not in (0, os.geteuid()):
                raise Refused(f"the report belongs to user id {there.st_uid}, and only root's is believed")
            if there.st_mode & 0o022:
                raise Refused("others than its owner may write the report, so it is not believed: chmod go-w")
            content = file.read(LIMIT + 1)
    except FileNotFoundError as failure:
        raise Refused("nobody has written the report: does its timer run?") from failure
    except OSError as failure:
        raise Refused(f"the report cannot be read: {failure.strerror}") from failure
    if len(content) > LIMIT:
        raise Refused(f"the report has more than {LIMIT} bytes")
    try:
        found = _FLEET.validate_json(content)
    except ValidationError as wrong:
        raise Refused("this is no report of zbackup fleet, or one of another version") from wrong
    if any(at is not None and at.tzinfo is None for at in _moments(found)):
        raise Refused("this is no report of zbackup fleet: it has a time without its zone")
    if found.looked > now + CLOCK_TOLERANCE:
        return found, "the report is of a time that is still to come"
    if not (found.members or found.unreachable):
        return found, "there was no backup when somebody looked"
    return found, "the report is more than a day old: does its timer run?" if now - found.looked > OLD else ""


def _moments(found: Fleet) -> Iterator[datetime | None]:
    yield found.looked
    for each in found.members:
        yield from (each.taken, each.as_of, each.archived, each.drilled)
