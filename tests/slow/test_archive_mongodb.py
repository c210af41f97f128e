"""The oplog archived through a gate, to a bucket, and by who is killed; and what of it was rolled back."""

import base64
import contextlib
import os
import signal
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pymongo import WriteConcern

from tests.destinations.shop import BUCKET
from tests.lab import mongo_load
from tests.lab.mongo_fixture import MongoServer, dbhash, initiate, start_single
from tests.lab.pool import Pool, create_pool, run
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.lab.two_hosts import TwoHosts, hosts
from tests.system.archive_story import archiving
from tests.system.come_back import Offsite, offsite_of
from tests.system.forked import forks
from tests.system.house import after_writing, local, next_second, now, utc, wait_until
from tests.system.mongo_archive_story import Elsewhere, elsewhere
from tests.system.mongo_house import MongoHouse, build, member

__all__ = ["hosts"]

KILLS = 25


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[MongoHouse]:
    with start_single(build(pool, pool.home, replica_set="rs0", auth=False)) as server:
        house = MongoHouse(pool, pool.home, server, (pool.data.name,))
        with forks(house.home) as house.forks:
            yield house


def write(house: MongoHouse, first: int, count: int = 100) -> datetime:
    """Documents, a transaction of two collections, and an index; returns a moment behind it all."""
    with house.server.client() as connection:
        shop = connection.get_database("shop", write_concern=WriteConcern("majority", j=True))
        shop.orders.insert_many([{"_id": n, "of": first} for n in range(first, first + count)])
        with connection.start_session() as session, session.start_transaction():
            shop.orders.update_one({"_id": first}, {"$set": {"paid": True}}, session=session)
            shop.paid.insert_one({"_id": first}, session=session)
        shop.orders.create_index([("of", first)] if first == 1 else [("paid", 1)])
    return next_second()


def require_story(
    house: MongoHouse, config: Path, burnt: Path, at: str, environment: Mapping[str, str] | None = None
) -> None:
    """Ship, archive, go on, archive, and bring all of it back where nothing is."""

    def here(*words: str) -> Any:
        return house.zb(*words, config=config, environment=environment)

    def back(*words: str) -> Any:
        return house.zb(*words, config=burnt, environment=environment)

    with house.server.client() as connection:
        connection.drop_database("shop")
    write(house, 1)
    house.snapshot(config)
    assert here("ship").rc == 0
    moment = write(house, 1001)
    with house.server.client() as connection:
        then = dbhash(connection)
    done = here("archive", "--once", "--json").data[0]
    assert done["appended"] > 0 and not done["gap"] and not done["new_epoch"], done
    write(house, 2001)
    assert here("archive", "shop", "--once").rc == 0
    with house.server.client() as connection:
        last = dbhash(connection)
    assert "archived up to" in here("check").out
    (state,) = here("archive", "status", "--json").data
    assert state["exposed_s"] is not None and state["end"]
    window = back("window", "--at", at, "--json").data[0]
    assert utc(window["ranges"][-1]["to"]) >= moment
    for to, name, wanted in (("latest", "whole", last), (local(moment), "then", then)):
        report = back("restore", "--from", at, "--to", to, "--name", name, "--json")
        with house.clone(report.data) as connection:
            assert dbhash(connection) == wanted, name
        assert back("clone", "destroy", name, "--yes").rc == 0
    shown = back("log", "shop", "--at", at, "--table", "shop.paid")
    assert shown.rc == 0 and shown.out.count("shop.paid insert") >= 3, shown
    checked = back("verify", "--at", at, "--read", "all", "--json").data[0]
    assert checked["problems"] == [] and checked["archived_log"]["read"] > 0
    assert checked["archived_log"]["ends"] == []


def require_drilled_and_pruned(
    house: MongoHouse, config: Path, burnt: Path, at: str, environment: Mapping[str, str] | None = None
) -> None:
    """A drill of it passes, and what is pruned there is not what a restore needs."""
    drilled = house.zb(
        "verify", "--at", at, "--read", "none", "--drill", config=burnt, environment=environment
    )
    assert drilled.rc == 0, drilled
    pruned = house.zb("prune", "--at", at, "--json", config=config, environment=environment).data[0]
    assert pruned["skipped"] == [], pruned
    report = house.zb(
        *("restore", "--from", at, "--to", "latest", "--name", "after", "--json"),
        config=burnt,
        environment=environment,
    ).data
    with house.clone(report) as connection, house.server.client() as original:
        assert dbhash(connection) == dbhash(original)
    assert house.zb("clone", "destroy", "after", "--yes", config=burnt).rc == 0


