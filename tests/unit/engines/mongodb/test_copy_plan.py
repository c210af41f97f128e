"""The plan of a copy of a collection, without a server."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mongodb.production.account import ACTIONS, allowed
from zbackup.engines.mongodb.production.collections import (
    BATCH_BYTES,
    BATCH_DOCUMENTS,
    Collection,
    batches,
    key,
    read_collection,
)
from zbackup.engines.mongodb.production.writer import member_lag
from zbackup.features.copyback.copying import CopyStep, CopyWish
from zbackup.features.copyback.mongodb.compare import condition
from zbackup.features.copyback.mongodb.plan_collection import CollectionJob, commands, in_order, work_name
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

DOCS, WORK = TableName("shop", "docs"), TableName("shop", "zbackup_copy_1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def collection(type_: str = "collection", **options: Any) -> Collection:
    index = {"v": 2, "key": {"n": 1}, "name": "n_1"}
    return Collection(name=DOCS, type=type_, options=options, indexes=(index,), count=7)


def test_a_validator_comes_after_the_documents_and_the_name_last() -> None:
    told = commands(collection(validator={"a": 1}, collation={"locale": "de"}), WORK, DOCS)
    assert [next(iter(each)) for each in told] == [
        "create",
        "insert",
        "createIndexes",
        "collMod",
        "renameCollection",
    ]
    assert told[0] == {"create": WORK.table, "collation": {"locale": "de"}}
    assert told[-1] == {"renameCollection": "shop.zbackup_copy_1", "to": "shop.docs"}


def test_a_time_series_is_filled_under_its_name_for_it_cannot_be_renamed() -> None:
    told = commands(collection("timeseries", timeseries={"timeField": "t"}), WORK, DOCS)
    assert {each.get("create", each.get("insert")) for each in told[:2]} == {"docs"}
    assert "renameCollection" not in told[-1]


def test_views_come_behind_what_they_read() -> None:
    options: dict[str, dict[str, Any]] = {
        "a": {"viewOn": "z", "pipeline": []},
        "b": {"viewOn": "docs", "pipeline": [{"$facet": {"x": [{"$unionWith": {"coll": "y"}}]}}]},
        "y": {"viewOn": "docs", "pipeline": [{"$lookup": {"from": "a", "as": "n"}}]},
        "z": {"viewOn": "z", "pipeline": []},
        "docs": {},
    }
    jobs = []
    for name, each in options.items():
        found = Collection(name=TableName("shop", name), type="view" if each else "collection", options=each)
        step = CopyStep(source=found.name, into=found.name, action="view", statements=())
        jobs.append(CollectionJob(step=step, collection=found, work=WORK))
    assert [job.step.source.table for job in in_order(jobs)] == ["docs", "z", "a", "y", "b"]


def test_what_is_unfinished_has_the_name_of_the_same_copy_alone() -> None:
    wish = CopyWish(tables=(DOCS,), clone="c")
    names = {
        work_name(CopyWish(tables=(DOCS,), clone=clone, where=where), name, into).table
        for clone in ("c", "d")
        for where in ("", "{}")
        for name in (DOCS, WORK)
        for into in (DOCS, WORK)
    }
    assert len(names) == 16
    assert work_name(wish, DOCS, DOCS) == work_name(wish, DOCS, DOCS)


@given(st.lists(st.integers(0, BATCH_BYTES // 2), max_size=12))
def test_batches_of_documents_are_bounded_and_lose_none(sizes: list[int]) -> None:
    documents = [RawBSONDocument(bson.encode({"_id": n, "x": b"x" * size})) for n, size in enumerate(sizes)]
    found = list(batches(iter(documents)))
    assert [each.raw for batch in found for each in batch] == [each.raw for each in documents]
    for batch in found:
        assert len(batch) <= BATCH_DOCUMENTS
        assert len(batch) == 1 or sum(len(each.raw) for each in batch) <= BATCH_BYTES


def test_ids_of_other_types_are_other_ids() -> None:
    values: list[Any] = [1, 1.0, bson.Int64(1), "1", {"a": 1}, None, [1]]
    assert len({key({"_id": value}) for value in values}) == len(values)


def granted(database: str, *roles: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [{"resource": {"db": database, "collection": ""}, "actions": sorted(ACTIONS)}, *roles]


def test_an_account_may_copy_where_it_has_all_it_needs() -> None:
    assert allowed(granted("shop"), "shop") and not allowed(granted("shop"), "crm")
    assert allowed(granted(""), "crm")
    lacking: Mapping[str, Any] = {"resource": {"db": "shop", "collection": ""}, "actions": ["find"]}
    assert not allowed([lacking], "shop")


def test_the_slowest_member_that_follows_counts() -> None:
    members = [
        {"stateStr": "PRIMARY", "optimeDate": NOW, "health": 1},
        {"stateStr": "SECONDARY", "optimeDate": NOW - timedelta(seconds=12), "health": 1},
        {"stateStr": "SECONDARY", "optimeDate": NOW - timedelta(days=1), "health": 0},
        {"stateStr": "RECOVERING", "optimeDate": NOW - timedelta(days=1), "health": 1},
    ]
    assert member_lag({"members": members}) == 12
    assert member_lag({}) == 0


def test_a_filter_is_extended_json() -> None:
    assert condition("") == {}
    assert condition('{"at": {"$gt": {"$date": "2026-01-01T00:00:00Z"}}}')["at"]["$gt"].year == 2026
    for wrong in ("[1]", "{", "id < 5"):
        with pytest.raises(ValueError):
            condition(wrong)


@pytest.mark.parametrize("field", ["create", "$db", "$readPreference"])
def test_a_clones_server_names_no_other_collection_and_no_command(field: str) -> None:
    class Hostile:
        def run(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
            if "count" in command:
                return {"n": 1}
            listed = {"name": "orders", "type": "collection", "options": {"capped": True, field: "other"}}
            rows = [listed] if "listCollections" in command else []
            return {"cursor": {"id": 0, "firstBatch": rows, "ns": "shop.orders"}}

    with pytest.raises(Refused, match=r"shop\.orders cannot be copied"):
        read_collection(Hostile(), TableName("shop", "orders"))  # type: ignore[arg-type]
