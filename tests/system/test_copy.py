"""The story of tables that come back: rows deleted, rows overwritten, a table dropped; then zbackup copy.

The copies' account is made after the backup, so that the clone does not know it.
"""

import json
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.lab.mysql_fixture import DatabaseServer, Row
from tests.lab.variants import Variant
from tests.system.house import House, local, next_second, now, wait_until
from tests.unit.docs.typed import typed
from zbackup.engines.mysql.production.account import grants

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7",)

OPTIONS = ("--local-infile=ON", "--max-allowed-packet=64M", "--event-scheduler=ON")
TABLES = ["shop.customers", "shop.orders", "shop.lines"]
CLONE = "good"


@dataclass(frozen=True, kw_only=True)
class Loss:
    """`rows` are those before it, by table; `definition` is that of the table that will be dropped."""

    config: Path
    slow: Path
    rows: dict[str, list[Row]]
    definition: str


@pytest.fixture(scope="module")
def variant(variant: Variant) -> Variant:
    return replace(variant, options=OPTIONS)


@pytest.fixture(scope="class")
def loss(house: House) -> Loss:
    server = house.server
    for statement in (
        # More than a copy writes in one transaction. The numbers are given: those that a server
        # gives to a SELECT's rows leave a gap behind them, which MariaDB forgets when it starts again.
        "INSERT INTO shop.orders (id, customer_id, amount, state, placed) "
        "SELECT id + 4000, customer_id, amount, state, placed FROM shop.orders",
        "CREATE TABLE shop.lines (o INT, n INT, what VARCHAR(20), twice INT AS (n * 2) STORED, "
        "PRIMARY KEY (o, n), CONSTRAINT of_order FOREIGN KEY (o) REFERENCES orders (id)) ENGINE=InnoDB",
        "INSERT INTO shop.lines (o, n, what) SELECT id, 1, state FROM shop.orders WHERE id <= 500",
        "CREATE TRIGGER shop.no_zero BEFORE INSERT ON shop.lines FOR EACH ROW SET NEW.n = GREATEST(NEW.n, 1)",
        "CREATE TABLE shop.wide (id INT PRIMARY KEY, a CHAR(200), b CHAR(200), c CHAR(200), KEY (a), "
        "KEY (b), KEY (c)) ENGINE=InnoDB",
        "INSERT INTO shop.wide SELECT id, RPAD(UUID(), 200, 'a'), RPAD(UUID(), 200, 'b'), "
        "RPAD(UUID(), 200, 'c') FROM shop.orders",
    ):
        server.sql(statement)
    house.snapshot()
    rows = contents(server, TABLES)
    definition = str(server.sql("SHOW CREATE TABLE shop.orders")[0][1])
    moment = next_second()
    wait_until("the moment is over", lambda: (now() - moment).total_seconds() > 1.1, 5)
    server.sql("DELETE FROM shop.lines WHERE o % 7 = 0")
    server.sql("UPDATE shop.customers SET email = CONCAT('wrong', id) WHERE id % 10 = 3")
    there = {"10:02": local(moment)}
    words = typed("restore-a-dropped-table.md", "zbackup restore shop --to", there)
    house.zb(*words, "--json").data  # noqa: B018  checks the exit status
    server.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'copy-secret'")
    secret = house.home / "copy-password"
    secret.write_text("copy-secret")
    secret.chmod(0o600)
    account = {"user": "zcopy", "password": {"file": str(secret)}}
    return Loss(
        config=house.configure("copies", copy_back=account),
        slow=house.configure("slow", copy_back={**account, "rate": "32KiB"}),
        rows=rows,
        definition=definition,
    )


