"""Decisions about oplog entries without a server."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson.timestamp import Timestamp

from zbackup.engines.mongodb.clone.clone_server import error_log_tail, stable_checkpoint
from zbackup.engines.mongodb.oplog import append, continuation, oplog
from zbackup.engines.mongodb.oplog.find_stop import StopPoint, drift, shortfall
from zbackup.engines.mongodb.oplog.oplog import Oplog
from zbackup.engines.mongodb.oplog.oplog_entry import describe, transaction
from zbackup.engines.mongodb.oplog.search_by_filter import entries, search
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import ClusterTime
from zbackup.model.log_entry import Kind, LogFilter
from zbackup.model.target import Time

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def entry(increment: int, **more: object) -> dict[str, object]:
    insert = {"op": "i", "ns": "shop.orders", "o": {"_id": increment}}
    return {"ts": Timestamp(100, increment), "t": 3, "wall": NOON, **insert, **more}


def stored(*increments: int) -> dict[Timestamp, bytes]:
    return {Timestamp(100, n): bson.encode(entry(n)) for n in increments}


# cluster times


def test_a_cluster_time_is_read_and_written() -> None:
    assert ClusterTime.parse(" 1714557720, 12") == ClusterTime(1714557720, 12)
    assert str(ClusterTime(1714557720, 12)) == "1714557720,12"
    assert ClusterTime(1714557720, 12).at == datetime(2024, 5, 1, 10, 2, tzinfo=UTC)
    assert ClusterTime(9, 2) < ClusterTime(10, 1) < ClusterTime(10, 2)


@pytest.mark.parametrize(
    "text", ["", "1714557720", "1,2,3", "-1,2", "1.5,2", "now", "4294967296,1", "1,4294967296"]
)
def test_what_is_no_cluster_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not SECONDS,INCREMENT"):
        ClusterTime.parse(text)


# what an entry says


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "insert into shop.orders"),
        ({"op": "u"}, "update of shop.orders"),
        ({"op": "d"}, "delete from shop.orders"),
        ({"op": "n", "ns": ""}, "no operation"),
        ({"op": "c", "ns": "shop.$cmd", "o": {"drop": "orders"}}, "drop of shop.orders"),
        ({"op": "c", "ns": "shop.$cmd", "o": {"dropDatabase": 1}}, "dropDatabase"),
        (
            {"op": "c", "ns": "shop.$cmd", "o": {"commitIndexBuild": "orders"}},
            "commitIndexBuild of shop.orders",
        ),
        (
            {"op": "c", "ns": "shop.$cmd", "o": {"renameCollection": "shop.a", "to": "b.a"}},
            "renameCollection of shop.a",
        ),
        (
            {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"ns": "a.b"}, {"ns": "a.a"}, {"ns": "a.b"}]}},
            "transaction on a.a, a.b",
        ),
        (
            {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"ns": "a.b"}], "partialTxn": True}},
            "part of a transaction on a.b",
        ),
        (
            {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{"ns": "a.b"}], "prepare": True}},
            "prepared transaction on a.b",
        ),
        ({"op": "c", "ns": "admin.$cmd", "o": {"commitTransaction": 1}}, "commitTransaction"),
    ],
)
def test_an_entry_is_described(more: dict[str, object], said: str) -> None:
    assert describe(entry(1, **more)) == said


def test_an_entry_is_reported_with_its_position_and_time() -> None:
    found = transaction(entry(7))
    assert (found.start, found.end, found.committed, found.what) == (
        "100,7@3",
        "100,7@3",
        NOON,
        "insert into shop.orders",
    )


# what a log of it shows


def test_what_each_entry_did_is_told_by_collection() -> None:
    def told(*written: dict[str, object]) -> list[tuple[dict[str, str], int]]:
        found = entries(bson.encode(entry(number, **each)) for number, each in enumerate(written, 1))
        return [({t.name: " ".join(t.kinds) for t in each.tables}, each.events) for each in found]

    def command(content: dict[str, object], database: str = "shop", **more: object) -> dict[str, object]:
        return {"op": "c", "ns": f"{database}.$cmd", "o": content, **more}

    def part(*names: str, **more: object) -> dict[str, object]:
        done: list[dict[str, object]] = [
            {"op": "i" if name == "a" else "d", "ns": f"shop.{name}", "o": {}} for name in names
        ]
        session = {"lsid": {"id": bson.Binary(b"s" * 16, 4)}, "txnNumber": 7}
        return command({"applyOps": done, **more}, "admin", **session)

    def decided(how: str) -> dict[str, object]:
        return {**part(), "o": {how: 1}}

    assert told(
        {},
        {"op": "u"},
        {"op": "d", "ns": "shop.system.buckets.series"},
        {"op": "n", "ns": ""},
        command({"drop": "orders"}),
        command({"emptycapped": "capped"}),
        command({"collMod": "orders"}),
        command({"dropDatabase": 1}),
        command({"renameCollection": "shop.a", "to": "shop.b"}),
        command({"renameCollection": "shop.a", "to": "old.b", "dropTarget": "uuid"}),
    ) == [
        ({"shop.orders": "insert"}, 1),
        ({"shop.orders": "update"}, 1),
        ({"shop.series": "delete"}, 1),
        ({"shop.orders": "ddl drop"}, 1),
        ({"shop.capped": "ddl truncate"}, 1),
        ({"shop.orders": "ddl"}, 1),
        ({"shop.*": "ddl drop"}, 1),
        ({"shop.a": "ddl", "shop.b": "ddl"}, 1),
        ({"shop.a": "ddl", "old.b": "ddl drop"}, 1),
    ]
    both = {"shop.a": "insert", "shop.b": "delete"}
    assert told(part("a", "b")) == [(both, 2)]
    assert told(part("a", partialTxn=True), {}, part("b")) == [({"shop.orders": "insert"}, 1), (both, 2)]
    prepared = (part("a", partialTxn=True), part("b", prepare=True))
    assert told(*prepared, decided("commitTransaction")) == [(both, 3)]
    assert told(*prepared) == told(*prepared, decided("abortTransaction")) == []


# one oplog going on from another


def test_holes_are_what_only_the_log_source_has() -> None:
    log = stored(1, 2, 3, 4)
    assert continuation.holes(stored(1, 3), log) == (log[Timestamp(100, 2)], log[Timestamp(100, 4)])
    assert continuation.holes(log, log) == ()


def test_what_only_the_base_has_was_rolled_back() -> None:
    with pytest.raises(NotRecoverable, match="oplog entry at 100,2 is not the log source's"):
        continuation.holes(stored(1, 2), stored(1, 3))


def test_another_entry_at_the_same_place_is_another_history() -> None:
    other = stored(1) | {Timestamp(100, 2): bson.encode(entry(2, t=4))}
    with pytest.raises(NotRecoverable, match="at 100,2"):
        continuation.holes(stored(1, 2), other)


def test_the_oplog_that_would_have_held_is_told_by_the_pace_seen() -> None:
    ten_minutes = (NOON - timedelta(minutes=10), NOON)
    assert continuation.needed_bytes(6000, ten_minutes, NOON - timedelta(minutes=30)) == 18000
    assert continuation.needed_bytes(6000, (NOON, NOON), NOON - timedelta(seconds=2)) == 12000


# copying


def test_a_batch_of_documents_is_taken_apart() -> None:
    parts = list(stored(1, 2, 3).values())
    assert list(oplog.documents(b"".join(parts))) == parts
    assert list(oplog.documents(b"")) == []


def test_batches_keep_the_order_and_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append, "BATCH_BYTES", 10)
    monkeypatch.setattr(append, "BATCH_ENTRIES", 3)
    small = [b"1", b"22", b"333", b"4444", b"55555555555555", b"6"]
    assert list(append.batches(small)) == [[b"1", b"22", b"333"], [b"4444"], [b"55555555555555"], [b"6"]]
    assert list(append.batches([])) == []


def test_an_entry_that_nobody_may_write_is_named() -> None:
    huge = bson.encode(entry(9, o={"_id": 1, "x": b"x" * (16 * 1024**2)}))
    with pytest.raises(NotRecoverable) as refused:
        list(append.writable([bson.encode(entry(8)), huge]))
    said = str(refused.value)
    assert "100,9@3 (insert into shop.orders)" in said and "--to-timestamp 100,9" in said and len(said) < 400


# logs that end early


def test_a_log_that_ends_long_before_the_target_is_pointed_out() -> None:
    ends = StopPoint(applied=entry(8), skipped=None)
    assert shortfall(ends, Time(NOON + timedelta(seconds=20))) == ""
    assert "ends at 2026-05-01T12:00:00Z" in shortfall(ends, Time(NOON + timedelta(seconds=21)))
    assert shortfall(StopPoint(applied=entry(8), skipped=entry(9)), Time(NOON + timedelta(days=1))) == ""


def test_a_cluster_time_that_is_not_the_servers_time_is_pointed_out() -> None:
    """A member whose clock was an hour ahead took the cluster time along."""
    seconds = int(NOON.timestamp())
    stop = ClusterTime(seconds, 0)
    ahead = entry(9, ts=Timestamp(seconds, 1), wall=NOON - timedelta(hours=1))
    told = drift(StopPoint(applied=entry(8), skipped=ahead), stop)
    assert (
        "left out was written at 2026-05-01T11:00:00Z by the server's clock, and at 2026-05-01T12:00" in told
    )
    assert "the last entry that is in was" in drift(StopPoint(applied=ahead, skipped=None), stop)
    even = entry(9, ts=Timestamp(seconds - 20, 1))
    assert drift(StopPoint(applied=ahead, skipped=even), stop) == ""
    assert drift(StopPoint(applied=ahead, skipped=ahead), Time(NOON)) == "", "that is the server's own"


# what the server says of itself

QUIET = '{"s":"I","c":"STORAGE","id":1,"msg":"all well","attr":{"n":1}}'


def log_file(directory: Path, *lines: str) -> Path:
    file = directory / "server.log"
    file.write_text("\n".join(lines) + "\n")
    return file


def recovered_at(seconds: int, increment: int) -> str:
    stamp = f'{{"t":{seconds},"i":{increment}}}'
    return f'{{"s":"I","id":23987,"msg":"x","attr":{{"recoveryTimestamp":{{"$timestamp":{stamp}}}}}}}'


def test_the_checkpoint_is_that_of_the_newest_start(tmp_path: Path) -> None:
    file = log_file(tmp_path, recovered_at(5, 1), QUIET, "not JSON", recovered_at(7, 2), QUIET)
    assert stable_checkpoint(file, 0) == Timestamp(7, 2)


def test_a_checkpoint_of_an_earlier_start_does_not_count(tmp_path: Path) -> None:
    file = log_file(tmp_path, recovered_at(5, 1))
    said = file.stat().st_size
    with file.open("a") as more:
        more.write(QUIET + "\n")
    assert stable_checkpoint(file, 0) == Timestamp(5, 1)
    assert stable_checkpoint(file, said) is None


def test_no_checkpoint_is_none(tmp_path: Path) -> None:
    assert stable_checkpoint(log_file(tmp_path, QUIET), 0) is None
    assert stable_checkpoint(log_file(tmp_path, recovered_at(0, 0)), 0) is None


def test_the_tail_of_the_log_is_the_errors_without_the_noise(tmp_path: Path) -> None:
    fatal = '{"s":"F","id":2,"msg":"\\n\\n***aborting after fassert() failure\\n\\n"}'
    trace = '{"s":"F","id":3,"msg":"BACKTRACE: {bt}","attr":{"a":1}}'
    harmless = '{"s":"E","id":4,"msg":"TCP FastOpen unavailable"}'
    file = log_file(tmp_path, harmless, QUIET, fatal, trace, QUIET)
    assert error_log_tail(file) == "***aborting after fassert() failure"


def test_the_tail_of_the_log_of_a_server_that_gives_up_at_its_start(tmp_path: Path) -> None:
    message = "DBException in initAndListen, terminating"
    why = f'{{"s":"E","id":20557,"msg":"{message}","attr":{{"error":"no journal"}}}}'
    file = log_file(tmp_path, QUIET, why, *[QUIET] * 20)
    assert error_log_tail(file) == f'{message} {{"error": "no journal"}}'


def test_the_tail_of_the_log_is_the_last_lines_when_nothing_failed(tmp_path: Path) -> None:
    assert error_log_tail(log_file(tmp_path, *[QUIET] * 20)).splitlines() == ['all well {"n": 1}'] * 10
    assert error_log_tail(tmp_path / "nothing") == ""


def test_half_a_line_is_no_error(tmp_path: Path) -> None:
    file = log_file(tmp_path, QUIET, QUIET, QUIET[:30])
    assert error_log_tail(file).splitlines() == ['all well {"n": 1}', 'all well {"n": 1}', QUIET[:30]]


def test_a_complaint_about_an_option_is_an_error(tmp_path: Path) -> None:
    assert error_log_tail(log_file(tmp_path, QUIET, "Error parsing command line: x" + "y" * 500)).startswith(
        "Error parsing command line: xyyy"
    )


class Asked:
    """An oplog that remembers what it was asked for, and has nothing of it."""

    def __init__(self) -> None:
        self.questions: list[Mapping[str, Any]] = []

    def size(self) -> tuple[int, int]:
        return 0, 0

    def find(self, wanted: Mapping[str, Any], *, backwards: bool = False) -> dict[str, object]:
        return entry(9)

    def raw(self, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        self.questions.append(wanted)
        return iter(())


@pytest.mark.parametrize(
    ("kinds", "documents"), [(("ddl", "drop"), False), (("drop", "insert"), True), ((), True)]
)
def test_documents_are_asked_for_only_where_they_may_be_wanted(
    kinds: tuple[Kind, ...], documents: bool
) -> None:
    log = Asked()
    list(search(cast(Oplog, log), LogFilter(tables=("shop.t",), kinds=frozenset(kinds)), "here"))
    [question] = log.questions
    assert ("$or" in question) is documents
    assert documents or question["op"] == "c"
