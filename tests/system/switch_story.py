"""The story of a recovered clone that takes production's place, and of the way back."""

import shlex
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pymysql.constants.COMMAND import COM_BINLOG_DUMP

from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import create_pool, run
from tests.lab.server_user import SERVER_UID
from tests.lab.servers.accounts import REPLICATION_PASSWORD, REPLICATION_USER
from tests.lab.servers.templates import DAEMON
from tests.system.forked import forks
from tests.system.house import House, checksums, local, next_second, wait_until
from tests.system.program import Result
from tests.unit.docs.typed import typed

CLONE = "good"
OWN = {"recordsize": "16384", "com.example:owner": "the shop", "canmount": "on", "setuid": "off"}
NOT_IN_CLONES = ("exec", "setuid", "devices")
SCRIPT = """#!/bin/sh
# What systemd would do.
pid={pid}
case "$1" in
stop)
    [ ! -e "$pid" ] || kill "$(cat "$pid")"
    while [ -e "$pid" ]; do sleep 0.1; done ;;
start)
    setsid setpriv --reuid={uid} --regid={uid} --clear-groups {argv} </dev/null >/dev/null 2>&1 & ;;
esac
"""


@contextmanager
def followed(house: House) -> Iterator[str]:
    """Somebody reads production's log as a replica does, and waits for more; how he is called."""
    with house.server.connect(REPLICATION_USER, REPLICATION_PASSWORD) as replica, replica.cursor() as cursor:
        file = Path(house.server.sql("SHOW BINARY LOGS")[-1][0]).name
        cursor.execute("SET @source_binlog_checksum = 'CRC32', @master_binlog_checksum = 'CRC32'")
        replica._execute_command(COM_BINLOG_DUMP, struct.pack("<IHI", 4, 0, 77) + file.encode())
        threads = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND LIKE 'Binlog Dump%'"
        wait_until("the log is read", lambda: house.server.sql(threads)[0][0] == 1, 30)
        yield f"{REPLICATION_USER} from localhost"
        replica._force_close()
    wait_until("nobody reads it", lambda: gone(house, threads), 60)


def gone(house: House, threads: str) -> bool:
    """A server finds that a replica is gone when it has something to send."""
    house.server.sql("FLUSH BINARY LOGS")
    return bool(house.server.sql(threads)[0][0] == 0)


class Service:
    """How production's server is stopped and started, as its operator does it."""

    def __init__(self, home: Path, server: DatabaseServer) -> None:
        settings = server.settings
        program = servers.path(settings.flavour) / "bin" / DAEMON[settings.kind]
        self.file = home / "service"
        pid = shlex.quote(str(settings.run_dir / "server.pid"))
        argv = shlex.join([str(program), *settings.arguments()])
        self.file.write_text(SCRIPT.format(pid=pid, uid=SERVER_UID, argv=argv))
        self.file.chmod(0o755)

    def table(self, stop: str = "stop", start: str = "start") -> dict[str, Any]:
        """As the configuration has it."""
        return {"stop": [str(self.file), stop], "start": [str(self.file), start], "limit": "30s"}

    def stop(self) -> None:
        subprocess.run([self.file, "stop"], check=True)


