"""The story of a recovery: moments of a server's past.

A server under write load is backed up with every lock it has, its log is rotated, a table is dropped, and
then moments of its past are restored: quiet ones compared by checksum, busy ones by the load's own journal.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab.load import Load, verify
from tests.lab.load_journal import Verdict
from tests.lab.mysql_fixture import free_port
from tests.lab.pool import run
from tests.system.archive_story import lose_and_get_back
from tests.system.house import (
    Connection,
    House,
    after_writing,
    checksums,
    local,
    next_second,
    now,
    utc,
    wait_until,
)
from tests.system.recovered import application, assert_made_safe, assert_stops_and_starts
from tests.unit.docs.typed import typed
from zbackup.proc.detached import Process

VARIANTS = ("mysql-9.7", "mariadb-10.11")
SLOW_VARIANTS = ("mysql-9.7-no-gtid", "mariadb-11.8")

THREADS, RATE = 3, 80.0
GENTLE = {"mysql": "backup-lock", "mariadb": "backup-stage"}
EXACT = ("ftwrl", "backup-stage")


@dataclass(frozen=True, kw_only=True)
class History:
    """What happened to the server, as remembered by somebody who watched."""

    journal: Path
    backups: list[dict[str, Any]]
    early: datetime
    """Under load, soon after the first backup."""
    late: datetime
    """Under load, after the second backup and two rotations of the log."""
    quiet: datetime
    """Nothing was written just before, and more just after."""
    sums: dict[str, int | None]
    """Checksums at `quiet`."""


@pytest.fixture(scope="module")
def history(house: House) -> Iterator[History]:
    """Let it happen: three backups under load, a quiet moment, more load, and a table dropped."""
    server = house.server
    journal = house.home / "journal"
    with Load.start(server, THREADS, RATE, journal):
        first = house.snapshot(house.configure("ftwrl", lock="ftwrl"))
        early = after_writing(journal, 60)
        after_writing(journal, 60)
        second = house.snapshot()
        server.sql("FLUSH BINARY LOGS")
        after_writing(journal, 60)
        server.sql("FLUSH BINARY LOGS")
        late = after_writing(journal, 60)
        after_writing(journal, 60)
    quiet = next_second()
    sums = server.checksum()
    with Load.start(server, THREADS, RATE, journal):
        after_writing(journal, 40)
        third = house.snapshot(house.configure("none", lock="none"))
        server.sql("DROP TABLE shop.orders")
        server.sql("UPDATE shop.customers SET email = CONCAT('wrong', id)")
        after_writing(journal, 40)
    next_second()
    yield History(
        journal=journal, backups=[first, second, third], early=early, late=late, quiet=quiet, sums=sums
    )


@contextmanager
def without_files(house: House) -> Iterator[None]:
    """The server's data directory is gone while the body runs; its log is elsewhere."""
    data = house.server.settings.datadir
    aside = data.with_name("taken away")
    data.rename(aside)
    try:
        yield
    finally:
        aside.rename(data)


def crash_of_clone(house: House, name: str) -> None:
    """End a clone's server as a power cut would, and start it again."""
    process = Process.parse((house.home / "run" / f"{name}.process").read_text())
    process.kill(60)
    assert not process.alive
    assert house.zb("clone", "start", name).rc == 0


