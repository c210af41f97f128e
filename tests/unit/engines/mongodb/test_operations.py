"""Operations of one transaction of an oplog, as zbackup log --rows prints them."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import bson
import pytest
from bson.timestamp import Timestamp

from tests.unit.engines.mongodb.archived_set import FIRST
from tests.unit.engines.mongodb.recovered import Story
from tests.unit.engines.mongodb.test_oplog_parts import entry
from zbackup.engines.mongodb.oplog.search_by_filter import operations
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.recovery.log_search import MongoLogSearch
from zbackup.model.errors import DatabaseError, NotRecoverable, Refused
from zbackup.model.log import ClusterTime

SESSION = {"lsid": {"id": bson.Binary(b"s" * 16, 4)}, "txnNumber": 7}
NONE = {"ts": Timestamp(0, 0), "t": -1}


class Stored:
    """An oplog of these entries, numbered from 1."""

    def __init__(self, *written: Mapping[str, Any], first: int = 1) -> None:
        self.entries = {
            Timestamp(100, number): bson.encode(entry(number, **each))
            for number, each in enumerate(written, 1)
            if number >= first
        }

    def find(self, _: object, *, backwards: bool = False) -> dict[str, Any]:
        assert not backwards
        return dict(bson.decode(next(iter(self.entries.values()))))

    def raw(self, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        assert wanted["ts"]["$gte"] == wanted["ts"]["$lte"]
        return iter([self.entries[wanted["ts"]["$gte"]]] if wanted["ts"]["$gte"] in self.entries else [])


def behind(number: int) -> dict[str, Any]:
    """The name of the entry before, that of number; 0 for none."""
    return {"prevOpTime": {"ts": Timestamp(100, number), "t": 3} if number else NONE}


def part(*ids: int, before: int = 0, **more: object) -> dict[str, Any]:
    done = [{"op": "i", "ns": "shop.orders", "o": {"_id": each}} for each in ids]
    return {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": done, **more}, **SESSION, **behind(before)}


def told(log: Stored, number: int) -> list[Any]:
    found = operations(log, ClusterTime(100, number), "the oplog")  # type: ignore[arg-type]
    lines = [json.loads(line) for line in found]
    return [each["o"].get("_id", each["o"]) for each in lines]


def test_all_entries_of_a_transaction_are_told_in_its_order_and_none_of_others() -> None:
    commit = {"op": "c", "ns": "admin.$cmd", "o": {"commitTransaction": 1}, **SESSION}
    log = Stored(
        {},
        part(21, 22, partialTxn=True),
        {},
        part(41, before=2, partialTxn=True),
        part(51, 52, before=4),
        {**SESSION, **behind(5)},
        part(71, prepare=True),
        {**commit, **behind(7)},
        {**part(91), "multiOpType": 1, **behind(6)},
        part(101, before=12),
    )
    assert told(log, 1) == [1]
    assert told(log, 5) == [21, 22, 41, 51, 52]
    assert told(log, 4) == [21, 22, 41]
    assert told(log, 6) == [6], "a write that may be tried again is in no transaction"
    assert told(log, 8) == [71, {"commitTransaction": 1}]
    assert (told(log, 9), told(log, 10)) == ([91], [101])


def test_what_is_not_in_the_oplog_any_more_is_said_before_anything_is_told() -> None:
    log = Stored({}, part(2, partialTxn=True), part(3, before=2), {}, first=3)
    for number, lacking in ((1, 1), (3, 2), (9, 9)):
        with pytest.raises(NotRecoverable, match=rf"no entry at 100,{lacking} is in the oplog, .* 100,3@3 "):
            told(log, number)


def test_what_python_cannot_have_is_told_all_the_same() -> None:
    far = bson.DatetimeMS(1 << 50)
    log = Stored(
        {"o": {"_id": 1, "at": far, "price": bson.Decimal128("2.50")}, "ui": bson.Binary(b"u" * 16, 4)}
    )
    (line,) = operations(log, ClusterTime(100, 1), "")  # type: ignore[arg-type]
    assert '"at": {"$date": {"$numberLong": "1125899906842624"}}' in line
    assert '"price": {"$numberDecimal": "2.50"}' in line and '"ui": {"$binary"' in line


def test_a_clone_s_oplog_is_asked_by_a_server_whose_files_are_thrown_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, monkeypatch)
    search = MongoLogSearch(recovery=story.recovery)
    (line,) = search.images(ClusterTime(FIRST + 3, 1), story.files("log", story.source_record))
    assert json.loads(line)["ts"] == {"$timestamp": {"t": FIRST + 3, "i": 1}}
    assert story.servers["log"].did == ["make room", "start to open, and throw away"]
    with pytest.raises(Refused, match="does not say how to reach the server"):
        list(search.images(ClusterTime(FIRST + 3, 1)))
    there = ConnectOptions(socket=str(tmp_path / "nobody"))
    with pytest.raises(DatabaseError):
        list(MongoLogSearch(recovery=story.recovery, connect=there).images(ClusterTime(1, 1)))


def test_of_a_document_of_the_servers_own_the_id_alone_is_told() -> None:
    secret = {"storedKey": "SECRET", "salt": "SECRET"}
    user = {"_id": "admin.app", "credentials": {"SCRAM-SHA-256": secret}}
    changed = {"op": "u", "ns": "admin.system.users", "o": {"$v": 2, "diff": {"u": secret}}, "o2": {"_id": 7}}
    made = {"op": "i", "ns": "admin.system.users", "o": user}
    nested = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [{**made, "ns": "admin.system.keys"}]}}
    log = Stored(
        made,
        changed,
        {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [made, nested]}, **SESSION, **behind(0)},
        {"op": "i", "ns": "shop.users", "o": user},
    )
    for number in (1, 2, 3):
        lines = list(operations(log, ClusterTime(100, number), "the oplog"))  # type: ignore[arg-type]
        assert lines and "SECRET" not in str(lines) and "_id" in str(lines)
    assert told(log, 2) == [7]
    assert "SECRET" in str(list(operations(log, ClusterTime(100, 4), "the oplog")))  # type: ignore[arg-type]