class TestCopy:
    """The tests, in the order of the story."""

    def test_without_an_account_that_may_it_is_refused_with_the_grants(
        self, house: House, loss: Loss
    ) -> None:
        before = house.server.tables(), contents(house.server, TABLES)
        assert "[instance.shop.copy_back]" in house.zb("copy", CLONE, "shop.lines", "-q").refused(9)
        said = house.zb("copy", CLONE, "shop.lines", "-q", config=loss.config).refused(7)
        assert "GRANT SELECT, INSERT" in said
        checked = house.zb("check", "--json", config=loss.config)
        assert checked.rc == 7 and "GRANT SELECT, INSERT" in checked.out
        assert (house.server.tables(), contents(house.server, TABLES)) == before
        house.server.sql(grants("zcopy@localhost", "shop").rstrip(";"))

    def test_rows_that_are_gone_or_wrong_come_back(self, house: House, loss: Loss) -> None:
        before = house.server.tables(), contents(house.server, TABLES)
        words = ("copy", CLONE, "shop.lines", "shop.customers", "--missing", "--changed", "--json")
        asked = house.zb(*words, "--fire-triggers", "-q", config=loss.config)
        assert asked.rc == 2 and "--yes" in asked.err
        dry = house.zb(*words, "--dry-run", "--fire-triggers", config=loss.config).data
        assert (house.server.tables(), contents(house.server, TABLES)) == before
        assert {
            t["table"]: (t["difference"]["missing"], t["difference"]["changed"]) for t in dry["tables"]
        } == {
            "shop.lines": (71, 0),
            "shop.customers": (0, 100),
        }
        example = dry["tables"][1]["difference"]["examples"][0]["values"][0]
        assert (example["column"], example["production"][:5]) == ("email", "wrong")
        assert "no_zero" in house.zb(*words, "--yes", "-q", config=loss.config).refused(9)
        done = house.zb(*words, "--yes", "--fire-triggers", config=loss.config).data
        assert [(t["inserted"], t["updated"]) for t in done["tables"]] == [(71, 0), (0, 100)]
        assert contents(house.server, TABLES) == loss.rows

    def test_a_dropped_table_is_back_though_the_copy_was_killed(self, house: House, loss: Loss) -> None:
        server = house.server
        server.sql("SET GLOBAL foreign_key_checks = 0")
        server.sql("DROP TABLE shop.orders")
        server.sql("SET GLOBAL foreign_key_checks = 1")
        run = house.begin("copy", CLONE, "shop.orders", "-q", config=loss.slow, forked=True)
        wait_until("rows are there", lambda: _unfinished(house) > 0, 120)
        run.signal_group(signal.SIGKILL)
        run.process.wait()
        assert server.checksum(["shop.orders"]) == {"shop.orders": None}, "half a table has the name"
        there = _unfinished(house)
        words = typed("point-in-time-recovery.md", "zbackup copy", {"before-drop": CLONE})
        planned = house.zb(*words, "--dry-run", "--json", config=loss.config).data
        assert planned["tables"][0]["resumed"]
        words = typed("restore-a-dropped-table.md", "zbackup copy")
        done = house.zb(*words, "--json", config=loss.config).data["tables"][0]
        assert (done["action"], done["inserted"], done["verified"]) == (
            "new",
            len(loss.rows["shop.orders"]) - there,
            True,
        )
        assert contents(server, TABLES) == loss.rows
        assert server.sql("SHOW CREATE TABLE shop.orders")[0][1] == loss.definition
        assert _unfinished(house) == 0

    def test_a_table_beside_and_one_in_its_place(self, house: House, loss: Loss) -> None:
        server = house.server
        server.sql("DELETE FROM shop.lines")
        beside = house.zb("copy", CLONE, "shop.lines", "--json", config=loss.config).data["tables"][0]
        assert (beside["into"], beside["action"]) == ("shop.lines_restored", "beside")
        assert server.sql("SELECT COUNT(*) FROM shop.lines")[0][0] == 0, "production's table was touched"
        assert contents(server, ["shop.lines_restored"])["shop.lines_restored"] == loss.rows["shop.lines"]
        words = ("copy", CLONE, "shop.lines", "--replace", "--yes")
        assert "no_zero" in house.zb(*words, "-q", config=loss.config).refused(9)
        server.sql("DROP TRIGGER shop.no_zero")
        done = house.zb(*words, "--bare", "--json", config=loss.config)
        kept = done.data["tables"][0]["kept"]
        assert contents(server, ["shop.lines"])["shop.lines"] == loss.rows["shop.lines"]
        assert server.sql(f"SELECT COUNT(*) FROM {kept}")[0][0] == 0

    def test_indexes_come_one_after_the_other_where_there_is_no_space_to_sort_all(
        self, house: House, loss: Loss
    ) -> None:
        """Sorting the three takes 8 MB, and one of them 4 (MariaDB: "Index for table … is corrupt")."""
        server = house.server
        wanted = server.checksum(["shop.wide"])
        definition = server.sql("SHOW CREATE TABLE shop.wide")
        server.sql("DROP TABLE shop.wide")
        words = ("copy", CLONE, "shop.wide", "--json")
        with _space_to_sort(house, "1m"):
            assert "innodb_tmpdir" in house.zb(*words, "-q", config=loss.config).refused(7)
        assert server.checksum(["shop.wide"]) == {"shop.wide": None}, (
            "a table without its indexes has the name"
        )
        with _space_to_sort(house, "5m"):
            house.zb(*words, config=loss.config).data  # noqa: B018  checks the exit status
        assert server.checksum(["shop.wide"]) == wanted
        assert server.sql("SHOW CREATE TABLE shop.wide") == definition

    def test_the_clone_is_as_it_was(self, house: House, loss: Loss) -> None:
        shown: dict[str, Any] = house.zb("clone", "show", CLONE, "--json").data
        assert shown["running"]
        where = {"socket": shown["socket"], "port": None}
        with house.clone(where) as clone, clone.cursor() as cursor:
            for name in TABLES:
                cursor.execute(_all_of(name))
                assert list(cursor.fetchall()) == loss.rows[name]
            cursor.execute("SELECT User FROM mysql.user WHERE User LIKE 'zbackup\\\\_%'")
            assert not cursor.fetchall()
        words = typed("restore-a-dropped-table.md", "zbackup clone destroy")
        house.zb(*words, "--yes", "--json").data  # noqa: B018  checks the exit status

    def test_a_dropped_table_is_back_by_one_command(self, house: House, loss: Loss) -> None:
        server = house.server
        rows = contents(server, ["shop.lines"])
        server.sql("DROP TABLE shop.lines")
        lines = {"shop.orders": "shop.lines"}
        words = (*typed("restore-a-dropped-table.md", "zbackup restore shop --before-drop", lines), "--json")
        assert "--yes" in house.zb(*words, "-q", config=loss.config).err
        done = house.zb(*words, "--yes", config=loss.config).data
        assert [(t["into"], t["action"]) for t in done["copied"]["tables"]] == [("shop.lines", "new")]
        assert contents(server, ["shop.lines"]) == rows
        assert house.zb("clone", "list", "--json").data == []

    def test_one_transaction_is_taken_back_and_nothing_else(self, house: House, loss: Loss) -> None:
        server = house.server
        before = contents(server, TABLES)
        name = _transaction(
            server,
            "UPDATE shop.customers SET email = CONCAT('w', id) WHERE id BETWEEN 10 AND 19",
            "DELETE FROM shop.lines WHERE o > 400",
            "INSERT INTO shop.customers VALUES (90001, 'new', 'new', '2024-01-01')",
        )
        server.sql("UPDATE shop.customers SET email = 'right' WHERE id = 13")
        wrong = contents(server, TABLES)
        words = ("undo", name, "--json", "-q")
        assert "[instance.shop.copy_back]" in house.zb(*words, "--yes").refused(9)
        assert "GRANT DELETE" in house.zb(*words, "--yes", config=loss.config).refused(7)
        server.sql("GRANT DELETE ON shop.* TO zcopy@localhost")
        assert "--yes" in house.zb(*words, config=loss.config).refused(2)
        shown = house.zb("undo", name, "--dry-run", "-q", config=loss.config)
        assert shown.rc == 17 and "DELETE FROM `shop`.`customers` WHERE `id` = 90001;" in shown.out
        assert contents(server, TABLES) == wrong
        done = house.zb(*words, "--yes", config=loss.config)
        assert done.rc == 17 and "id=13: changed since" in done.err
        counts = {
            t["table"]: (t["inserted"], t["updated"], t["deleted"], t["refused"])
            for t in json.JSONDecoder().raw_decode(done.out)[0]["data"]["tables"]
        }
        lines = len(before["shop.lines"]) - len(wrong["shop.lines"])
        assert counts == {"shop.customers": (0, 9, 1, 1), "shop.lines": (lines, 0, 0, 0)}
        server.sql("UPDATE shop.customers SET email = 'w13' WHERE id = 13")
        assert house.zb(*words, "--yes", config=loss.config).data["left"] == 0
        assert contents(server, TABLES) == before

    def test_what_the_log_holds_in_part_a_clone_completes(self, house: House, loss: Loss) -> None:
        server = house.server
        server.sql("INSERT INTO shop.customers VALUES (95000, 'alone', 'alone', '2024-01-01')")
        before = contents(server, TABLES)
        name = _transaction(
            server,
            "UPDATE shop.customers SET email = CONCAT('x', id)",
            "UPDATE shop.customers SET id = 95001 WHERE id = 95000",
            "UPDATE shop.customers SET id = 95002, name = 'moved' WHERE id = 95001",
            "DELETE FROM shop.lines WHERE o > 300",
            "INSERT INTO shop.lines (o, n) VALUES (100, 77)",
            image="MINIMAL",
        )
        words = ("undo", name, "--json", "--yes")
        done = house.zb(*words, config=loss.config)
        assert "a server is restored to just before it" in done.err
        assert done.data["left"] == 0
        assert contents(server, TABLES) == before
        assert house.zb("clone", "list", "--json").data == []

    def test_a_table_without_a_transaction_comes_beside_and_half_of_one_is_refused(
        self, house: House, loss: Loss
    ) -> None:
        server = house.server
        before = contents(server, ["shop.customers"])["shop.customers"]
        name = _transaction(server, "UPDATE shop.customers SET email = CONCAT('z', id)")
        _xa(server, "UPDATE shop.orders SET state = 'xa' WHERE id = 2")
        server.sql("UPDATE shop.orders SET state = 'behind' WHERE id = 3")
        words = ("restore", "--name", "without", "--skip")
        beside = ("--table", "shop.customers", "--into", "shop.customers_without", "--json")
        house.zb(*words, name, *beside, config=loss.config).data  # noqa: B018  checks the exit status
        assert contents(server, ["shop.customers_without"])["shop.customers_without"] == before
        server.sql("DROP TABLE shop.customers_without")
        entries, _ = house.log("--table", "shop.orders", "--since", "-1h")
        [half] = [entry for entry in entries if entry["prepared"]]
        refused = house.zb(*words, half["gtid"] or half["start"], "-q").refused(9)
        assert "one half of an XA transaction" in refused
        assert house.zb("clone", "list", "--json").data == []
        assert house.zb("undo", name, "--yes", "--json", config=loss.config).data["left"] == 0

    def test_all_but_a_skipped_transaction_is_restored(self, house: House, loss: Loss) -> None:
        server = house.server
        before = contents(server, ["shop.customers"])["shop.customers"]
        name = _transaction(server, "UPDATE shop.customers SET email = CONCAT('y', id)")
        last = _transaction(server, "UPDATE shop.customers SET name = 'later' WHERE id = 1")
        now_there = contents(server, TABLES)
        words = ("restore", "--name", "without", "--skip")
        backups = [each["name"] for each in house.backups()]
        for more in ((), ("--dry-run",)):
            assert "--before" in house.zb(*words, last, "-q", *more).refused(9)
        assert [each["name"] for each in house.backups()] == backups
        page = typed("undo-a-transaction.md", "zbackup restore shop --skip", {"4d8d17e9-...:6484": name})
        said = house.zb(*page, "--json")
        left_out = said.data["left_out"]
        assert (left_out["tables"], left_out["later"]) == (["shop.customers"], 1)
        assert left_out["first"][0]["start"] == last
        assert "1 transaction touched the same tables later" in said.err
        with house.clone({"socket": said.data["socket"], "port": None}) as clone, clone.cursor() as cursor:
            found = {}
            for table in TABLES:
                cursor.execute(_all_of(table))
                found[table] = list(cursor.fetchall())
        house.destroy("without")
        customers = found.pop("shop.customers")
        assert customers[1:] == before[1:], "the transaction is there"
        assert customers[0] == now_there.pop("shop.customers")[0], "a later row image is not as it was logged"
        assert found == now_there
        born = _transaction(server, "INSERT INTO shop.customers VALUES (90002, 'new', 'new', '2024-01-01')")
        server.sql("UPDATE shop.customers SET name = 'x' WHERE id = 90002")
        assert "cannot be applied without it" in house.zb(*words, born, "-q").refused(11)
        assert "without" not in [each["name"] for each in house.zb("clone", "list", "--json").data]
        if server.settings.kind == "mysql":
            for mode in ("ON_PERMISSIVE", "OFF_PERMISSIVE"):
                server.sql(f"SET GLOBAL gtid_mode = {mode}")
            anonymous = _transaction(server, "DELETE FROM shop.customers WHERE id = 90002")
            assert "has no GTID" in house.zb(*words, anonymous, "-q").refused(9)