class Shop:
    """Production with a table that was dropped, and a clone of the moment before."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.service = Service(house.home, house.server)
        self.vault = create_pool()
        run("zfs", "create", f"{self.vault.name}/vault")
        vault = {"name": "vault", "to": f"zfs:{self.vault.name}/vault", "initial": "allow"}
        self.config = house.configure("service", service=self.service.table(), ship=[vault])
        self.roots = house.datasets
        for key, value in OWN.items():
            run("zfs", "set", f"{key}={value}", self.roots[0])
        self.first = house.snapshot()
        house.server.sql("UPDATE shop.customers SET email = CONCAT('new', id)")
        self.then = house.server.checksum()
        self.moment = next_second()
        house.server.sql("DROP TABLE shop.orders")
        self.dropped = house.server.checksum()
        self.after = next_second()
        house.server.sql("UPDATE shop.customers SET name = 'bad'")
        self.bad = house.server.checksum()
        self.second = house.snapshot()
        assert house.zb("ship", config=self.config).rc == 0
        house.server.sql("UPDATE shop.customers SET name = 'in no backup'")
        self.unsaved, self.until = house.server.checksum(), next_second()
        house.server.sql("UPDATE shop.customers SET name = 'worse'")
        self.bad = house.server.checksum()
        self.last = self.then
        words = typed(
            "replace-production.md", "zbackup restore shop --to", {"yesterday 10:02": local(self.moment)}
        )
        house.zb(*words, "--json").data  # noqa: B018  checks the exit status

    @property
    def parts(self) -> list[str]:
        """Production's datasets."""
        return [name for root in self.roots for name in run("zfs", "list", "-Hro", "name", root).splitlines()]

    @property
    def clone(self) -> list[str]:
        """The clone's datasets."""
        return run("zfs", "list", "-Hro", "name", f"{self.house.clones}/{CLONE}").splitlines()

    def switch(self, *words: str, config: Path | None = None, **more: Any) -> Result:
        argv = ("switch", "shop", *words, "--confirm", "shop", "--json", "-q")
        return self.house.zb(*argv, config=config or self.config, **more)

    def places(self) -> list[str]:
        """Production's datasets, all that is set on them, and their snapshots."""
        columns = ("-o", "name,guid,origin,mounted,mountpoint,userrefs")
        listed = run("zfs", "list", "-Hpr", "-t", "all", *columns, *self.roots)
        own = run("zfs", "get", "-Hpr", "-s", "local", "-o", "name,property,value", "all", *self.roots)
        return sorted([*listed.splitlines(), *own.splitlines()])

    def backups(self) -> set[str]:
        listed = self.house.zb("list", "--json", config=self.config).data[0]["backups"]
        assert all(b["complete"] and b["finished"] for b in listed), listed
        return {b["backup"] for b in listed}

    def require(self, sums: dict[str, int | None], where: str = "") -> None:
        """Production answers, and holds exactly this."""
        assert self.house.server.checksum() == sums, where

    def restored(self, to: datetime) -> dict[str, int | None]:
        """What a restore to the moment gives."""
        report = self.house.restore(to, "look")
        with self.house.clone(report) as clone:
            found = checksums(clone, ["shop.customers", "shop.orders"])
        self.house.destroy("look")
        return found


@pytest.fixture(scope="module")
def shop(house: House) -> Iterator[Shop]:
    with forks(house.home) as house.forks:
        shop = Shop(house)
        yield shop
        shop.service.stop()
    shop.vault.destroy()


def of(sums: dict[str, int | None]) -> dict[str, int | None]:
    return {name: sums.get(name) for name in ("shop.customers", "shop.orders")}


