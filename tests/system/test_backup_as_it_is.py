"""The story of backups that are restored as they are, and of the latest state there is."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import create_pool, run
from tests.lab.repeats import some
from tests.system.house import House, checksums, local, utc
from tests.system.program import Result
from tests.unit.docs.typed import typed

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7",)

TABLES = ["shop.customers", "shop.orders"]
WRITTEN = "zbackup-20240501T080000Z"
"""A backup's name on the pages."""


class Shop:
    """Two backups with different data, shipped to another pool, and later writes."""

    def __init__(self, house: House, vault: str) -> None:
        self.house = house
        self.config = house.configure(
            "shipping", ship=[{"name": "vault", "to": f"zfs:{vault}/vault", "initial": "allow"}]
        )
        self.then: list[dict[str, int | None]] = []
        self.names: list[str] = []
        for number in (1, 2):
            house.server.sql("UPDATE shop.customers SET email = CONCAT(%s, id)", (f"v{number}-",))
            self.then.append({name: house.server.checksum()[name] for name in TABLES})
            self.names.append(self.backed_up(number)["name"])
            assert house.zb("ship", config=self.config).rc == 0
        house.server.sql("UPDATE shop.customers SET name = 'later'")

    def backed_up(self, number: int) -> dict[str, Any]:
        """The second with the label that the page gives."""
        label = ("--label", "before-deploy") if number == 2 else ()
        taken: dict[str, Any] = self.zb("snapshot", *label, "--json").data[0]["snapshot"]
        return taken

    def zb(self, *words: str) -> Result:
        return self.house.zb(*words, config=self.config)

    def restored(self, *words: str) -> dict[str, int | None]:
        report: dict[str, Any] = self.zb("restore", *words, "--name", "look", "--json").data
        with self.house.clone(report) as clone:
            found = checksums(clone, TABLES)
        self.zb("clone", "destroy", "look", "--yes", "--json").data  # noqa: B018
        return found


@pytest.fixture(scope="module")
def shop(house: House) -> Iterator[Shop]:
    vault = create_pool()
    run("zfs", "create", f"{vault.name}/vault")
    yield Shop(house, vault.name)
    vault.destroy()


