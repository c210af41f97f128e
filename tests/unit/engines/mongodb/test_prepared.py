"""Transactions that are prepared at a cut, decided by their commit timestamp alike on all shards."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import bson
import pytest
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mongodb.oplog.oplog import Entry
from zbackup.engines.mongodb.oplog.prepared import Key, PreparedStep, committed_behind, decide, steps
from zbackup.model.cluster import TooLate
from zbackup.model.errors import NotRecoverable, VerificationFailed
from zbackup.model.oplog_position import OplogPosition


def ts(number: int) -> Timestamp:
    return Timestamp(1, number)


@dataclass(frozen=True)
class Transaction:
    """The places on each shard where it is prepared and where it ends; `commit` is None if it was aborted."""

    key: Key
    commit: int | None
    prepared: tuple[int, int]
    ended: tuple[int, int]


@st.composite
def histories(draw: st.DrawFn) -> list[Transaction]:
    """On two shards, with places that no two entries of a shard share; commit entries come behind."""
    found: list[Transaction] = []
    free = [list(range(1, 200)), list(range(1, 200))]
    for number in range(draw(st.integers(0, 8))):
        prepared = tuple(draw(st.sampled_from(free[shard][:-20])) for shard in (0, 1))
        commit = max(prepared) + draw(st.integers(0, 5))
        ended = tuple(draw(st.sampled_from([p for p in free[shard] if p > commit])) for shard in (0, 1))
        for shard in (0, 1):
            free[shard] = [p for p in free[shard] if p not in (prepared[shard], ended[shard])]
        key = (bytes([number]), b"", b"", 1)
        done = commit if draw(st.booleans()) else None
        found.append(Transaction(key, done, (prepared[0], prepared[1]), (ended[0], ended[1])))
    return found


def log_of(history: list[Transaction], shard: int, upto: int) -> list[PreparedStep]:
    """The shard's entries up to a place, in their order."""
    found = [PreparedStep(ts(t.prepared[shard]), t.key, prepares=True) for t in history]
    found += [
        PreparedStep(ts(t.ended[shard]), t.key, commit=ts(t.commit) if t.commit else None) for t in history
    ]
    return sorted((step for step in found if step.at <= ts(upto)), key=lambda step: step.at)


def kept(history: list[Transaction], shard: int, stop: int) -> set[bytes]:
    """What is there after a replay up to the cut, and of the commit entries behind it that were chosen."""
    log = log_of(history, shard, 1000)
    decided = decide(log, ts(stop))
    assert decided.open == (), "all of the log decides everything"
    applied = [step for step in log if step.at < ts(stop)] + [s for s in log if s.at in decided.commits]
    return {step.key[0] for step in applied if step.commit}


@given(histories(), st.integers(1, 220))
def test_a_cut_keeps_on_every_shard_what_was_committed_before_it_and_nothing_else(
    history: list[Transaction], stop: int
) -> None:
    committed = {t.key[0] for t in history if t.commit is not None and t.commit < stop}
    assert kept(history, 0, stop) == kept(history, 1, stop) == committed


@given(histories(), st.integers(1, 220), st.integers(0, 220))
def test_what_the_log_does_not_decide_is_open_and_never_guessed(
    history: list[Transaction], stop: int, end: int
) -> None:
    decided = decide(log_of(history, 0, end), ts(stop))
    undecided = {t.prepared[0] for t in history if t.prepared[0] < stop and t.prepared[0] <= end < t.ended[0]}
    assert set(decided.open) == {ts(place) for place in undecided}


@given(histories(), st.integers(1, 220), st.integers(0, 220))
def test_up_to_the_first_open_one_nothing_is_in_doubt(
    history: list[Transaction], stop: int, end: int
) -> None:
    log = log_of(history, 0, end)
    if first := decide(log, ts(stop)).open:
        assert decide(log, first[0]).open == ()


def test_a_cut_between_the_commit_entries_of_two_shards_does_not_tear() -> None:
    """As it was seen: one commit timestamp, and commit entries behind it at two places."""
    both = [Transaction((b"x", b"", b"", 1), 3, (2, 3), (5, 8))]
    for stop in range(1, 12):
        assert kept(both, 0, stop) == kept(both, 1, stop) == ({b"x"} if stop > 3 else set())


