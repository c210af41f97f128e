"""Targets of a restore, and the stops of a replay: what is asked for, and what an engine is told.

The words of `restore --to` are parsed here into a NamedTarget. A look at the backups and the log makes of
that a `target` (RestoreTarget), which every job and plan is given. An engine is given a `stop` (Stop), which
it finds in its log: there it is a position.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from zbackup.model.errors import UsageError
from zbackup.model.log import ClusterTime, Transaction
from zbackup.model.moment import FORMS, Moment, is_moment
from zbackup.model.transaction_name import TransactionName, parse_named

LATEST: Final = "latest"
"""The word that asks for all there is: at a destination what arrived, here what is in the server's log."""

# One that was typed without its zeros is a GTID of MariaDB's, too.
_DAY: Final = re.compile(r"(?:19|20)[0-9]{2}-[0-9]{1,2}-[0-9]{1,2}")

TARGET_FORMS: Final = (
    f'a moment ({FORMS}), "{LATEST}", a GTID, FILE:POSITION, SECONDS,INC (MongoDB), backup:NAME, '
    "label:LABEL, before-drop:TABLE or before-truncate:TABLE"
)


@dataclass(frozen=True, slots=True)
class NamedBackup:
    """A backup as it is: the one of this name, the newest with this label, or a snapshot DATASET@NAME that
    others took."""

    by: Literal["backup", "label", "snapshot"]
    name: str


@dataclass(frozen=True, slots=True)
class LastStatement:
    """The last statement that dropped or emptied this table, whose name is as it was typed."""

    kind: Literal["drop", "truncate"]
    table: str


NamedTarget = str | ClusterTime | TransactionName | NamedBackup | LastStatement
"""What names a target. A moment, "now" and LATEST are text; a transaction and a cluster time mean: before it.
"""


def parse_target(text: str) -> NamedTarget:
    """Parse the words of --to; a moment stays text, as its meaning depends on zone and clock.

    Raise UsageError for anything else.
    """
    cleaned = text.strip()
    if (word := cleaned.lower()) in (LATEST, "now"):
        return word
    prefix, colon, name = cleaned.partition(":")
    if colon and (named := _prefixed(prefix, name.strip())):
        return named
    named_transaction = _transaction(cleaned)
    moment = is_moment(cleaned)
    if named_transaction and (str(named_transaction) == cleaned if moment else _DAY.fullmatch(cleaned)):
        day = "-".join(part.zfill(2) for part in cleaned.split("-"))
        raise UsageError(
            f'"{text}" is a day and a GTID: write "{day} 00:00" for the day\'s first moment, or '
            f"--before {cleaned} for the GTID"
        )
    if moment:
        return text
    if named_transaction is None:
        raise UsageError(f'"{text}" is not a moment or another target: write {TARGET_FORMS}')
    return named_transaction


def _prefixed(prefix: str, name: str) -> NamedBackup | LastStatement | None:
    match prefix:
        case "backup":
            return NamedBackup("backup", name)
        case "label":
            if not name:
                raise UsageError("a label is missing: zbackup list shows those there are")
            return NamedBackup("label", name)
        case "before-drop":
            return LastStatement("drop", name)
        case "before-truncate":
            return LastStatement("truncate", name)
    return None


def _transaction(text: str) -> TransactionName | ClusterTime | None:
    with suppress(UsageError):
        return parse_named(text)
    return None


@dataclass(frozen=True, slots=True)
class Time:
    """Everything committed before `at`, and nothing after it.

    `accept_clock`: where the log's times contradict its order around `at`, they count as they are.
    """

    at: datetime
    accept_clock: bool = False


@dataclass(frozen=True, slots=True)
class WholeLog:
    """All there is in the log, whatever its times say. It was asked for up to `at`, which is now."""

    at: datetime


Stop = Time | Transaction | ClusterTime | WholeLog
"""The stop of a replay: before a time, before a transaction or cluster time, or at the end of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BeforeTransaction:
    """Everything that stands in the log before `transaction`, and nothing after it.

    `name` is what it was called when it was asked for, `logs` the ids (Record.log_id) of the logs it is in:
    more than one where they go on from the same beginning.
    """

    name: TransactionName
    transaction: Transaction
    logs: frozenset[str]

    @property
    def at(self) -> datetime:
        """When the transaction was committed."""
        return self.transaction.committed


@dataclass(frozen=True, slots=True)
class UnseenTransaction:
    """The same, while the log is out of sight: a time `at` which the transaction was committed already."""

    name: TransactionName
    at: datetime


@dataclass(frozen=True, slots=True)
class BackupAsItIs:
    """One backup, with nothing replayed: its snapshots' name, or the identity in its record.

    `at` is the moment to which its data reaches. `foreign`: it is a snapshot that others took, DATASET@NAME,
    and `at` is when that was.
    """

    name: str
    at: datetime
    foreign: bool = False


RestoreTarget = Moment | ClusterTime | BeforeTransaction | UnseenTransaction | BackupAsItIs
"""The target that a restore is asked for; `at` is the time it is known by."""


def stop_of(target: RestoreTarget, *, accept_clock: bool = False) -> Stop | None:
    """Where to stop a replay; None where nothing is replayed, or the log is out of sight as yet."""
    match target:
        case Moment():
            end = target.exclusive_end
            return WholeLog(end) if target.is_now else Time(end, accept_clock)
        case BeforeTransaction():
            return target.transaction
        case ClusterTime():
            return target
        case UnseenTransaction() | BackupAsItIs():
            return None


def time_of(stop: Stop) -> datetime:
    """Tell a stop as a time: everything committed before it is in, as far as the log's times are right."""
    return stop.committed if isinstance(stop, Transaction) else stop.at
