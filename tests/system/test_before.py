"""The story of an accident that is named exactly: everything before one transaction comes back, and not it.

All that surrounds the DROP TABLE carries one and the same second, which is all that MariaDB's log knows, and
so does what stands before and behind a backup: no time could tell what was before.
"""

import json
import re
import shlex
import signal
from dataclasses import dataclass
from typing import Any

import pytest

from tests.system.house import House, checksums, utc
from tests.unit.docs.typed import typed

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7", "mysql-9.7-no-gtid", "mariadb-11.8")

TABLES = ["shop.kept", "shop.doomed", "shop.customers"]


@dataclass(frozen=True, kw_only=True)
class Accident:
    """What somebody who watched wrote down. `within` is a place inside of the transaction."""

    file: str
    start: int
    within: int
    gtid: str
    sums: dict[str, int | None]
    """Checksums just before."""
    bases: list[dict[str, Any]]
    """Backups: long before, in the same second, and behind it."""

    @property
    def name(self) -> str:
        """As a person would name it."""
        return self.gtid or f"{self.file}:{self.start}"


@pytest.fixture(scope="class")
def accident(house: House) -> Accident:
    server = house.server
    for table in ("kept", "doomed"):
        server.sql(f"CREATE TABLE shop.{table} (id INT PRIMARY KEY) ENGINE=InnoDB")
    bases = [house.snapshot()]
    server.sql("FLUSH BINARY LOGS")
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET timestamp = FLOOR(UNIX_TIMESTAMP())")
        _write(cursor, range(10))
        bases.append(house.snapshot())
        _write(cursor, range(10, 20))
        sums = checksums(connection, TABLES)
        file, start = _end_of_log(house)
        cursor.execute("DROP TABLE shop.doomed")
        cursor.execute("INSERT INTO shop.kept VALUES (1000)")
        cursor.execute("DELETE FROM shop.kept WHERE id < 5")
    events = server.sql(f"SHOW BINLOG EVENTS IN '{file}' FROM {start} LIMIT 2")
    named = re.search(r"[0-9a-f-]{36}:[0-9]+|[0-9]+-[0-9]+-[0-9]+", str(events[0][5]))
    server.sql("FLUSH BINARY LOGS")
    server.sql("INSERT INTO shop.kept VALUES (1001)")
    bases.append(house.snapshot())
    server.sql("INSERT INTO shop.kept VALUES (1002)")
    return Accident(
        file=file,
        start=start,
        within=int(events[1][1]),
        gtid=named[0] if named else "",
        sums=sums,
        bases=bases,
    )


