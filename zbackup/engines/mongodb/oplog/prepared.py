"""Transactions prepared where the replay of a member of a cluster stops: decided by commit timestamp.

A transaction on several shards is prepared on each, and then committed at one time that is the same on all of
them; but each shard writes its commit entry later, at a position of its own. A stop point between two of
these positions would keep the transaction on one shard and lose it on the other. So at a stop point it is
not the commit entry's position that counts but the commit timestamp in it, as for a reader at that
cluster time.

Source: MongoDB's documentation of transactions ("Transactions and the oplog"), and what a 6.0 wrote.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from bson.timestamp import Timestamp

from zbackup.engines.mongodb.oplog import oplog
from zbackup.engines.mongodb.optime import timestamp
from zbackup.model.cluster import TooLate
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.log import ClusterTime, how_many
from zbackup.model.oplog_position import OplogPosition

Key = tuple[bytes, bytes, bytes, int]
"""The session's id, its user, what tells a session that a server opened within it from others, and the
transaction's number within that."""

FIELDS = (
    *("ts", "lsid", "txnNumber"),
    *("o.prepare", "o.commitTransaction", "o.commitTimestamp", "o.abortTransaction"),
)
SHOWN = 3


@dataclass(frozen=True, slots=True)
class PreparedStep:
    """An entry's effect on a transaction in two phases: prepare it; commit it, at `commit`; or abort it."""

    at: Timestamp
    key: Key
    prepares: bool = False
    commit: Timestamp | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """At a cut: `commits` are the positions of entries behind it that commit what was committed before it,
    and `open` are the positions where transactions are prepared of which nobody knows what became."""

    commits: tuple[Timestamp, ...]
    open: tuple[Timestamp, ...]


def decide(steps: Iterable[PreparedStep], stop: Timestamp) -> Decided:
    """Decide all that is prepared before `stop` and neither committed nor aborted there. Pure.

    `steps` are in the order of the log, and may go on behind `stop`. Committed at `stop` or later is as good
    as not committed.
    """
    prepared: dict[Key, Timestamp] = {}
    commits: list[Timestamp] = []
    for step in steps:
        if step.prepares:
            if step.at < stop:
                prepared[step.key] = step.at
            continue
        prepared.pop(step.key, None)
        # It was prepared before that, also where no log tells so any more.
        if step.at >= stop and step.commit and step.commit < stop:
            commits.append(step.at)
    return Decided(commits=tuple(commits), open=tuple(sorted(prepared.values())))


def steps(entries: Iterable[dict[str, Any]]) -> Iterator[PreparedStep]:
    """Read oplog entries with the FIELDS. A commit in one phase is no entry of its own. Pure.

    Raise VerificationFailed for an entry that mongod does not write.
    """
    for entry in entries:
        try:
            content, session = entry["o"], entry["lsid"]
            one, user, within = (bytes(session.get(name, b"")) for name in ("id", "uid", "txnUUID"))
            key = one, user, within, int(entry["txnNumber"])
            commit = content.get("commitTimestamp") if "commitTransaction" in content else None
        except (AttributeError, KeyError, TypeError, ValueError) as strange:
            raise VerificationFailed(f"an entry of the oplog is of no transaction: {strange!r}") from strange
        yield PreparedStep(entry["ts"], key, prepares=bool(content.get("prepare")), commit=commit)


def committed_behind(
    base: oplog.Oplog, log: oplog.Oplog, anchor: OplogPosition, stop: Timestamp, sure: OplogPosition
) -> tuple[bytes, ...]:
    """The entries, as they are stored, that commit behind `stop` what was committed at a time before it.

    They are read from the base up to `anchor`, and from there up to `sure` from the log source, which may
    have forgotten, or never had, where a transaction was prepared. Raise TooLate when that does not decide
    every one.
    """
    entries = chain(
        oplog.two_phase(base, timestamp(anchor), FIELDS),
        oplog.two_phase(log, timestamp(sure), FIELDS, after=timestamp(anchor)),
    )
    decided = decide(steps(entries), stop)
    if decided.open:
        raise _in_doubt(decided.open, stop, sure)
    if not decided.commits:
        return ()
    found = tuple(log.raw({"ts": {"$in": list(decided.commits)}}))
    if len(found) != len(decided.commits):
        raise NotRecoverable(
            f"the log source has {len(found)} of the {how_many(len(decided.commits))} that were committed "
            f"before {stop.time},{stop.inc} and written down later: start from an older backup (--base)"
        )
    return found


def _in_doubt(found: tuple[Timestamp, ...], stop: Timestamp, sure: OplogPosition) -> TooLate:
    shown = ", ".join(f"{position.time},{position.inc}" for position in found[:SHOWN])
    more = " ..." if len(found) > SHOWN else ""
    first = ClusterTime(found[0].time, found[0].inc)
    return TooLate(
        f"at {stop.time},{stop.inc} {how_many(len(found))} stood prepared (at {shown}{more}), and the log up "
        f"to {sure.seconds},{sure.increment} does not say whether they were committed: take a snapshot once "
        f"they are decided and restore again, or restore every member to {first} at the latest",
        first,
    )
