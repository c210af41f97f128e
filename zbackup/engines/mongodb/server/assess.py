"""Tell what a mongod's settings mean for its backups: reasons why none could be recovered from, reasons
for care, and which lock to take. Pure.
"""

import re
from collections.abc import Mapping
from typing import Any

from zbackup.engines.mongodb.server.status import MongoStatus
from zbackup.model.errors import Refused
from zbackup.model.record import LockKind
from zbackup.model.server import LockChoice, ServerFacts

# recoverFromOplogAsStandalone together with takeUnstableCheckpointOnShutdown, and entries' wall-clock times.
OLDEST = (5, 0)
STATES = ("PRIMARY", "SECONDARY")
OF_LOG_ALONE = ("this server runs alone and keeps no oplog",)
"""Beginnings of the blockers despite which a backup can be opened as it is."""
NO_OPLOG = (
    "this server runs alone and keeps no oplog, so its snapshots cannot be brought to a moment: make it a "
    "replica set of one member (replication.replSetName, then rs.initiate())"
)


def blockers(status: MongoStatus) -> tuple[str, ...]:
    """Return why no moment could be recovered from a snapshot of this server; () when nothing is in the
    way."""
    member = status.membership
    reasons = {
        f"mongod {status.version} is older than {'.'.join(map(str, OLDEST))}, the oldest that is "
        "supported": version_of(status.version)[:2] < OLDEST,
        f"its storage engine is {status.engine}: only wiredTiger keeps data that a snapshot can "
        "hold": status.engine != "wiredTiger",
        "its files are encrypted by the storage engine (security.enableEncryption): zbackup cannot hand the "
        "key to a recovered server": status.encrypted,
        NO_OPLOG: member is None,
        f"this member is {member.state if member else ''}: its data is not whole; wait until it is "
        "SECONDARY": member is not None and member.state not in STATES,
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def warnings(status: MongoStatus) -> tuple[str, ...]:
    """What the operator should know."""
    member = status.membership
    reasons = {
        "writeConcernMajorityJournalDefault is false: writes are acknowledged before they are in the "
        "journal": member is not None and not member.majority_journal,
        "the journal is off (storage.journal.enabled): only the fsync lock gives an exact "
        "snapshot": not journaled(status.options),
        f"this member lags {member.delay_s if member else 0} s behind on purpose: its snapshots hold data as "
        "of then": member is not None and member.delay_s > 0,
        f"feature compatibility version {status.fcv} is not that of {status.version}: an upgrade is "
        "unfinished": not status.version.startswith(status.fcv + "."),
    }
    return tuple(reason for reason, holds in reasons.items() if holds)


def journaled(options: Mapping[str, Any]) -> bool:
    """Whether writes go to a journal; since 6.1 they always do (MongoDB manual, "Journaling")."""
    journal = options.get("storage", {}).get("journal", {})
    return bool(journal.get("enabled", True))


def version_of(text: str) -> tuple[int, ...]:
    """6.0.27 of "6.0.27-rc1"; () of what makes no sense."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()


def choose(wanted: LockKind | str, facts: ServerFacts) -> LockChoice:
    """The lock that is `wanted`, or for "auto" the gentlest that is exact, with the reason.

    Raise Refused when there is no such lock here, or it would not give a consistent snapshot.
    """
    problem = facts.server.get("needs_lock", "")
    match wanted:
        case "auto" if problem:
            return LockChoice("fsync", problem)
        case "auto":
            return LockChoice("none", "data, journal and oplog are one atomic snapshot: nobody has to wait")
        case "fsync":
            return LockChoice("fsync", "as configured")
        case "none" if problem:
            raise Refused(f"lock none: {problem}: use fsync or auto")
        case "none":
            return LockChoice("none", "as configured")
    raise Refused(f"mongod has no lock {wanted}: use fsync, none or auto")


def needs_lock(status: MongoStatus) -> str:
    """Return why an unlocked snapshot would not be exact; "" when it is."""
    if not journaled(status.options):
        return "the journal is off, so the files alone are as of the last checkpoint"
    if status.membership is None:
        return "without an oplog only a lock says which writes are inside"
    return ""