class SwitchStory:
    """The tests, in the order of the story."""

    thorough = False
    """Whether all kinds of moments are restored on both sides, or one of each."""

    def test_it_has_to_be_confirmed_and_configured(self, shop: Shop) -> None:
        before = shop.house.state()
        zb = shop.house.zb
        assert "--confirm shop" in zb("switch", "shop", CLONE, "-q", config=shop.config).refused(2)
        wrong = ("switch", "shop", CLONE, "--confirm", CLONE, "-q")
        assert "not the instance" in zb(*wrong, config=shop.config).refused(2)
        said = zb("switch", "shop", CLONE, "--confirm", "shop", "-q").refused(2)
        assert "instance.shop.service: missing" in said
        plan = zb(
            *typed("replace-production.md", "zbackup switch shop good --dry-run"),
            "--json",
            config=shop.config,
        ).data
        aside, places = (
            [row["to"] for row in plan["renames"][: len(shop.roots)]],
            [row["to"] for row in plan["renames"][len(shop.roots) :]],
        )
        assert all(new.startswith(f"{root}-before-2") for new, root in zip(aside, shop.roots, strict=True))
        assert sorted(places) == sorted(shop.parts)
        assert plan["replicas_ahead"] == []
        with followed(shop.house) as host:
            ahead = zb("switch", "shop", CLONE, "--dry-run", "--json", config=shop.config).data
            assert [name.partition(":")[0] for name in ahead["replicas_ahead"]] == [host], ahead
            said = shop.switch(CLONE).refused(9)
            assert host in said and "would exist twice" in said and "--replicas-ahead" in said
        blind = shop.house.configure("blind", service=shop.service.table(), password={"env": "NOWHERE"})
        assert "NOWHERE" in shop.switch(CLONE, config=blind).err
        assert shop.switch("--undo").rc == 4
        assert shop.house.state() == before

    def test_what_fails_early_leaves_production_running(self, shop: Shop) -> None:
        before = shop.places()
        stays = shop.house.configure("stays", service=shop.service.table() | {"stop": ["/bin/true"]})
        stays.write_text(stays.read_text().replace('"30s"', '"2s"'))
        failed = shop.switch(CLONE, config=stays)
        assert failed.rc == 7 and "still answers" in failed.err, failed
        assert shop.places() == before
        note = shop.house.server.settings.datadir.parent / "note"
        with note.open("w"):
            busy = shop.switch(CLONE)
        assert busy.rc == 10 and "busy" in busy.err, busy
        note.unlink()
        shop.require(shop.bad)
        assert shop.places() == before
        assert shop.house.zb("clone", "show", CLONE, "--json").data["state"] == "ready"

    def test_the_clone_is_production(self, shop: Shop) -> None:
        known = shop.backups()
        before = {line for line in shop.places() if "@" not in line and "#" not in line}
        allowed = self.allowed(*shop.parts)
        assert set(allowed) == {"on", "off"} and set(self.allowed(*shop.clone)) == {"off"}
        words = typed("replace-production.md", "zbackup switch shop good --confirm")
        report = shop.house.zb(*words, "--json", "-q", config=shop.config).data
        assert report["outcome"] == "switched" and len(report["aside"]) == len(shop.parts)
        assert any(name.startswith(f"{shop.roots[0]}-before-2") for name in report["aside"])
        shop.require(shop.then)
        settings = {line for line in before if len(line.split("\t")) == 3}
        assert settings <= set(shop.places())
        assert self.allowed(*shop.parts) == allowed, "what a clone may not, production may as before"
        places = {tuple(line.split("\t")[::4]) for line in before if len(line.split("\t")) == 6}
        now = {tuple(line.split("\t")[::4]) for line in shop.places() if len(line.split("\t")) == 6}
        assert places <= now
        for aside in report["aside"]:
            assert run("zfs", "get", "-Ho", "value", "readonly,mounted", aside).split() == ["on", "yes"]
        self.require_new(shop, known, report["backup"])
        shown = shop.house.zb("clone", "show", CLONE, "--json").data
        assert (shown["state"], shown["running"]) == ("switched", False)
        for verb in ("start", "destroy"):
            words = ("clone", verb, CLONE, *(["--yes"] if verb == "destroy" else []), "-q")
            assert "switch" in shop.house.zb(*words).refused(9)
        assert "in production's place" in shop.switch(CLONE).refused(9)

    def allowed(self, *datasets: str) -> list[str]:
        return run("zfs", "get", "-Ho", "value", ",".join(NOT_IN_CLONES), *datasets).split()

    def require_new(self, shop: Shop, known: set[str], name: str) -> None:
        """The first backup of what is production now, and the end of the log of what was."""
        assert known <= shop.backups()
        new = {b["name"]: b["purpose"] for b in shop.house.backups() if b["backup"] not in known}
        assert sorted(new.values()) == ["base", "log"] and new[name] == "base", new

    def test_the_gap_is_a_note(self, shop: Shop) -> None:
        """Until it leaves the window, and nothing else is wrong because of the switch."""
        window = shop.house.zb("window", "--json", config=shop.config).data[0]
        assert [gap["cause"] for gap in window["gaps"]] == ["switch"], window
        status = shop.house.zb("status", "--json", config=shop.config).data[0]
        assert status["window"]["gaps"] == [] and len(status["window"]["switched"]) == 1
        wrong = [f for f in status["findings"] if f["severity"] == "critical" and f["subject"] == "window"]
        assert wrong == [] and status["window"]["lacking_seconds"] == 0, status
        if status["shipped"]:
            assert [each["newest"] for each in status["shipped"]] == [shop.second["name"]]

    def test_all_moments_are_still_in_reach(self, shop: Shop) -> None:
        """Of before the switch, on both sides of the clone's moment; thoroughly, of after it, too."""
        shop.house.server.sql("UPDATE shop.customers SET name = 'fresh' WHERE id = 1")
        fresh, moment = shop.house.server.checksum(), next_second()
        shop.house.server.sql("DELETE FROM shop.orders WHERE id > 10")
        shop.house.snapshot(shop.config)
        assert shop.restored(shop.moment) == of(shop.then)
        assert shop.restored(shop.until) == of(shop.unsaved), "committed after the last backup"
        if self.thorough:
            assert shop.restored(shop.after) == of(shop.dropped)
            assert shop.restored(moment) == of(fresh)
        kept = shop.house.zb("prune", "--dry-run", "--json").data[0]
        assert {row["backup"] for row in kept["keep"]} == shop.backups()

    def test_the_way_back(self, shop: Shop) -> None:
        last = shop.house.server.checksum()
        moment = next_second()
        shop.house.server.sql("DELETE FROM shop.orders")
        shop.last = shop.house.server.checksum()
        shop.house.snapshot(shop.config)
        shop.house.server.sql("UPDATE shop.customers SET name = 'of neither'")
        late, unsaved = next_second(), shop.house.server.checksum()
        shop.house.server.sql("UPDATE shop.customers SET name = 'last'")
        shop.last = shop.house.server.checksum()
        known = shop.backups()
        words = typed("replace-production.md", "zbackup switch shop --undo")
        report = shop.house.zb(*words, "--json", "-q", config=shop.config).data
        assert report["outcome"] == "undone"
        shop.require(shop.bad)
        assert set(self.allowed(*shop.clone)) == {"off"}
        self.require_new(shop, known, report["backup"])
        assert not [n for n in shop.house.names() if "-before-" in n]
        shop.house.zb("clone", "start", CLONE, "--json").data  # noqa: B018
        if self.thorough:
            assert shop.restored(shop.moment) == of(shop.then)
            assert shop.restored(moment) == of(last), "of the time when the clone was production"
        assert shop.restored(late) == of(unsaved), (
            "of when the clone was production, after the last backup of that time"
        )
        assert shop.restored(shop.until) == of(shop.unsaved), "before the switch"
        window = shop.house.zb("window", "--json", config=shop.config).data[0]
        assert all(gap["cause"] == "switch" for gap in window["gaps"]), window
        shop.house.zb("clone", "stop", CLONE, "--json").data  # noqa: B018
        said = shop.house.zb("clone", "destroy", CLONE, "--yes", "-q").refused(9)
        assert "was in production's place and has backups from that time" in said

    def test_there_again_though_the_server_does_not_start(self, shop: Shop) -> None:
        dead = shop.house.configure("dead", service=shop.service.table(start="nothing"))
        dead.write_text(dead.read_text().replace('"30s"', '"2s"'))
        failed = shop.switch(CLONE, config=dead)
        assert failed.rc == 7 and "does not run" in failed.err, failed
        assert "half" in shop.house.zb("clone", "start", CLONE, "-q").refused(9)
        assert "under way or was cut short" in shop.house.zb("snapshot", "-q", config=shop.config).refused(9)
        if self.thorough:
            assert shop.switch(CLONE).data["outcome"] == "switched"
            shop.require(shop.last)
        assert shop.switch("--undo").data["outcome"] == "undone"
        shop.require(shop.bad)