class TestBefore:
    """The tests."""

    def test_a_dry_run_names_what_would_be_left_out(self, house: House, accident: Accident) -> None:
        before = house.state()
        plan = house.zb(*_restoring(accident.name, "dry", "--dry-run")).data
        assert house.state() == before
        assert plan["before"] == accident.name
        assert [plan[key]["backup"] for key in ("base", "log")] == [
            accident.bases[1]["backup"],
            accident.bases[2]["backup"],
        ]
        _assert_cut(accident, plan["replay"])
        assert plan["replay"]["transactions"] == 20, "ten rows in two tables"

    def test_all_before_it_is_back_and_nothing_behind(self, house: House, accident: Accident) -> None:
        instead = {"4e15fdaa-e56f-11f1-875d-4e352002aa4c:10": accident.name, "before-drop": "exact"}
        words = typed(
            "point-in-time-recovery.md",
            "zbackup restore shop --before 4e15fdaa-e56f-11f1-875d-4e352002aa4c:10 --name",
            instead,
        )
        report = house.zb(*words, "--json").data
        _assert_cut(accident, report["recovered"])
        assert report["proof"] == {
            "proved": True,
            "seen": "the transaction is not there; one transaction later it is",
        }
        with house.clone(report) as clone:
            assert checksums(clone, TABLES) == accident.sums
        words = typed("point-in-time-recovery.md", "zbackup clone destroy", {"before-drop": "exact"})
        house.zb(*words, "--yes", "--json").data  # noqa: B018  checks the exit status

    def test_a_place_inside_of_it_and_an_older_base_give_the_same(
        self, house: House, accident: Accident
    ) -> None:
        named = f"{accident.file}:{accident.within}"
        report = house.zb(*_restoring(named, "place", "--base", accident.bases[0]["name"])).data
        assert (report["before"], report["base"]["backup"]) == (named, accident.bases[0]["backup"])
        _assert_cut(accident, report["recovered"])
        with house.clone(report) as clone:
            assert checksums(clone, TABLES) == accident.sums
        house.destroy("place")

    def test_a_dev_clone_is_as_before_the_drop(self, house: House, accident: Accident) -> None:
        words = ("--at", "before-drop:shop.doomed", "--name", "dev", "--keep-accounts", "--json")
        (made,) = house.zb("clone", "create", *words).data["clones"]
        with house.clone(made) as clone:
            assert checksums(clone, TABLES) == accident.sums
        house.destroy("dev")

    def test_the_log_says_what_happened_to_the_table(self, house: House, accident: Accident) -> None:
        before = house.state()
        doomed = {"shop.orders": "shop.doomed"}
        words = typed("point-in-time-recovery.md", "zbackup log shop", doomed)
        entries, end = house.log(*words[1:], "--kind", "drop")
        assert [(e["start"], e["gtid"] or "") for e in entries] == [
            (f"{accident.file}:{accident.start}", accident.gtid)
        ]
        assert entries[0]["tables"] == [{"name": "shop.doomed", "kinds": ["ddl", "drop"]}]
        assert entries[0]["text"].startswith("DROP TABLE") and entries[0]["thread"]
        assert end["restore"] == f"zbackup restore shop --before {accident.name}"
        assert len(house.log("--table", "shop.doomed", "--kind", "insert")[0]) == 20
        rows = house.zb("log", "--rows", accident.name).out
        assert "DROP TABLE" in rows
        deleted, _ = house.log("--table", "shop.kept", "--kind", "delete")
        rows = house.zb("log", "--rows", deleted[0]["start"]).out
        assert rows.count("DELETE FROM `shop`.`kept`") == 5 and "@1=4" in rows
        since = house.log("--table", "shop.doomed", "--kind", "drop", "--since", accident.name)
        assert since[0] == entries, "committed then or later"
        largest, _ = house.log(
            "--table", "shop.kept", "--kind", "insert", "--kind", "delete", "--largest", "1"
        )
        assert largest == deleted, "five rows are more than one"
        assert house.state() == before

    def test_what_is_committed_next_is_shown_as_it_comes(self, house: House, accident: Accident) -> None:
        words = ("log", "--table", "shop.kept", "--kind", "delete", "--since", "-1h", "--follow", "--json")
        follower = house.begin(*words, "-q")
        shown = (json.loads(line)["transaction"]["start"] for line in follower.process.stdout or ())
        first = next(shown)
        house.server.sql("DELETE FROM shop.kept WHERE id = 1001")
        assert next(shown) != first
        follower.signal_group(signal.SIGINT)
        assert follower.end().rc == 130

    def test_the_last_drop_of_a_table_is_found_and_has_to_be_confirmed(
        self, house: House, accident: Accident
    ) -> None:
        instead = {"--name before-drop": "--name dropped", "shop.orders": "shop.doomed"}
        page = typed("point-in-time-recovery.md", "zbackup restore shop --before-drop", instead)
        words = (*page, "--json")
        assert "add --yes" in house.zb(*words).refused(2)
        assert "no truncate of shop.kept" in house.zb(
            "restore", "--before-truncate", "shop.kept", "--yes", "-q"
        ).refused(4)
        report = house.zb(*words, "--yes").data
        _assert_cut(accident, report["recovered"])
        _assert_seen(report, "shop.doomed is there; one transaction later it is gone")
        assert not [name for name in house.names() if "second" in name]
        with house.clone(report) as clone:
            assert checksums(clone, TABLES) == accident.sums
        house.destroy("dropped")

    def test_a_statement_that_took_nothing_is_seen_and_an_earlier_one_is_found(
        self, house: House, accident: Accident
    ) -> None:
        server = house.server
        server.sql(
            "CREATE TABLE shop.emptied (id INT PRIMARY KEY) ENGINE=InnoDB "
            "PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (3), PARTITION p2 VALUES LESS THAN (9))"
        )
        server.sql("INSERT INTO shop.emptied VALUES (1), (2), (4)")
        file, start = _end_of_log(house)
        server.sql("ALTER TABLE shop.emptied TRUNCATE PARTITION p1")
        server.sql("ALTER TABLE shop.emptied TRUNCATE PARTITION p1")
        server.sql("INSERT INTO shop.emptied VALUES (3)")
        words = ("--before-truncate", "shop.emptied", "--yes", "--name", "emptied")
        result = house.zb("restore", *words, "--json")
        assert (
            "shop.emptied has rows, and still has them one transaction later. Looking for an earlier one"
            in result.err
        ), str(result)
        assert result.data["recovered"]["first_skipped"]["start"] == f"{file}:{start}"
        _assert_seen(result.data, "shop.emptied has rows; one transaction later a partition has none")
        house.destroy("emptied")
        server.sql("DROP TABLE IF EXISTS shop.ghost")
        held = house.names()
        gone = house.zb("restore", "--before-drop", "shop.ghost", "--yes", "--name", "never", "-q")
        assert gone.rc == 4 and "no drop of shop.ghost is in the log" in gone.err, str(gone)
        assert {name for name in house.names() - held if "@" not in name} == set()

    def test_a_table_that_is_replaced_is_seen_to_be_another_one(
        self, house: House, accident: Accident
    ) -> None:
        """Only MariaDB has the statement."""
        server = house.server
        if server.settings.kind == "mysql":
            return
        for name, engine, more in (
            ("plain", "InnoDB", ""),
            ("aria", "Aria", ""),
            ("`a.b c`", "InnoDB", "PARTITION BY HASH (id) PARTITIONS 3"),
        ):
            server.sql(f"CREATE TABLE shop.{name} (id INT PRIMARY KEY) ENGINE={engine} {more}")
            server.sql(f"CREATE OR REPLACE TABLE shop.{name} (id INT PRIMARY KEY) ENGINE={engine} {more}")
        for wanted, text in (("shop.aria", "it is another one"), ("shop.*", "it is another one (1 table)")):
            words = ("--before-drop", wanted, "--yes", "--name", "replaced", "--json")
            _assert_seen(house.zb("restore", *words).data, f"{wanted} is there; one transaction later {text}")
            house.destroy("replaced")

    def test_a_later_drop_that_the_log_does_not_tell_of_is_said(
        self, house: House, accident: Accident
    ) -> None:
        server = house.server
        for _ in range(2):
            server.sql("CREATE TABLE shop.twice (id INT PRIMARY KEY) ENGINE=InnoDB")
            server.sql("INSERT INTO shop.twice VALUES (1)")
            server.sql("DROP TABLE IF EXISTS shop.twice, shop.nowhere")
        plan = ("restore", "--before-drop", "shop.twice", "--yes", "--name", "never", "--dry-run")
        assert house.zb(*plan).rc == 0
        server.sql("CREATE TABLE shop.twice (id INT PRIMARY KEY) ENGINE=InnoDB")
        assert house.zb(*plan).rc == 0
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute("DROP TABLE shop.twice")
        said = house.zb(*plan, "-q").refused(9)
        assert "does not exist on the server, but in the log it exists after the last drop" in said

    def test_names_with_dots_quotes_and_blanks(self, house: House, accident: Accident) -> None:
        server, name = house.server, "`my.db`.`ta``ble é x`"
        for schema in ("`my.db`", "my"):
            server.sql(f"CREATE DATABASE {schema}")
        server.sql("CREATE TABLE my.`db.ta``ble é x` (id INT PRIMARY KEY) ENGINE=InnoDB")
        server.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY) ENGINE=InnoDB")
        server.sql(f"INSERT INTO {name} VALUES (1)")
        file, start = _end_of_log(house)
        server.sql("DROP DATABASE `my.db`")
        server.sql("DROP DATABASE my")
        entries, _ = house.log("--table", name)
        assert [each["kinds"] for entry in entries for each in entry["tables"]] == [
            ["ddl"],
            ["ddl"],
            ["insert"],
            ["ddl", "drop"],
        ]
        said = house.zb("restore", "--before-drop", "my.db.ta`ble é x", "--yes", "--dry-run", "-q").refused(2)
        assert "'`my.db`.`ta``ble é x`'" in said and "'`my`.`db.ta``ble é x`'" in said
        for same in (name, '"my.db"."ta`ble é x"', "`my.db`.*"):
            plan = house.zb("restore", "--before-drop", same, "--yes", "--dry-run", "--json").data
            assert plan["replay"]["first_skipped"]["start"] == f"{file}:{start}"
        other = house.zb(
            "restore", "--before-drop", "my.`db.ta``ble é x`", "--yes", "--dry-run", "--json"
        ).data
        assert other["replay"]["first_skipped"]["start"] != f"{file}:{start}"
        report = house.zb("restore", "--before-drop", name, "--yes", "--name", "odd", "--json").data
        _assert_seen(report, "`my.db`.ta`ble é x is there; one transaction later it is gone")
        house.destroy("odd")

    def test_a_gtid_that_is_in_the_log_twice_is_told_with_positions(
        self, house: House, accident: Accident
    ) -> None:
        server = house.server
        if server.settings.kind == "mysql":
            return
        files = []
        server.sql("CREATE TABLE shop.again (id INT PRIMARY KEY) ENGINE=InnoDB")
        with server.connect(database="shop") as connection, connection.cursor() as cursor:
            for number in range(2):
                files.append(_end_of_log(house)[0])
                cursor.execute("SET SESSION gtid_seq_no = 4242")
                cursor.execute(f"INSERT INTO again VALUES ({number})")
                connection.commit()
                server.sql("FLUSH BINARY LOGS")
            cursor.execute("SELECT @@gtid_domain_id, @@server_id")
            domain, ident = cursor.fetchone() or ()
        gtid = f"{domain}-{ident}-4242"
        refused = house.zb(*_restoring(gtid, "never"))
        assert refused.rc == 5 and f"{gtid} is 2 times in the log" in refused.err, str(refused)
        starts = re.findall(r"--before (\S+:\d+)", refused.err)
        assert [start.partition(":")[0] for start in starts] == files
        report = house.zb(*_restoring(starts[1], "twice")).data
        assert report["proof"]["proved"]
        with house.clone(report) as clone, clone.cursor() as cursor:
            cursor.execute("SELECT COUNT(*) FROM shop.again")
            assert cursor.fetchone() == (1,)
        house.destroy("twice")

    def test_what_is_only_in_the_live_log_is_found(self, house: House, accident: Accident) -> None:
        house.server.sql("INSERT INTO shop.kept VALUES (1003)")
        sums = house.server.checksum(TABLES[:1])
        file, start = _end_of_log(house)
        house.server.sql("DROP TABLE shop.kept")
        report = house.zb(*_restoring(f"{file}:{start}", "live")).data
        assert report["base"]["backup"] == accident.bases[2]["backup"]
        with house.clone(report) as clone:
            assert checksums(clone, TABLES[:1]) == sums
        house.destroy("live")

    def test_what_cannot_be_is_refused_in_a_line_and_nothing_is_made(
        self, house: House, accident: Accident
    ) -> None:
        before = house.state()
        newest, mysql = accident.bases[2]["name"], house.server.settings.kind == "mysql"
        other = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1" if mysql else "7-7-7"
        for name, words, said in (
            (accident.name, ("--base", newest), f"{newest} holds {accident.name}"),
            (other, (), "the log reaches from" if accident.gtid else "without them, give FILE:POSITION"),
            ("binlog.999999:4", (), "there is no binlog.999999"),
            (f"{accident.file}:4", (), "is in no transaction: the next one begins at"),
        ):
            line = house.zb(*_restoring(name, "refused", *words), "-q").refused(5)
            assert said in line, line
        assert house.state() == before

    def test_where_productions_files_are_gone_the_way_that_is_told_leads_there(
        self, house: House, accident: Accident
    ) -> None:
        house.server.stop()
        settings = house.server.settings
        logs = list((settings.binlog_dir or settings.datadir).glob("binlog.*"))
        away = logs[0].parent / "away"
        away.mkdir()
        for each in logs:
            each.rename(away / each.name)
        try:
            said = house.zb("restore", "--before-drop", "shop.doomed", "--yes", "-q").refused(9)
            look, _, then = said.partition("See what was read: ")[2].partition(", and name")
            shown = house.zb(*shlex.split(look)[1:])
            assert shown.rc == 9 and accident.name in shown.out, str(shown)
            words = shlex.split(then.partition(": ")[2].replace("TRANSACTION", accident.name))
            report = house.zb(*words[1:], "--name", "gone", "--json").data
            _assert_cut(accident, report["recovered"])
            with house.clone(report) as clone:
                assert checksums(clone, TABLES) == accident.sums
            house.destroy("gone")
        finally:
            for each in logs:
                (away / each.name).rename(each)
            away.rmdir()
            house.server.start()


