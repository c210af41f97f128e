"""A recovered clone takes the place of a mongod that is a set of one member, with its journal on a dataset of
its own, and goes back; then another one on top of it.
"""

import shlex
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.lab.mongo_fixture import MongoSettings, await_primary, free_port
from tests.lab.pool import Pool, run
from tests.lab.server_user import SERVER_UID
from tests.system.conftest import end_clones
from tests.system.forked import forks
from tests.system.house import now
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import REPLICA_SET, mongo_house, opened
from tests.system.program import Result

COUNT = 1000
UNSAVED = 7
"""Written after the last backup before the switch."""
SCRIPT = """#!/bin/sh
# What systemd would do.
case "$1" in
stop)
    kill "$(cat {pid})" 2>/dev/null
    while kill -0 "$(cat {pid})" 2>/dev/null; do sleep 0.1; done ;;
start)
    setsid setpriv --reuid={uid} --regid={uid} --clear-groups {argv} </dev/null >/dev/null 2>&1 & ;;
esac
"""


class Shop:
    """Production whose people were deleted."""

    def __init__(self, house: MongoHouse) -> None:
        self.house = house
        settings = house.server.settings
        self.service = house.home / "service"
        pid = settings.run_dir / "mongod.pid"
        argv = [str(settings.program), *settings.arguments(), f"--pidfilepath={pid}"]
        script = SCRIPT.format(pid=shlex.quote(str(pid)), uid=SERVER_UID, argv=shlex.join(argv))
        self.service.write_text(script)
        self.service.chmod(0o755)
        service = {"stop": [str(self.service), "stop"], "start": [str(self.service), "start"], "limit": "60s"}
        self.config = house.configure("service", service=service)
        # From here on it is the service's: a process of ours would stay as a zombie.
        house.server.stop()
        self.do("start")
        self.await_primary()
        self.write(COUNT)
        house.snapshot(self.config)
        self.moment = now()
        self.delete()
        house.snapshot(self.config)
        self.write(UNSAVED)
        self.until = now()
        self.write(1)

    @property
    def settings(self) -> MongoSettings:
        return self.house.server.settings

    def do(self, what: str) -> None:
        subprocess.run([self.service, what], check=True)

    def await_primary(self) -> None:
        with self.house.server.client(serverSelectionTimeoutMS=60_000) as client:
            await_primary(client)

    def write(self, many: int) -> None:
        with self.house.server.client() as client:
            first = client.shop.people.count_documents({})
            client.shop.people.insert_many([{"_id": first + n} for n in range(many)])

    def delete(self) -> None:
        with self.house.server.client() as client:
            client.shop.people.delete_many({})

    def count(self) -> int:
        with self.house.server.client() as client:
            return client.shop.people.count_documents({})

    def recover(self, to: datetime, name: str) -> None:
        self.house.restore(to, name, "--as-replica-set", REPLICA_SET, "--port", str(free_port()))

    def switch(self, *words: str) -> Result:
        return self.house.zb(
            "switch", "shop", *words, "--confirm", "shop", "--json", "-q", config=self.config
        )

    def reconfigure(self) -> None:
        """As docs/how-to/replace-production.md says: the only member gets its address."""
        with self.house.server.client(serverSelectionTimeoutMS=60_000) as client:
            config = client.admin.command("replSetGetConfig")["config"]
            config["members"][0]["host"] = f"127.0.0.1:{self.settings.port}"
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)
            await_primary(client)

    def restored(self, to: datetime) -> int:
        """How many people a restore to the moment finds."""
        report = self.house.restore(to, "look")
        with opened(report) as client:
            found = int(client.shop.people.count_documents({}))
        self.house.destroy("look")
        return found

    def backups(self) -> set[str]:
        listed: list[dict[str, Any]] = self.house.zb("list", "--json", config=self.config).data[0]["backups"]
        assert all(b["complete"] and b["finished"] for b in listed), listed
        return {b["backup"] for b in listed}


@pytest.fixture(scope="module")
def shop(pool: Pool) -> Iterator[Shop]:
    with mongo_house(pool) as house, forks(house.home) as house.forks:
        shop = Shop(house)
        yield shop
        shop.do("stop")
        end_clones(house)  # type: ignore[arg-type]


def test_the_clone_is_production(shop: Shop) -> None:
    shop.recover(shop.moment, "good")
    known = shop.backups()
    report = shop.switch("good").data
    assert (report["outcome"], report["backup"]) == ("switched", None)
    assert "rs.reconfig()" in report["remarks"][0]
    for aside in report["aside"]:
        assert run("zfs", "get", "-Ho", "value", "readonly,mounted", aside).split() == ["on", "yes"]
    shop.reconfigure()
    assert shop.count() == COUNT
    shop.house.snapshot(shop.config)
    assert known < shop.backups()
    assert shop.restored(shop.until) == UNSAVED
    window = shop.house.zb("window", "--json", config=shop.config).data[0]
    assert [gap["cause"] for gap in window["gaps"]] == ["switch"], window


def test_all_moments_are_in_reach(shop: Shop) -> None:
    shop.write(10)
    moment = now()
    shop.write(5)
    shop.house.snapshot(shop.config)
    assert shop.restored(shop.moment) == COUNT
    assert shop.restored(moment) == COUNT + 10


def test_another_on_top_of_it_and_both_ways_back(shop: Shop) -> None:
    moment = now()
    shop.delete()
    shop.house.snapshot(shop.config)
    shop.recover(moment, "better")
    assert shop.switch("better").data["outcome"] == "switched"
    shop.reconfigure()
    assert shop.count() == COUNT + 15
    known = shop.backups()
    assert shop.switch("--undo").data["outcome"] == "undone"
    shop.await_primary()
    assert shop.count() == UNSAVED + 1
    assert shop.restored(shop.moment) == COUNT
    assert shop.switch("--undo").data["outcome"] == "undone"
    shop.await_primary()
    assert shop.count() == UNSAVED + 1
    assert known <= shop.backups()
    assert shop.restored(shop.moment) == COUNT
    assert shop.restored(moment) == COUNT + 15, "of the time when the clone was production"
    assert shop.restored(shop.until) == UNSAVED
    assert not [name for name in shop.house.names() if "-before-" in name]
    assert Path(shop.settings.datadir).exists()