def test_to_another_pool_and_kept_as_long_as_a_backup_of_it(house: MongoHouse) -> None:
    there, new = create_pool(), create_pool()
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{there.name}/copies")
    ship = {"name": "pool", "to": f"zfs:{there.name}/copies", "initial": "allow"}
    try:
        config = house.configure("to-pool", **archiving(ship))
        burnt = house.configure(
            "from-pool",
            datasets=[f"{new.name}/gone"],
            ship=[ship],
            recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
        )
        require_story(house, config, burnt, "pool")
        require_drilled_and_pruned(house, config, burnt, "pool")
    finally:
        new.destroy()
        there.destroy()


@pytest.fixture
def offsite(house: MongoHouse, hosts: TwoHosts) -> Iterator[Offsite]:
    with offsite_of(house, hosts) as made:
        yield made


def test_through_a_gate_by_a_key_that_may_only_append(house: MongoHouse, offsite: Offsite) -> None:
    def ready() -> Path:
        return house.configure("to-gate", **archiving(offsite.ship("append-only")))

    assert offsite.send("check").rc in (0, 1, 9)
    house.snapshot(offsite.sending)
    assert offsite.send("ship").rc == 0
    offsite.make_log()
    require_story(house, ready(), offsite.burnt, "offsite", offsite.hosts.environment)
    pruning = house.configure("pruning", ship=[offsite.ship("trusted")])
    require_drilled_and_pruned(house, pruning, offsite.burnt, "offsite", offsite.hosts.environment)


def test_to_a_bucket_sealed(house: MongoHouse) -> None:
    new = create_pool()
    secret, key = house.home / "secret", house.home / "key"
    secret.write_text(SECRET)
    key.write_text(base64.b64encode(os.urandom(32)).decode())
    for path in (secret, key):
        path.chmod(0o600)
    try:
        with s3_server() as server:
            with contextlib.suppress(Exception):
                client(server).create_bucket(Bucket=BUCKET)
            ship = {
                "name": "cloud",
                "to": f"s3://{BUCKET}/oplog",
                "initial": "allow",
                "s3": {
                    "endpoint": server.endpoint,
                    "region": "us-east-1",
                    "access_key": ACCESS,
                    "secret_key": {"file": str(secret)},
                    "path_style": True,
                    "key": {"file": str(key)},
                },
            }
            config = house.configure("to-cloud", **archiving(ship))
            burnt = house.configure(
                "from-cloud",
                datasets=[f"{new.name}/gone"],
                ship=[ship],
                recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
            )
            require_story(house, config, burnt, "cloud")
            names = [o["Key"] for o in client(server).list_objects_v2(Bucket=BUCKET)["Contents"]]
            assert any(".oplog/" in name for name in names), names
            require_drilled_and_pruned(house, config, burnt, "cloud")
    finally:
        new.destroy()


def test_an_archiver_that_is_killed_again_and_again_lacks_nothing(house: MongoHouse) -> None:
    there, new = create_pool(), create_pool()
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{there.name}/copies")
    ship = {"name": "killed", "to": f"zfs:{there.name}/copies", "initial": "allow"}
    config = house.configure("killed", **archiving(ship))
    burnt = house.configure(
        "after-kills",
        datasets=[f"{new.name}/gone"],
        ship=[ship],
        recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
    )
    journal = house.home / "kills"
    try:
        house.snapshot(config)
        assert house.zb("ship", config=config).rc == 0
        with mongo_load.start(house.server, threads=3, rate=120, journal=journal):
            for number in range(KILLS):
                archiver = house.begin("archive", "shop", config=config)
                time.sleep(0.4 + 0.15 * (number % 12))
                archiver.signal_group(signal.SIGKILL)
                archiver.end()
            after_writing(journal, 50)
        end = now()
        done = house.zb("archive", "--once", "--json", config=config).data[0]
        assert not done["gap"] and not done["new_epoch"], done
        report = house.zb(
            "restore", "--from", "killed", "--to", "latest", "--name", "back", "--json", config=burnt
        ).data
        with house.clone(report) as connection:
            verdict = mongo_load.verify(connection, journal, end, now())
        assert verdict.required > 0
        assert house.zb("clone", "destroy", "back", "--yes", config=burnt).rc == 0
    finally:
        new.destroy()
        there.destroy()