class TestNotLogged:
    """What one session did with sql_log_bin = 0 is told, and not restored as if it had not been."""

    def test_a_table_is_named_in_a_warning_and_other_columns_are_refused(self, house: House) -> None:
        server = house.server
        server.sql("CREATE TABLE shop.ordinary (id INT PRIMARY KEY, x INT) ENGINE=InnoDB")
        house.snapshot()
        server.sql("INSERT INTO shop.ordinary VALUES (1, 1)")
        before = _end_of_log(house)
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute("CREATE TABLE shop.local (id INT) ENGINE=InnoDB")
            cursor.execute("ALTER TABLE shop.ordinary MODIFY x BIGINT")
        server.sql("INSERT INTO shop.ordinary VALUES (2, 2)")
        behind = _end_of_log(house)
        server.sql("INSERT INTO shop.ordinary VALUES (3, 3)")
        house.snapshot()
        shown = house.zb(*_restoring("{}:{}".format(*before), "between"))
        report = json.loads(shown.out)["data"]
        assert shown.rc == 19 and "created: shop.local, which " in report["other_tables"], str(shown)
        with house.clone(report) as clone, clone.cursor() as cursor:
            cursor.execute("SELECT * FROM shop.ordinary")
            assert list(cursor.fetchall()) == [(1, 1)]
        house.destroy("between")
        said = house.zb(*_restoring("{}:{}".format(*behind), "never"), "-q").refused(9)
        assert "shop.ordinary has column 2 as bigint in" in said and "and had it as int before" in said


def _restoring(name: str, clone: str, *words: str) -> tuple[str, ...]:
    return ("restore", "--to", name, "--name", clone, "--json", *words)


def _assert_seen(report: dict[str, Any], text: str) -> None:
    assert report["proof"]["proved"] and text in report["proof"]["seen"], report["proof"]


def _write(cursor: Any, numbers: range) -> None:
    for number in numbers:
        for table in ("kept", "doomed"):
            cursor.execute(f"INSERT INTO shop.{table} VALUES ({number})")


def _end_of_log(house: House) -> tuple[str, int]:
    status = "BINARY LOG" if house.server.settings.kind == "mysql" else "MASTER"
    row = house.server.sql(f"SHOW {status} STATUS")[0]
    return str(row[0]), int(row[1])


def _assert_cut(accident: Accident, end: dict[str, Any]) -> None:
    skipped, last = end["first_skipped"], end["last_applied"]
    assert skipped["start"] == f"{accident.file}:{accident.start}"
    assert skipped["gtid"] == accident.gtid
    assert last["end"] == skipped["start"]
    assert utc(last["committed"]) <= utc(skipped["committed"])
