"""A cluster's member that is recovered to a cluster time, and a member out of archived oplog."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.unit.engines.mongodb.applying import place
from tests.unit.engines.mongodb.archived_set import FIRST
from tests.unit.engines.mongodb.recovered import Story, at, cluster_time, ts, until, written
from zbackup.engines.mongodb.oplog.archived import put_in
from zbackup.engines.mongodb.recovery import recover
from zbackup.engines.mongodb.recovery.added_oplog import reached_by
from zbackup.model.added_log import AddedFile
from zbackup.model.cluster import CONFIG, SHARD, Addresses, ClusterMembership, TooLate
from zbackup.model.errors import NotRecoverable
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.progress import Silent
from zbackup.model.record import ARCHIVED, Record
from zbackup.model.recovery import Serving
from zbackup.model.target import WholeLog

ADDRESSES = Addresses(config="cfg", hosts={"cfg": "127.0.0.1:1", "new": "127.0.0.1:2"}, key="the key of all")


def of_cluster(record: Record, role: str = SHARD) -> Record:
    return replace(
        record, server=record.server | {"options": json.dumps({"sharding": {"clusterRole": role}})}
    )


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    """A transaction is prepared at 3, and committed at that time by an entry that comes at 6."""
    made = Story(tmp_path, monkeypatch)
    session = {"lsid": {"id": b"s"}, "txnNumber": 7, "op": "c", "ns": "admin.$cmd"}
    prepared = written(3, **session, o={"applyOps": [], "prepare": True})
    commit = {"commitTransaction": 1, "commitTimestamp": ts(3)}
    committed = written(6, **session, o=commit)
    made.source.oplog[2], made.source.oplog[5] = prepared, committed
    made.base.oplog[2] = prepared
    made.base_record, made.source_record = of_cluster(made.base_record), of_cluster(made.source_record)
    return made


@pytest.mark.parametrize("only", ["base", "log", "both"])
def test_what_was_committed_before_the_target_is_committed_though_its_entry_comes_later(
    story: Story, only: str
) -> None:
    """A set that became a shard behind the base was none when that was taken."""
    if only == "log":
        story.base_record = story.record(4)
    elif only == "base":
        story.source_record = story.record(8)
    recovered = story.recover(cluster_time(5))
    assert story.numbers == [1, 2, 3, 4, 6]
    assert (
        recovered.position == f"{ts(4).time},1@1" and "committed before the target" in story.progress.notes[0]
    )


def test_that_of_a_set_in_no_cluster_is_as_its_oplog_has_it(story: Story) -> None:
    story.base_record, story.source_record = story.record(4), story.record(8)
    story.recover(cluster_time(5))
    assert story.numbers == [1, 2, 3, 4]


def test_nor_is_anything_added_for_a_time_by_the_clock(story: Story) -> None:
    story.recover(until(5))
    assert story.numbers == [1, 2, 3, 4]
    story.servers.clear()
    story.recover(WholeLog(at(20)))
    assert story.numbers == [1, 2, 3, 4, 5, 6, 7, 8]


def test_a_log_that_does_not_reach_the_target_is_refused_with_how_far_it_does(story: Story) -> None:
    with pytest.raises(TooLate, match=r"nothing in it is from .* on") as late:
        story.recover(cluster_time(9))
    assert late.value.latest == cluster_time(8)
    story.require_not_served()
    story.servers.clear()
    story.recover(cluster_time(8))
    assert story.numbers == [1, 2, 3, 4, 5, 6, 7]


def test_a_base_that_leads_beyond_the_target_cannot_take_a_commit_from_behind_it(story: Story) -> None:
    with pytest.raises(NotRecoverable, match="start from an older backup"):
        story.recover(cluster_time(4))
    story.require_not_served()


@pytest.mark.parametrize("role", ["", SHARD, CONFIG])
def test_of_which_cluster_it_is_is_told_by_its_own_metadata(story: Story, role: str) -> None:
    story.base_record, story.source_record = story.record(4), story.record(8)
    if role:
        story.base_record = of_cluster(story.base_record, role)
    story.base.documents = {
        ("admin", "system.version"): [{"_id": "shardIdentity", "clusterId": "c1"}],
        ("config", "version"): [{"_id": 1, "clusterId": "c1"}],
        ("config", "shards"): [{"_id": "s0", "host": "one/h:1"}],
    }
    member = story.recover(cluster_time(7) if role == "" else WholeLog(at(20))).member
    shards = ("one",) if role == CONFIG else ()
    assert member == (ClusterMembership(cluster="c1", shards=shards) if role else None)


def test_its_metadata_name_the_new_addresses_before_anybody_gets_it(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewritten: list[tuple[str, Addresses, list[Serving]]] = []

    def rewrite(_: object, role: str, addresses: Addresses) -> None:
        rewritten.append((role, addresses, list(story.server.serving)))

    monkeypatch.setattr(recover, "rewrite", rewrite)
    story.options = {"asks_for_login": True}
    serving = Serving(port=2, replica_set="new", role=SHARD, host="db1", addresses=ADDRESSES)
    story.recover(WholeLog(at(20)), serving)
    assert rewritten == [(SHARD, ADDRESSES, [])]
    assert story.sets == [("by the key the key of all", "new", "db1:2")]
    story.servers.clear()
    story.recover(WholeLog(at(20)), replace(serving, addresses=None))
    assert len(rewritten) == 1 and story.sets[1][0] == "by the key "


@pytest.mark.parametrize(
    ("changes", "waits"),
    [({}, True), ({"host": ""}, False), ({"role": CONFIG}, False), ({"addresses": None}, False)],
)
def test_a_shard_waits_for_a_config_server_on_another_host_as_long_as_that_takes(
    story: Story, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], *, waits: bool
) -> None:
    monkeypatch.setattr(recover, "rewrite", lambda *_: None)
    serving = Serving(port=2, replica_set="new", role=SHARD, host="db1", addresses=ADDRESSES)
    story.recover(WholeLog(at(20)), replace(serving, **changes))
    assert story.server.patience == [recover.START_LIMIT_S if waits else 600.0]
    said = ("starting the shard", "which waits until the config server answers at cfg/127.0.0.1:1")
    assert (said in story.progress.phases) is waits


def test_archived_oplog_is_replayed_without_a_server_on_it(
    story: Story, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies beside a backup's files, whose own oplog is not read."""
    story.base_record = story.record(4)
    entries = story.source.oplog[3:]
    data = b"".join(entries)
    first, last = place(entries[0]), place(entries[-1])
    file = AddedFile(
        name=OplogPosition(first.time, first.inc, 1).name,
        size=len(data),
        read=lambda begin, end: iter([data[begin:end]]),
        end=str(OplogPosition(last.time, last.inc, 1)),
    )
    (tmp_path / "log").mkdir()
    put_in(tmp_path / "log", [file], OplogPosition(first.time, first.inc, 1), Silent())
    known = story.record(4, complete_to=at(8))
    story.source_record = replace(known, server=known.server | {ARCHIVED: "1"})
    recovered = story.recover(until(7.5))
    assert story.numbers == [1, 2, 3, 4, 5, 6, 7] and list(story.servers) == ["base"]
    assert story.server.did[:3] == ["make room", "start to open", "shut down"]
    assert recovered.replay and recovered.replay.transactions == 3
    assert story.recovery.contains(story.files("log", story.source_record), f"{ts(5).time},1@1")
    assert not story.recovery.contains(story.files("log", story.source_record), f"{FIRST + 99},1@1")
    # A time that is far from when that backup was taken is right: it ends later than that.
    story.servers.clear()
    old = replace(story.source_record, taken=at(-4 * 3600), complete_to=at(8))
    story.source_record = old
    story.recover(until(7.5))
    assert story.numbers[-1] == 7
    assert reached_by(story.files("log", old)) == at(8)
    for unknown in (None, old.taken):
        found = reached_by(story.files("log", replace(old, complete_to=unknown)))
        assert found == datetime.fromtimestamp(last.time, UTC)