def test_entries_are_read_as_mongod_writes_them() -> None:
    session = {"id": b"s", "uid": b"u"}
    common = {"lsid": session, "txnNumber": 4}
    read = steps(
        [
            {**common, "ts": ts(1), "o": {"prepare": True}},
            {**common, "ts": ts(2), "o": {"commitTransaction": 1, "commitTimestamp": ts(1)}},
            {**common, "ts": ts(3), "o": {"abortTransaction": 1}},
        ]
    )
    key = (b"s", b"u", b"", 4)
    assert list(read) == [
        PreparedStep(ts(1), key, prepares=True),
        PreparedStep(ts(2), key, commit=ts(1)),
        PreparedStep(ts(3), key),
    ]


def test_transactions_that_servers_opened_within_one_session_are_told_apart() -> None:
    """The second is prepared before this shard hears that the first was committed."""
    one, two = ({"lsid": {"id": b"s", "uid": b"u", "txnUUID": u}, "txnNumber": 0} for u in (b"1", b"2"))
    log = [
        {**one, "ts": ts(1), "o": {"prepare": True}},
        {**two, "ts": ts(2), "o": {"prepare": True}},
        {**one, "ts": ts(5), "o": {"commitTransaction": 1, "commitTimestamp": ts(1)}},
    ]
    assert decide(steps(log), ts(4)).open == (ts(2),)
    assert decide(steps(log), ts(4)).commits == (ts(5),)


@pytest.mark.parametrize("entry", [{}, {"lsid": 1, "o": {}}, {"lsid": {"id": 1.5}, "o": {}}])
def test_what_is_no_transactions_entry_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(VerificationFailed, match="is of no transaction"):
        list(steps([{"ts": ts(1), "txnNumber": 1, **entry}]))


@dataclass(frozen=True)
class Kept:
    """Stored entries, read as archived ones are."""

    entries: tuple[bytes, ...]

    def raw(self, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        times = wanted["ts"]
        for data in self.entries:
            place = bson.decode(data)["ts"]
            chosen = place in times["$in"] if "$in" in times else times["$gt"] < place <= times["$lte"]
            if chosen:
                yield data

    def find(self, wanted: Mapping[str, Any], *, backwards: bool = False) -> Entry | None:
        raise AssertionError("it is not asked")

    def count(self, wanted: Mapping[str, Any]) -> int:
        raise AssertionError("it is not asked")

    def sure(self) -> Timestamp | None:
        raise AssertionError("it is not asked")

    def size(self) -> tuple[int, int]:
        raise AssertionError("it is not asked")

    def replica_set(self) -> tuple[str, str]:
        raise AssertionError("it is not asked")


def stored(place: int, **content: Any) -> bytes:
    common = {"op": "c", "ns": "admin.$cmd", "lsid": {"id": b"s"}, "txnNumber": 1}
    return bson.encode({"ts": ts(place), **common, "o": content})


PREPARED = stored(2, prepare=True)
COMMITTED = stored(9, commitTransaction=1, commitTimestamp=ts(3))
OTHER = bson.encode({"ts": ts(4), "op": "n", "ns": "", "o": {"msg": "periodic noop"}})


def test_what_only_the_base_saw_prepared_is_decided_too() -> None:
    """Archived oplog begins where the base ends, and a log source may have forgotten what is older."""
    base, log = Kept((PREPARED, OTHER)), Kept((OTHER, COMMITTED))
    anchor, sure = OplogPosition(1, 4, 1), OplogPosition(1, 9, 1)
    assert committed_behind(base, log, anchor, ts(6), sure) == (COMMITTED,)
    assert committed_behind(base, log, anchor, ts(3), sure) == ()
    with pytest.raises(TooLate) as late:
        committed_behind(base, Kept((OTHER,)), anchor, ts(6), OplogPosition(1, 8, 1))
    assert (late.value.latest.seconds, late.value.latest.increment) == (1, 2)


def test_a_commit_that_the_log_source_cannot_give_is_not_left_out() -> None:
    base = Kept((PREPARED, COMMITTED, OTHER))
    with pytest.raises(NotRecoverable, match="has 0 of the"):
        committed_behind(base, Kept(()), OplogPosition(1, 9, 1), ts(6), OplogPosition(1, 9, 1))