class TestAsItIs:
    """The tests."""

    def test_each_backup_comes_back_by_its_name_or_id(self, shop: Shop) -> None:
        ids = {b["name"]: b["backup"] for b in shop.house.backups()}
        for name, wanted in zip(shop.names, shop.then, strict=True):
            words = typed("point-in-time-recovery.md", "zbackup restore shop --to-backup", {WRITTEN: name})
            assert shop.restored(*words[1:]) == wanted
        assert shop.restored("--to-backup", ids[shop.names[0]]) == shop.then[0]

    def test_the_program_is_the_one_that_is_named(self, shop: Shop) -> None:
        """As after an upgrade, when the old server lies beside the new one."""
        house, newest = shop.house, ("--to-backup", shop.names[1])
        gone = house.configure("upgraded", recovery={"server": "/opt/gone/server"})
        before = house.state()
        assert "/opt/gone/server" in house.zb("restore", *newest, "-q", config=gone).refused(9)
        wrong = house.zb("restore", *newest, "-q", "--server", "/usr/bin/true")
        assert "/usr/bin/true" in wrong.refused(9)
        assert house.state() == before
        words = ("restore", *newest, "--server", str(house.program), "--name", "old", "--json")
        report = house.zb(*words, config=gone).data
        with house.clone(report) as clone:
            assert checksums(clone, TABLES) == shop.then[1]
        house.destroy("old")

    def test_the_wrong_engine_is_found_with_the_line_to_write(self, shop: Shop) -> None:
        house, kind = shop.house, shop.house.server.settings.kind
        wrong = {"mysql": "mariadb", "mariadb": "mysql"}[kind]
        before = house.state()
        checked = house.zb("check", config=house.configure("wrong engine", engine=wrong))
        assert checked.rc == 9, checked
        said = " ".join(checked.out.split())
        assert f"the configuration says {wrong}, and it is {kind} " in said
        assert "a restore would start the wrong server program" in said
        assert f'[instance.shop] engine = "{kind}"' in said
        checked = house.zb("check", config=house.configure("no MongoDB", engine="mongodb"))
        assert checked.rc == 7 and "is no MongoDB; check engine" in " ".join(checked.out.split()), checked
        assert house.zb("check").rc == 0 and house.state() == before

    def test_from_a_destination(self, shop: Shop) -> None:
        for words in (("--from", "vault"), ("--from", "vault", "--run-at-destination")):
            assert shop.restored("--to-backup", shop.names[0], *words) == shop.then[0]

    def test_no_snapshot_is_taken_for_it(self, shop: Shop) -> None:
        before = shop.house.snapshots()
        words = typed(
            "retention-policy.md", "zbackup restore shop --to-label", {"--name before-deploy": "--read-only"}
        )
        assert shop.restored(*words[1:]) == shop.then[1]
        assert shop.house.snapshots() == before

    def test_what_excludes_each_other_is_said(self, shop: Shop) -> None:
        before = shop.house.state()
        name = shop.names[0]
        for more in (("--to", "now"), ("--before", "binlog.000001:4"), ("--to-timestamp", "1,1"), ()):
            words = ("--to-backup", name, *more) if more else ()
            assert "with --to TARGET: a moment" in shop.zb("restore", *words).refused(2)
        assert "leave out --base" in shop.zb("restore", "--to-backup", name, "--base", name).refused(2)
        assert "no backup nosuch" in shop.zb("restore", "--to-backup", "nosuch").refused(4)
        said = shop.zb("restore", "--to-backup", "nosuch", "--from", "vault").refused(4)
        assert said.endswith("see zbackup list --at vault")
        assert shop.house.state() == before
        dry = shop.zb("restore", "--to-backup", name, "--dry-run")
        assert dry.rc == 0 and "as it is" in dry.out, dry
        assert shop.house.state() == before

    def test_a_snapshot_of_others_comes_back_and_is_not_called_exact(self, shop: Shop) -> None:
        """Taken of all datasets at once; others are refused, and it is said what to do."""
        house, first = shop.house, shop.house.datasets[0]
        datasets = run("zfs", "list", "-Hro", "name", first).splitlines()
        auto = "autosnap_2024-05-01_10:00:00_hourly"
        then = {name: house.server.checksum()[name] for name in TABLES}
        run("zfs", "snapshot", *(f"{name}@{auto}" for name in datasets))
        house.server.sql("UPDATE shop.customers SET name = 'after the hourly one'")
        for name in datasets:
            run("zfs", "snapshot", f"{name}@one-by-one")
        run("zfs", "snapshot", f"{first}@alone")
        (listed,) = shop.zb("list", "--foreign", "--json").data
        assert [(f["name"], f["tool"], f["one_moment"]) for f in listed["foreign"]] == [
            (auto, "sanoid", True),
            ("one-by-one", "by hand", False),
            ("alone", "by hand", True),
        ]
        assert f"--base {shlex.quote(f'{first}@{auto}')}" in shop.zb("list", "--foreign").succeeded
        before = house.state()
        refused = shop.zb("restore", "--base", f"{first}@one-by-one", "-q").refused(5)
        assert "taken one after the other" in refused and "zfs snapshot -r" in refused
        assert "there is none of" in shop.zb("restore", "--base", f"{first}@alone", "-q").refused(5)
        assert "--to-backup" in shop.zb("restore", "--base", f"{first}@{shop.names[0]}", "-q").refused(9)
        assert "--foreign" in shop.zb("restore", "--base", f"{first}@nosuch", "-q").refused(4)
        assert "leave out --to" in shop.zb("restore", "--base", f"{first}@{auto}", "--to", "now").refused(2)
        said = shop.zb("restore", "--base", f"{first}@{auto}", "--dry-run").succeeded
        assert "crash-consistent" in said and "nothing proves what it holds" in said
        assert house.state() == before
        report = shop.zb("restore", "--base", f"{first}@{auto}", "--name", "look", "--json").data
        assert report["foreign"] == f"{first}@{auto}" and not report["recovered"]["base_exact"]
        with house.clone(report) as clone:
            assert checksums(clone, TABLES) == then
        assert shop.zb("clone", "stop", "look").rc == shop.zb("clone", "start", "look").rc == 0
        house.destroy("look")
        assert house.state() == before
        for name in (auto, "one-by-one"):
            for dataset in datasets:
                run("zfs", "destroy", f"{dataset}@{name}")
        run("zfs", "destroy", f"{first}@alone")

    def test_a_drill_passes(self, shop: Shop) -> None:
        checked = shop.house.zb(*typed("monitoring-and-alerts.md", "zbackup check shop --drill"))
        drills = [backup["drill"] for backup in shop.house.backups() if backup["drill"]]
        assert checked.rc == 0 and [drill["passed"] for drill in drills] == [True], checked
        assert shop.zb("verify", "--at", "vault", "--drill", "--json").data[0]["drill"] is not None


