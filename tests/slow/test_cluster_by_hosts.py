"""A sharded cluster that several hosts restore, each its own member by the same command.

The hosts are three configurations with addresses of their own; none knows of another's instance.
"""

import contextlib
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from bson.timestamp import Timestamp

from tests.lab.pool import Pool
from tests.system.cluster_past import Past, past, require_it_works, require_same, restored_router
from tests.system.cluster_story import (
    CONFIG,
    PATIENCE,
    SHARDS,
    ClusterHouse,
    Load,
    cluster_house,
    ending,
    newest,
    torn,
)
from tests.system.house import wait_until

LIMIT_S = 3600
MEMBERS = (CONFIG, *SHARDS)
HOSTS = {member: f"127.0.0.{number}" for number, member in enumerate(MEMBERS, 2)}


@dataclass(frozen=True)
class Loaded:
    """A cluster that was worked with, and what it held at cluster times in between."""

    house: ClusterHouse
    load: Load
    pasts: Mapping[str, tuple[Timestamp, Past]]


@pytest.fixture(scope="module")
def loaded(pool: Pool) -> Iterator[Loaded]:
    with cluster_house(pool) as house:
        load = Load(house.cluster)
        house.back_up()
        with load.running():
            house.back_up(SHARDS[0])
            since = newest(house.cluster)
            wait_until("moves", lambda: load.over or load.moves > 1, 600)
            wait_until("transfers", lambda: load.over or load.transfers >= 40, 600)
            house.back_up()
        spans, ends = torn(house.cluster, since), ending(house.cluster, since)
        cuts = {"between": spans[len(spans) // 2][2], "a move that ends": ends[-1]}
        yield Loaded(house, load, {kind: (at, past(house.cluster, at)) for kind, at in cuts.items()})


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("kind", ["between", "a move that ends"])
def test_each_member_on_its_own_host(loaded: Loaded, kind: str) -> None:
    """By one and the same command."""
    house, (at, was) = loaded.house, loaded.pasts[kind]
    configs = {
        member: house.configure(
            f"host of {member}",
            host=member,
            recovery={"clones": f"{house.pool.name}/clones of {member}"},
        )
        for member in MEMBERS
    }
    where = {member: f"{member}/{HOSTS[member]}:{port}" for member, port in zip(MEMBERS, free(), strict=True)}
    command = (
        *("restore", "--to-timestamp", f"{at.time},{at.inc}", "--name", "then"),
        *("--configdb", where[CONFIG], *(word for shard in SHARDS for word in ("--shard", where[shard]))),
    )
    before = house.state()
    planned = house.zb(*command, "--dry-run", config=configs[CONFIG])
    assert planned.rc == 0 and house.state() == before
    other = ("--configdb", where[SHARDS[0]], "--shard", where[CONFIG], "--shard", where[SHARDS[1]])
    refused = house.zb(*command[:5], *other, config=configs[CONFIG])
    assert refused.rc == 2 and "config is a config server by" in refused.err and house.state() == before
    # All at once, on three hosts: a shard's server waits until the config server answers.
    runs = {m: house.begin(*command, "--json", config=configs[m]) for m in reversed(MEMBERS)}
    made = {member: run.end(PATIENCE).data for member, run in runs.items()}
    assert {member: each["member"]["address"] for member, each in made.items()} == where
    assert len({each["member"]["cluster_id"] for each in made.values()}) == 1
    report = {"members": [made[member] for member in MEMBERS], "configdb": where[CONFIG]}
    orphans = require_same(report, was, loaded.load, at)
    require_it_works(report)
    for what in ("stop", "start"):
        for member in MEMBERS:
            assert house.zb("clone", what, "then", config=configs[member]).rc == 0
    wait_until("they know each other again", lambda: answers(report), 300)
    for member in MEMBERS:
        assert house.zb("clone", "destroy", "then", "--yes", config=configs[member]).rc == 0
    print(f"{kind}: {len(loaded.load.written)} single writes, {orphans} orphans", flush=True)


def answers(report: Mapping[str, Any]) -> bool:
    """Every shard takes writes."""
    router = restored_router(report)
    try:
        return all(router.on(shard, "admin", {"hello": 1})["isWritablePrimary"] for shard in SHARDS)
    finally:
        router.close()


def free() -> list[int]:
    """Ports that nobody has, on any address."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in MEMBERS]
        for probe in probes:
            probe.bind(("", 0))
        return [probe.getsockname()[1] for probe in probes]