# a set of three


def _holds(server: MongoServer, numbers: list[int]) -> bool:
    with contextlib.suppress(Exception), server.client(readPreference="secondaryPreferred") as connection:
        return sorted(mark["_id"] for mark in connection.shop.marks.find()) == numbers
    return False


def _leads(server: MongoServer) -> bool:
    with contextlib.suppress(Exception), server.client() as connection:
        return bool(connection.admin.command("hello")["isWritablePrimary"])
    return False


def _write(servers: tuple[MongoServer, ...], numbers: list[int], concern: int | str) -> None:
    found: list[MongoServer] = []

    def there() -> bool:
        found[:] = [s for s in servers if s.running and _leads(s)]
        return bool(found)

    wait_until("there is a primary", there, 120)
    with found[0].client() as connection:
        marks = connection.shop.marks.with_options(write_concern=WriteConcern(concern))
        marks.insert_many([{"_id": number} for number in numbers])


def marks(away: Elsewhere, to: str = "latest", *more: str) -> list[int]:
    """The marks that a restore brings back."""
    with away.back("--to", to, *more) as connection:
        return sorted(mark["_id"] for mark in connection.shop.marks.find())


def test_what_a_minority_had_is_never_archived_and_what_goes_on_without_it_is(pool: Pool) -> None:
    """The archived member is a primary that loses its majority, with what it took last."""
    (first, dataset), (second, _), (third, _) = (member(pool, name) for name in "abc")
    with first, second, third:
        every = (first, second, third)
        initiate(list(every), {2: {"priority": 0}})
        house = MongoHouse(pool, pool.home / "a", first, (dataset,))
        wait_until("zbackup's account has come", lambda: house.zb("check").rc == 0, 60)
        with elsewhere(house) as away:
            _write(every, list(range(20)), "majority")
            away.shipped()
            _write(every, list(range(20, 40)), "majority")
            written = now()
            wait_until("it is archived", lambda: utc(away.archived()["archived_to"]) > written, 60)
            assert marks(away) == list(range(40))
            second.kill()
            third.kill()
            _write((first,), [1000, 1001, 1002], 1)
            end = away.archived()["end"]
            time.sleep(2)
            assert away.archived()["end"] == end
            first.kill()
            for other in (second, third):
                other.start()
            _write((second, third), list(range(40, 60)), "majority")
            written = now()
            first.start()
            wait_until("what was lost is rolled back", lambda: _holds(first, list(range(60))), 120)
            wait_until("it is archived", lambda: utc(away.archived()["archived_to"]) > written, 60)
            assert away.archived()["epoch"] == 0, "nothing that was archived was rolled back"
            assert marks(away) == list(range(60))


def test_what_was_archived_and_taken_back_by_force_begins_an_epoch(pool: Pool) -> None:
    """A server whose dataset was rolled back to a snapshot goes another way."""
    home = pool.home / "forced"
    home.mkdir()
    data = pool.dataset("forced")
    with start_single(build(pool, home, "f", data=data, replica_set="rs0", auth=False)) as server:
        house = MongoHouse(pool, home, server, (data.name,))
        with elsewhere(house) as away:
            _write((server,), [1], "majority")
            away.shipped()
            _write((server,), [2], "majority")
            common = next_second()
            away.archived()
            server.stop()
            run("zfs", "snapshot", f"{data.name}@back")
            server.start()
            _write((server,), [3], "majority")
            away.archived()
            server.kill()
            run("zfs", "rollback", f"{data.name}@back")
            server.start()
            _write((server,), [4], "majority")
            wait_until("an epoch begins", lambda: away.archived()["epoch"] == 1, 60)
            said = house.zb("-q", *away.restoring("--to", "latest"), config=away.burnt).refused(9)
            assert "archived two ways" in said and "--epoch 0" in said and "--epoch 1" in said
            assert marks(away, "latest", "--epoch", "0") == [1, 2, 3]
            assert marks(away, "latest", "--epoch", "1") == [1, 2, 4]
            assert marks(away, local(common), "--epoch", "1") == [1, 2]