class TestRecovery:
    """The tests, in the order of the story: the last ones do to the server what nobody wishes for."""

    def test_every_lock_gives_a_backup_whose_position_is_its_log_s_end(
        self, house: House, history: History
    ) -> None:
        listed = house.zb("list", "--json").data[0]
        assert [b["backup"] for b in listed["backups"]] == [b["backup"] for b in history.backups]
        assert listed["unreadable"] == []
        assert [b["lock"] for b in listed["backups"]] == ["ftwrl", GENTLE[house.server.settings.kind], "none"]
        for backup in listed["backups"]:
            assert backup["complete"] and backup["finished"], backup
            assert {s["dataset"] for s in backup["snapshots"]} == {house.pool.data.name, house.pool.log.name}
            assert bool(backup["gtid"]) == (
                house.server.settings.kind == "mariadb" or house.server.settings.gtid
            )
            recorded = backup["position"].rpartition(":")
            newest = _newest_log(house, backup["name"])
            if backup["lock"] in EXACT:
                assert (newest.name, newest.stat().st_size) == (recorded[0], int(recorded[2]))
            else:
                assert (newest.name, newest.stat().st_size) >= (recorded[0], int(recorded[2]))
        assert house.sessions() == []

    def test_a_dry_run_changes_nothing_and_tells_what_would_be_done(
        self, house: House, history: History
    ) -> None:
        before = house.state()
        plan = house.restore(history.quiet, "dry", "--dry-run")
        assert house.state() == before
        assert (plan["dry_run"], plan["clone"]) == (True, "dry")
        assert plan["base"]["backup"] == history.backups[1]["backup"]
        assert plan["log"]["backup"] == history.backups[2]["backup"]
        assert plan["replay"]["transactions"] > 0
        live = house.restore("now", "dry", "--dry-run")
        assert house.state() == before
        assert (live["base"]["backup"], live["log"]) == (history.backups[2]["backup"], None)
        assert live["replay"]["transactions"] > 0

    def test_a_quiet_moment_is_back_exactly_and_its_clone_lives_and_dies_alone(
        self, house: House, history: History
    ) -> None:
        before = house.names()
        here = {"10:02": local(history.quiet), "restore shop": "restore shop --name r1"}
        report = house.zb(*typed("README.md", "zbackup restore shop --to", here), "--json").data
        assert utc(report["target"]["at"]) == history.quiet
        _assert_cut(house, report, history.quiet)
        assert house.server.checksum(["shop.orders"]) == {"shop.orders": None}, "production was touched"
        with house.clone(report) as clone:
            assert checksums(clone, list(history.sums)) == history.sums
            _verdict(clone, history, report)
            assert_made_safe(house, clone)
            clone.query("CREATE TABLE shop.notes (id INT PRIMARY KEY) ENGINE=InnoDB")
            clone.query("INSERT INTO shop.notes VALUES (42)")
        assert {f"{house.clones}/r1", f"{house.clones}/r1/0", f"{house.clones}/r1/1"} <= house.names()
        assert_stops_and_starts(house, report)
        foreign = [f"{house.clones}/r1x", f"{house.clones}/r", f"{house.pool.name}/r1"]
        for name in foreign:
            run("zfs", "create", name)
        house.destroy("r1")
        assert house.names() == before | set(foreign) | {house.clones}
        assert house.zb("clone", "list", "--json").data == []
        for name in foreign:
            run("zfs", "destroy", name)

    def test_two_busy_moments_side_by_side(self, house: House, history: History) -> None:
        before, port = house.names(), free_port()
        begun = [
            house.begin(*house.restoring(history.early, "early", "--port", str(port)), forked=True),
            house.begin(*house.restoring(history.late, "late", "--read-only"), forked=True),
        ]
        early, late = (each.end().data for each in begun)
        assert (early["port"], late["port"]) == (port, None)
        assert (early["read_only"], late["read_only"]) == (False, True)
        assert early["base"]["backup"] == history.backups[0]["backup"]
        assert late["base"]["backup"] == history.backups[1]["backup"]
        for report, moment in ((early, history.early), (late, history.late)):
            _assert_cut(house, report, moment)
            with house.clone(report) as clone:
                verdict = _verdict(clone, history, report)
                assert verdict.required > 0
        with application(port=port) as clone:
            clone.query("INSERT INTO shop.customers VALUES (100000, 'new', 'new', '2024-01-01')")
        with (
            application(unix_socket=late["socket"]) as clone,
            pytest.raises(pymysql.MySQLError, match="read-only"),
        ):
            clone.query("INSERT INTO shop.customers VALUES (100000, 'new', 'new', '2024-01-01')")
        listed = {c["name"]: c for c in house.zb("clone", "list", "--json").data}
        assert {name: (c["running"], c["port"]) for name, c in listed.items()} == {
            "early": (True, port),
            "late": (True, None),
        }
        house.destroy("early", "late")
        assert house.names() == before

    # The tutorial tells it with MySQL 9.7, and so does test_before.py in the slow lane.
    @pytest.mark.told_with("mariadb-10.11", "mariadb-11.8", "mysql-9.7-no-gtid")
    def test_the_drop_of_a_table_is_found_under_load(self, house: House, history: History) -> None:
        entries, _ = house.log("--table", "shop.orders", "--kind", "drop")
        [dropped] = entries
        busy, end = house.log("--since", local(history.quiet))
        assert len(busy) > 40 and dropped in busy
        assert not any(read["problem"] for read in end["read"])
        report = house.zb("restore", "--before-drop", "shop.orders", "--yes", "--name", "d", "--json").data
        skipped = report["recovered"]["first_skipped"]
        assert (skipped["start"], skipped["gtid"] or None) == (dropped["start"], dropped["gtid"])
        with house.clone(report) as clone:
            orders = checksums(clone, ["shop.orders"])
        assert orders == {"shop.orders": history.sums["shop.orders"]}
        house.destroy("d")

    def test_the_moment_of_a_backup_gives_that_backup(self, house: House, history: History) -> None:
        """Right behind the last transaction of a backup taken under a lock, and before the next one."""
        base = history.backups[0]
        as_of = utc(base["as_of"])
        behind = as_of + timedelta(microseconds=1)
        if house.server.settings.kind == "mariadb":
            # It may hold later transactions of the same second, and no older backup can be the base.
            said = house.zb(*house.restoring(behind, "edge"), "-q").refused(5)
            assert "no backup is that old" in said
            assert f"after {local(as_of)} " in said
            return
        report = house.restore(behind, "edge")
        assert report["base"]["backup"] == base["backup"]
        assert report["replay"]["transactions"] == 0
        assert report["recovered"]["position"] == base["position"]
        assert report["recovered"]["gtid"] == base["gtid"]
        assert report["recovered"]["base_exact"]
        with house.clone(report) as clone:
            _verdict(clone, history, report)
        house.destroy("edge")

    def test_some_seconds_ago_with_the_server_stopped(self, house: House, history: History) -> None:
        house.server.stop()
        ago = int((now() - history.late).total_seconds())
        before = house.snapshots()
        here = {"2024-05-01 10:02": f"-{ago}s", "/opt/mysql-8.0/usr/sbin/mysqld": str(house.program)}
        words = typed("upgrade.md", "zbackup restore shop --to", here)
        report = house.zb(*words, "--name", "ago", "--json").data
        assert abs(utc(report["target"]["at"]) - history.late) < timedelta(seconds=20)
        with house.clone(report) as clone:
            assert _verdict(clone, history, report).required > 0
        house.destroy("ago")
        assert house.snapshots() == before, "the log was there, and yet a snapshot was taken"

    def test_now_after_a_crash_under_load_that_took_the_servers_files(
        self, house: House, history: History
    ) -> None:
        """Its log is left. What was handed over is not lost in a crash of its own, right after."""
        house.server.start()
        with Load.start(house.server, THREADS, RATE, history.journal) as load:
            after_writing(history.journal, 40)
            house.server.kill()
            wait_until("the load has noticed", lambda: not load.running, 90)
        before = house.snapshots()
        with without_files(house):
            here = {"last --port 3307": f"crashed --port {free_port()}"}
            words = typed("restore-when-the-server-is-down.md", "zbackup restore shop --to now", here)
            report = house.zb(*words, "--json").data
        crash_of_clone(house, "crashed")
        assert report["recovered"]["first_skipped"] is None
        taken = house.snapshots() - before
        assert {name.partition("@")[2] for name in taken} == {report["log"]["name"]}
        with house.clone(report) as clone:
            assert verify(clone, history.journal).required > 0
        house.server.start()
        with house.clone(report) as clone, house.server.connect() as production:
            tables = house.server.tables()
            assert checksums(clone, tables) == checksums(production, tables)
        house.destroy("crashed")

    def test_a_purged_log_is_a_gap_that_is_named(self, house: House, history: History) -> None:
        house.snapshot()
        server = house.server
        for _ in range(2):
            server.sql("FLUSH BINARY LOGS")
        server.sql("UPDATE shop.customers SET email = CONCAT('later', id)")
        base = house.backups()[-1]["position"].partition(":")[0]
        newest = str(server.sql("SHOW BINARY LOGS")[-1][0])
        server.sql(f"PURGE BINARY LOGS TO '{newest}'")
        before = house.state()
        for options in ((), ("--dry-run",)):
            said = house.zb(*house.restoring("now", "gap", *options), "-q").refused(5)
            assert "gap" in said
            assert base in said and newest in said
            assert house.state() == before
        # What lies before the gap is not lost with it: the snapshots' log still tells of it, but not of all.
        told = house.zb("log", "-q", "--table", "shop.orders", "--kind", "drop", "--json")
        assert f"{newest} (2 files) is gone" in told.refused(9)
        assert told.out.count("DROP TABLE") == 1 and json.loads(told.out.splitlines()[0])["transaction"]
        report = house.restore(history.quiet, "before-gap")
        with house.clone(report) as clone:
            assert checksums(clone, list(history.sums)) == history.sums
        house.destroy("before-gap")


@pytest.mark.told_with("mysql-9.7")
class TestTheHostIsLost:
    """The last, for nothing is left."""

    def test_all_that_was_archived_comes_back_from_another_pool(self, house: House) -> None:
        lose_and_get_back(house)


def _newest_log(house: House, snapshot: str) -> Path:
    """The last binlog in a snapshot, read without zbackup."""
    directory = house.pool.log.mountpoint / ".zfs" / "snapshot" / snapshot / "log"
    return max(directory.glob("binlog.??????"))


def _assert_cut(house: House, report: dict[str, Any], moment: datetime) -> None:
    """What the report says of the cut is about this moment, and something was replayed up to it."""
    effective = utc(report["replay"]["effective_target"])
    seconds_only = house.server.settings.kind == "mariadb"
    assert effective == (moment.replace(microsecond=0) if seconds_only else moment)
    assert report["replay"]["transactions"] > 0
    recovered = report["recovered"]
    assert utc(recovered["last_applied"]["committed"]) < effective
    assert utc(recovered["first_skipped"]["committed"]) >= effective


def _verdict(clone: "Connection[Any]", history: History, report: dict[str, Any]) -> Verdict:
    return verify(clone, history.journal, utc(report["replay"]["effective_target"]))
