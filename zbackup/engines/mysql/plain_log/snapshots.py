"""Tell what it means for a backup that its log is a copy, which is made of what the server sends."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from zbackup.engines.mysql.lock.lock import STOPS_COMMITS
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG, PlainLog
from zbackup.engines.mysql.server.assess import BINLOG_ENCRYPTED
from zbackup.model.errors import LockNotTaken, Refused
from zbackup.model.log import LogPosition
from zbackup.model.record import LockKind
from zbackup.model.server import DataPath, LockChoice, ServerFacts

REPLICA: Final = "REPLICATION SLAVE"
"""The privilege to be sent the log, of either flavour."""

_WHY: Final = "the copy of the log is brought up to its end while nothing is committed (plain_log)"


def with_copy(facts: ServerFacts, directory: Path) -> ServerFacts:
    """The same server, whose log is read from the copy: that it is encrypted is in nobody's way then."""
    path = os.path.realpath(directory)
    return replace(
        facts,
        data_paths=(*facts.data_paths, DataPath("copy of the binlog", path)),
        server={**facts.server, PLAIN_LOG: path},
        blockers=tuple(b for b in facts.blockers if not b.startswith(BINLOG_ENCRYPTED)),
    )


def lock_with_copy(wanted: LockKind | str, choice: LockChoice) -> LockChoice:
    """Choose a lock that stops commits: else a snapshot holds what is not in the copy yet.

    Raise Refused where another one is configured.
    """
    if choice.kind in STOPS_COMMITS:
        return choice
    if wanted != "auto":
        raise Refused(f"lock {wanted}: {_WHY}: use ftwrl or auto")
    return LockChoice("ftwrl", _WHY)


def require_whole(copy: PlainLog, position: str) -> None:
    """Read on to where the log ends under the lock. Raise LockNotTaken when the server does not send it."""
    if not position:
        return
    end = LogPosition.parse(position)
    reached = copy.read_on(end)
    if reached < end:
        raise LockNotTaken(f"the server sent its log up to {reached} only, and it ends at {end}")
