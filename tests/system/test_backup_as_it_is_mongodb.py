"""A mongod that runs alone keeps no oplog: its backups are restored as they are, from wherever they lie."""

import base64
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, connect, start_single
from tests.lab.pool import Pool, create_pool, run
from tests.lab.repeats import some
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.system.conftest import end_clones
from tests.system.forked import shared
from tests.system.house import local, utc
from tests.system.mongo_house import MongoHouse, build
from tests.system.program import Result
from tests.unit.docs.typed import typed

BUCKET = "alone"
BUCKETS = "zbackup.destinations.s3.from_config"

SOURCES = [("cloud",), ("vault",), ("vault", "--run-at-destination")]
TOLD = [(first, words) for words in SOURCES for first in (True, False)]
"""Each of the two backups from each source; and, of drills, where."""
DRILLS = [(), ("--at", "cloud"), ("--at", "vault")]


@dataclass
class Alone:
    """A standalone mongod with two backups, of one document and of two, shipped to a pool and a bucket."""

    house: MongoHouse
    config: Path
    burnt: Path
    names: list[str]

    def zb(self, *words: str) -> Result:
        return self.house.zb(*words, config=self.config)

    def found(self, result: Result) -> set[int]:
        report = result.data
        with connect(Path(report["socket"]), username=ADMIN, password=ADMIN_PASSWORD) as client:
            found = {int(d["_id"]) for d in client.shop.orders.find()}
        config = self.burnt if "burnt" in report["clone"] else self.config
        assert self.house.zb("clone", "destroy", report["clone"], "--yes", config=config).rc == 0
        return found


@pytest.fixture(scope="module")
def alone(pool: Pool) -> Iterator[Alone]:
    vault = create_pool()
    run("zfs", "create", f"{vault.name}/vault")
    with start_single(build(pool, pool.home)) as server, s3_server() as bucket:
        house = MongoHouse(pool, pool.home, server, (pool.data.name,))
        house.pools.append(vault.name)
        client(bucket).create_bucket(Bucket=BUCKET)
        secret, key = house.home / "secret", house.home / "key"
        secret.write_text(SECRET)
        key.write_text(base64.b64encode(os.urandom(32)).decode())
        for path in (secret, key):
            path.chmod(0o600)
        s3 = {"endpoint": bucket.endpoint, "region": "us-east-1", "access_key": ACCESS, "path_style": True}
        s3 |= {"secret_key": {"file": str(secret)}, "key": {"file": str(key)}}
        ship: list[dict[str, Any]] = [
            {"name": "cloud", "to": f"s3://{BUCKET}/x", "initial": "allow", "s3": s3},
            {"name": "vault", "to": f"zfs:{vault.name}/vault", "initial": "allow"},
        ]
        config = house.configure("shipping", ship=ship)
        burnt = house.configure(
            "burnt",
            datasets=[f"{vault.name}/gone"],
            ship=ship[:1],
            recovery={"clones": f"{vault.name}/back", "mountpoint": str(vault.home / "back")},
        )
        house.forks = shared(*house.preload, BUCKETS)
        names = []
        for number in (1, 2):
            with server.client() as writer:
                writer.shop.orders.insert_one({"_id": number})
            names.append(house.snapshot(config)["name"])
            assert house.zb("ship", config=config).rc == 0
        with server.client() as writer:
            writer.shop.orders.insert_one({"_id": 3})
        yield Alone(house, config, burnt, names)
        end_clones(house)  # type: ignore[arg-type]
    vault.destroy()


def test_each_backup_comes_back_by_its_name(alone: Alone) -> None:
    told = some([0, 1], 0)
    for number, (name, wanted) in enumerate(zip(alone.names, ({1}, {1, 2}), strict=True)):
        before = alone.house.state()
        plan = alone.zb("restore", "--to-backup", name, "--dry-run", "--json").data
        assert (plan["to_backup"], plan["base"]["name"], plan["replay"]["transactions"]) == (name, name, 0)
        assert alone.house.state() == before
        if number in told:
            here = {"docs": "shop", "zbackup-20240501T080000Z": name}
            words = typed("point-in-time-recovery-mongodb.md", "zbackup restore docs --to-backup", here)
            assert alone.found(alone.zb(*words, "--name", "look", "--json")) == wanted