class SecondSwitch:
    """A switch, work, another switch on top of it, and both ways back."""

    def test_one_on_top_of_another(self, shop: Shop) -> None:
        house = shop.house
        assert shop.switch(CLONE).data["outcome"] == "switched"
        shop.require(shop.last)
        house.server.sql("UPDATE shop.customers SET name = 'second' WHERE id = 1")
        better, moment = house.server.checksum(), next_second()
        house.server.sql("DROP TABLE shop.orders")
        worse = shop.last = house.server.checksum()
        house.restore(moment, "better")
        assert shop.switch("better").data["outcome"] == "switched"
        shop.require(better)
        known = shop.backups()
        self.require_all_moments(shop, moment, better)
        assert "cannot be undone" in shop.switch(CLONE, "--undo").refused(9)
        assert shop.switch("--undo").data["outcome"] == "undone"
        shop.require(worse)
        assert shop.switch("--undo").data["outcome"] == "undone"
        shop.require(shop.bad)
        assert known <= shop.backups()
        self.require_all_moments(shop, moment, better)

    def require_all_moments(self, shop: Shop, moment: datetime, better: dict[str, int | None]) -> None:
        assert shop.restored(shop.moment) == of(shop.then)
        assert shop.restored(shop.after) == of(shop.dropped)
        assert shop.restored(moment) == of(better)