class TestLatest:
    """Of a server with a log."""

    def test_latest_is_all_there_is(self, shop: Shop) -> None:
        wanted = {name: shop.house.server.checksum()[name] for name in TABLES}
        assert shop.restored("--to", "latest") == wanted


class TestWithoutLog:
    """The log is turned off: backups are restored as they are, and nothing else is promised. Told last."""

    drills: Sequence[tuple[str, ...]] = some([(), ("--at", "vault")], ("--at", "vault"))
    """Where they are made."""
    clones: Sequence[str] = some(["--snapshot", "--at"], "--at")
    """By what they are made: the backup's name, or its own moment."""

    def test_a_backup_is_taken_and_comes_back_from_everywhere(self, shop: Shop) -> None:
        house = shop.house
        settings = house.server.settings
        house.server.stop()
        house.server = DatabaseServer(
            replace(settings, options=(*settings.options, "--skip-log-bin"))
        ).start()
        logged = {name: house.server.checksum()[name] for name in TABLES}
        house.server.sql("UPDATE shop.customers SET email = CONCAT('unlogged-', id)")
        said = shop.zb("restore", "--to", "now", "-q").refused(5)
        assert "the binlog is off" in said and "--to latest" in said, said
        assert shop.restored("--to", "latest") == logged
        then = {name: house.server.checksum()[name] for name in TABLES}
        taken = house.snapshot(shop.config)
        name, own = taken["name"], local(utc(taken["as_of"]))
        assert shop.zb("ship").rc == 0
        house.server.sql("UPDATE shop.customers SET name = 'even later'")
        there = ("--from", "vault")
        sources: list[tuple[str, ...]] = [(), there, (*there, "--run-at-destination")]
        # Each target with one source here, and with the next one where the other kind of server is told.
        if settings.kind == "mariadb":
            sources = [*sources[1:], sources[0]]
        targets = (("--to-backup", name), ("--to", own), ("--to", "latest"))
        for to, words in zip(targets, sources, strict=True):
            assert shop.restored(*to, *words) == then, (to, words)
        assert shop.restored("--to", f"backup:{shop.names[0]}") == shop.then[0]
        self.promised(shop, name)
        self.cloned(shop, name, own, then)
        said = shop.zb("restore", "--to", local(utc(taken["as_of"]) + timedelta(seconds=2)), "-q").refused(5)
        assert "the binlog is off" in said and f"--to-backup {name};" in said, said

    def promised(self, shop: Shop, name: str) -> None:
        """What list, window, status and check say, and what drills prove."""
        for words in (("list",), ("window",), ("status",), ("list", "--at", "vault")):
            assert name in shop.zb(*words, "--json").data[0]["as_they_are"], words
        (listed,) = (b for b in shop.zb("list", "--json").data[0]["backups"] if b["name"] == name)
        end = max(utc(r["to"]) for r in shop.zb("window", "--json").data[0]["ranges"])
        assert end < utc(listed["as_of"])
        checked = shop.zb("check", "--json")
        assert checked.rc == 9 and "the binlog is off" in checked.out, checked
        for words in self.drills:
            drill = shop.zb("verify", *words, "--drill", "--json").data[0]["drill"]
            assert drill["base"]["name"] == name, words

    def cloned(self, shop: Shop, name: str, own: str, then: dict[str, int | None]) -> None:
        """Clones for developers, of the backup and of its own moment."""
        for by in self.clones:
            words = (by, {"--snapshot": name, "--at": own}[by])
            made = shop.zb("clone", "create", *words, "--name", "dev", "--keep-accounts", "--json")
            with shop.house.clone(made.data["clones"][0]) as clone:
                assert checksums(clone, TABLES) == then
            assert shop.zb("clone", "destroy", "dev", "--yes").rc == 0