def test_each_comes_back_by_its_own_moment_and_no_other_does(alone: Alone) -> None:
    first, second = (utc(b["as_of"]) for b in alone.house.backups())
    exact, rounded = local(first), local(first.replace(microsecond=0))
    plan = alone.zb("restore", "--to", exact, "--dry-run", "--json").data
    assert plan["base"]["name"] == alone.names[0]
    for moment in some([exact, rounded], rounded):
        restored = alone.zb("restore", "--to", moment, "--name", "look", "--json")
        assert alone.found(restored) == {1}
    said = alone.zb("restore", "--to", local(first + (second - first) / 2), "-q").refused(9)
    assert "runs alone and keeps no oplog" in said and said.endswith(f"--to-backup {alone.names[0]}")


def test_the_latest_is_the_newest_backup(alone: Alone) -> None:
    words = typed("point-in-time-recovery-mongodb.md", "zbackup restore docs --to latest", {"docs": "shop"})
    assert alone.found(alone.zb(*words, "--name", "look", "--json")) == {1, 2}


@pytest.mark.parametrize(("first", "words"), some(TOLD, (True, SOURCES[0]), (False, SOURCES[2])))
def test_they_come_back_from_every_destination(alone: Alone, first: bool, words: tuple[str, ...]) -> None:
    target = ("--to-backup", alone.names[0]) if first else ("--to", "latest")
    restored = alone.zb("restore", *target, "--from", *words, "--name", "look", "--json")
    assert alone.found(restored) == ({1} if first else {1, 2})


def test_they_come_back_where_nothing_else_is(alone: Alone) -> None:
    here = {"docs": "shop", "zbackup-20240501T080000Z": alone.names[1], "offsite": "cloud"}
    words = typed("point-in-time-recovery-mongodb.md", "zbackup restore docs --from", here)
    found = alone.house.zb(*words, "--name", "burnt", "--json", config=alone.burnt)
    assert alone.found(found) == {1, 2}


def test_a_snapshot_of_others_comes_back(alone: Alone) -> None:
    name = f"{alone.house.datasets[0]}@by-hand"
    with alone.house.server.client() as writer:
        found = {int(d["_id"]) for d in writer.shop.orders.find()}
    run("zfs", "snapshot", "-r", name)
    assert alone.found(alone.zb("restore", "--base", name, "--name", "look", "--json")) == found
    run("zfs", "destroy", "-r", name)


def test_a_drill_passes_here_and_there(alone: Alone) -> None:
    for words in some(DRILLS, DRILLS[0], DRILLS[1]):
        drilled = alone.zb("verify", *words, "--drill", "--json").data[0]["drill"]
        assert drilled["base"]["name"] == alone.names[1]
        assert drilled["verdict"]["passed"] and drilled["tables"] > 0


def test_what_is_promised_is_that_and_nothing_else(alone: Alone) -> None:
    listed = alone.zb(*typed("point-in-time-recovery-mongodb.md", "zbackup list"), "--json").data[0]
    assert listed["window"] is None and listed["as_they_are"] == alone.names
    window = alone.zb("window", "--json").data[0]
    assert window["ranges"] == [] and window["as_they_are"] == alone.names
    status = alone.zb("status", "--json").data[0]
    assert status["window"] is None and status["as_they_are"] == alone.names
    assert status["health"] == "warning", status["findings"]
    for command in ("list", "window", "status"):
        said = alone.zb(command).out
        assert "Any moment" not in said and "2 backups" in said, said


def test_a_clone_is_made_of_its_own_moment(alone: Alone) -> None:
    first = utc(alone.house.backups()[0]["as_of"])
    made = alone.zb("clone", "create", "--at", local(first), "--name", "dev", "--keep-accounts", "--json")
    assert made.rc == 0, made
    (dev,) = made.data["clones"]
    with connect(Path(dev["socket"]), username=ADMIN, password=ADMIN_PASSWORD) as client:
        assert {int(d["_id"]) for d in client.shop.orders.find()} == {1}
    assert alone.zb("clone", "destroy", "dev", "--yes").rc == 0
