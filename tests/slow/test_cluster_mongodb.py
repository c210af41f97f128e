"""Twenty rounds of a sharded cluster under load, restored to one cluster time: docs/reference/slow-tests.md.

Each round has another kind of cut: between two shards' commit entries, around a chunk migration, at a whole
second.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from bson.timestamp import Timestamp

from tests.lab.pool import Pool
from tests.system.cluster_past import (
    past,
    require_it_works,
    require_own_orphans,
    require_same,
    restored_router,
)
from tests.system.cluster_story import (
    SHARDS,
    ClusterHouse,
    Load,
    cluster_house,
    moved,
    newest,
    torn,
)
from tests.system.house import wait_until
from tests.unit.docs.typed import typed

ROUNDS = 20
LIMIT_S = 3 * 3600
TRANSFERS = 40
KINDS = ("between", "first", "at commit", "after commit", "moved", "second", "before the move")


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[ClusterHouse]:
    with cluster_house(pool) as house:
        yield house


def cut(house: ClusterHouse, kind: str, since: Timestamp) -> Timestamp:
    """The cluster time before which everything is to be there."""
    spans, changes = torn(house.cluster, since), moved(house.cluster, since)
    commit, first, last = spans[len(spans) // 2]
    match kind:
        case "between":
            return last
        case "first":
            return first
        case "at commit":
            return commit
        case "after commit":
            return Timestamp(commit.time, commit.inc + 1)
        case "moved":
            return Timestamp(changes[-1].time, changes[-1].inc + 1)
        case "before the move":
            return changes[-1]
    return Timestamp(last.time, 0) if last.time > since.time + 1 else last


def restarted(house: ClusterHouse, report: Mapping[str, Any]) -> None:
    """Stopped and started again, as after a reboot, its members know what they are."""
    clones = [member["clone"] for member in report["members"]]
    for what, names in (("stop", reversed(clones)), ("start", clones)):
        for name in names:
            house.zb("clone", what, name, "--json").data  # noqa: B018  checks the exit status
    wait_until("it works again", lambda: works(report), 300)


def works(report: Mapping[str, Any]) -> bool:
    """Tell whether every shard takes writes."""
    router = restored_router(report)
    try:
        return all(router.on(shard, "admin", {"hello": 1})["isWritablePrimary"] for shard in SHARDS)
    finally:
        router.close()


@pytest.mark.timeout(LIMIT_S)
def test_a_sharded_cluster_comes_back_at_one_cluster_time(house: ClusterHouse) -> None:
    """At a time between two shards' commit entries of a transaction, with all commands that know of it."""
    house.back_up()
    load = Load(house.cluster)
    with load.running():
        house.back_up(SHARDS[0])
        since = newest(house.cluster)
        wait_until("a move", lambda: load.over or load.moves > 0, 300)
        wait_until("transfers", lambda: load.over or load.transfers >= 40, 300)
        house.back_up()
    spans = torn(house.cluster, since)
    at = spans[len(spans) // 2][2]
    was = past(house.cluster, at)
    before = house.state()
    planned = house.zb(*typed("restore-a-sharded-cluster.md", "zbackup window"), "--json").data
    assert planned["common"] and planned["newest"]
    checked = house.zb(*typed("restore-a-sharded-cluster.md", "zbackup check")).out
    assert checked.count("common window: after ") == 1
    then = {"2026-11-21 05:49": "2024-05-01 10:02"}
    early = house.zb(*typed("restore-a-sharded-cluster.md", "zbackup restore --cluster shop --to", then))
    assert early.rc == 5 and "is not in the window of config, rs0, rs1. config: after " in early.err
    alone = house.zb("restore", "rs0", "--cluster", "shop", "--to", "latest")
    assert alone.rc == 2 and "--cluster goes with --to" in alone.err
    assert house.state() == before
    report = house.restore_all(at, "then")
    assert [m["role"] for m in report["members"]] == ["configsvr", "shardsvr", "shardsvr"]
    require_same(report, was, load, at)
    require_it_works(report)
    house.remove(report)
    drilled = house.zb("verify", "--cluster", "shop", "--drill", "--json").data
    assert all(member["tables"] for member in drilled["members"])
    assert not {name for name in house.names() if name.startswith(house.clones + "/")}


@pytest.fixture(scope="module")
def load(house: ClusterHouse) -> Load:
    """The applications, which know all that they were told in every round."""
    house.back_up()
    return Load(house.cluster)


@pytest.fixture(scope="module")
def orphans() -> dict[int, int]:
    """How many orphans there were to be kept in each round that passed."""
    return {}


@pytest.fixture
def alone(house: ClusterHouse, load: Load) -> Iterator[None]:
    """What a round that failed has left does not make the next one fail."""
    yield
    load.failures.clear()
    house.destroy(*(clone["name"] for clone in house.zb("clone", "list", "--json").data))


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("number", range(ROUNDS), ids=lambda number: f"r{number:02}")
def test_nothing_is_lost_doubled_or_torn(
    house: ClusterHouse, load: Load, orphans: dict[int, int], number: int
) -> None:
    kind = KINDS[number % len(KINDS)]
    with load.running(base=number + 1):
        house.back_up(SHARDS[number % 2])
        house.back_up()
        since, transfers, moves = newest(house.cluster), load.transfers, load.moves
        wait_until("transfers", lambda: load.over or load.transfers >= transfers + TRANSFERS, 600)
        wait_until("moves", lambda: load.over or load.moves >= moves + 2, 600)
        if number % 3 == 0:
            house.back_up(*SHARDS)
    at = cut(house, kind, since)
    was = past(house.cluster, at)
    report = house.restore_all(at, f"round{number}")
    found = require_same(report, was, load, at)
    require_it_works(report)
    if number == 0:
        restarted(house, report)
    house.remove(report)
    if number % 5 == 0:
        require_own_orphans(house, was, at)
    print(
        f"round {number} ({kind}): {load.transfers} transfers, {load.moves} moves, {len(load.made)} new "
        f"collections so far, {found} orphans",
        flush=True,
    )
    orphans[number] = found


def test_there_were_orphans_to_be_kept(orphans: dict[int, int]) -> None:
    """Of a few rounds alone nobody can ask that."""
    if len(orphans) < ROUNDS:
        pytest.skip(f"{len(orphans)} of {ROUNDS} rounds have passed")
    assert any(orphans.values())