def _transaction(server: DatabaseServer, *statements: str, image: str = "FULL") -> str:
    """Do all this in one transaction; where it begins in the log."""
    connection = server.connect(autocommit=False)
    with connection.cursor() as cursor:
        cursor.execute(f"SET binlog_row_image = '{image}', binlog_format = 'ROW'")
        where = server.sql(
            "SHOW BINARY LOG STATUS" if server.settings.kind == "mysql" else "SHOW MASTER STATUS"
        )[0]
        for statement in statements:
            cursor.execute(statement)
        connection.commit()
    connection.close()
    return f"{where[0]}:{where[1]}"


def _xa(server: DatabaseServer, statement: str) -> None:
    """Do this in a transaction of two phases."""
    with server.connect() as connection, connection.cursor() as cursor:
        for words in ("XA START 'x'", statement, "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"):
            cursor.execute(words)


def contents(server: DatabaseServer, names: Sequence[str]) -> dict[str, list[Row]]:
    """All rows by table.

    MariaDB's CHECKSUM TABLE of one with a stored generated column is not always the same (seen with 10.11).
    """
    return {name: list(server.sql(_all_of(name))) for name in names}


def _all_of(name: str) -> str:
    return f"SELECT * FROM {name} ORDER BY 1, 2"


@contextmanager
def _space_to_sort(house: House, size: str) -> Iterator[None]:
    """Production builds indexes in a directory with space for so much."""
    small = house.home / "small"
    small.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "tmpfs", small], check=True)
    house.server.sql("SET GLOBAL innodb_tmpdir = %s", [str(small)])
    try:
        yield
    finally:
        house.server.sql("SET GLOBAL innodb_tmpdir = DEFAULT")
        subprocess.run(["umount", "--lazy", small], check=True)


def _unfinished(house: House) -> int:
    """How many rows are in working tables."""
    names = [name for name in house.server.tables() if "zbackup_copy_" in name]
    return sum(int(house.server.sql(f"SELECT COUNT(*) FROM {name}")[0][0]) for name in names)
