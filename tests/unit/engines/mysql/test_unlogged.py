"""A table is found that was altered without a word in the log, and one that was altered in the log is not."""

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.applying import INT, Applying, as_any
from tests.unit.engines.mysql.test_recovery_of_files import record
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.binlog.table_map import POST_HEADER, ColumnFacts, read_table_map
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.recovery.unlogged import find_unlogged_tables, require_all_logged
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused
from zbackup.model.log import LogPosition
from zbackup.model.record import ARCHIVED
from zbackup.model.relocation import Relocation

ANSI_QUOTES = 4

Rows = tuple[str, int | bytes]
"""A table, and the number of its columns, or their types, metadata, nulls and more, as the event has it."""


def written(path: Path, *said: Rows | str) -> LogRange:
    """A log with statements and rows."""
    builder = Builder(mariadb=True)
    for number, one in enumerate(said, 1):
        start = len(builder.data)
        flags = 1 if isinstance(one, str) else 4
        builder.event(events.MARIADB_GTID, struct.pack("<QIB", number, 0, flags) + bytes(6))
        if isinstance(one, str):
            mode = struct.pack("<BQ", 1, ANSI_QUOTES if '"' in one else 0)
            builder.query(one.encode(), status=mode)
        else:
            name, columns = one[0].encode(), one[1]
            body = columns if isinstance(columns, bytes) else defined(b"\3" * columns, b"", 0xFF)
            head = struct.pack("<IHH", 7, 0, 1) + b"\4shop\0" + bytes([len(name)]) + name + b"\0"
            builder.event(events.TABLE_MAP, head + body)
            builder.event(23, struct.pack("<IHH", 7, 0, 1) + b"\1\xff\0" + b"\1\0\0\0")
            builder.xid()
        builder.note(start, 0, f"0-1-{number}")
    path.write_bytes(builder.data)
    stop = LogPosition.of(path.name, len(builder.data))
    return LogRange(files=(path,), start=LogPosition.of(path.name, FIRST_EVENT), stop=stop, ends_file=True)


def defined(types: bytes, metadata: bytes, nulls: int, **optional: bytes) -> bytes:
    """The columns in a table map; `optional` are fields by their numbers, as f1."""
    more = b"".join(bytes([int(key[1:]), len(value)]) + value for key, value in optional.items())
    return bytes([len(types)]) + types + bytes([len(metadata)]) + metadata + bytes([nulls]) + more


class Base(Applying):
    """A server whose tables have these columns."""

    def __init__(self, *described: Mapping[str, Any], there: bool = True) -> None:
        super().__init__(cast(Any, None), columns=len(described))
        self.described = described
        self.there = there

    def rows(self, statement: str, given: object = ()) -> list[dict[str, Any]]:
        if "information_schema.TABLES" in statement:
            return [{"kind": "BASE TABLE"}] if self.there else []
        if "information_schema.COLUMNS" in statement:
            return [{"octets": None, "fraction": None, "charset": None} | INT | one for one in self.described]
        return super().rows(statement, given)


def look(room: Path, *said: Rows | str, columns: int = 2, base: Applying | None = None) -> None:
    """Read a log; the base's tables have `columns`."""
    log = written(room / "binlog.000001", *said)
    require_all_logged(as_any(base or Applying(cast(Any, None), columns=columns)), log, lambda _: None)


@pytest.mark.parametrize(
    "said",
    [
        [("o", 3)],
        [("o", 2), ("o", 3)],
        [("o", 2), ("o", 1)],
        ["ALTER TABLE p ADD y INT", ("o", 3)],
        ["ALTER TABLE o ADD y INT", ("o", 3), ("o", 4)],
        [("o", 2), "INSERT INTO o VALUES (1, 2, 3)", ("o", 3)],
        ["DROP DATABASE other", ("o", 3)],
        ["CREATE TABLE x (c VARCHAR(20000) DEFAULT '" + "o" * 20000 + "')", ("o", 3)],
        ["ALTER TABLE p ADD o INT COMMENT 'o'", ("o", 3)],
    ],
)
def test_a_change_that_nothing_in_the_log_explains_is_refused(tmp_path: Path, said: list[Rows | str]) -> None:
    with pytest.raises(Refused, match=r"shop\.o has . columns in 0-1-. and had . before.*--before 0-1-"):
        look(tmp_path, *said)


@pytest.mark.parametrize(
    "said",
    [
        [("o", 2), ("o", 2)],
        [("o", 2), "ALTER TABLE o ADD y INT", ("o", 3)],
        ["ALTER ONLINE TABLE `shop`.`O` ADD y INT", ("o", 3)],
        ['ALTER TABLE "o" ADD y INT', ("o", 3)],
        ["RENAME TABLE o TO p, q TO o", ("o", 3), ("p", 9)],
        ["DROP SCHEMA IF EXISTS `shop`", ("o", 3)],
        [("o", 2), "DROP DATABASE shop", ("o", 3)],
        ["RENAME TABLE p TO o" + " " * 20000, ("o", 3)],
        ["ALTER TABLE p EXCHANGE PARTITION a WITH TABLE o", ("o", 3)],
    ],
)
def test_a_change_that_the_log_may_explain_is_none(tmp_path: Path, said: list[Rows | str]) -> None:
    look(tmp_path, *said)


def test_a_table_of_which_the_base_does_not_tell_is_learnt(tmp_path: Path) -> None:
    look(tmp_path, ("o", 5), ("o", 5), columns=0)


INT_NULL = defined(b"\3", b"", 1)
TEXT = {"kind": "text", "full": "text", "charset": "latin1"}
CHANGED = [
    (INT, defined(b"\x08", b"", 1), "bigint in 0-1-1 and had it as int before"),
    (INT, defined(b"\3", b"", 0), "NOT NULL in 0-1-1 and had it as NULL before"),
    (INT, defined(b"\3", b"", 1, f1=b"\x80"), "unsigned in .* as signed"),
    (INT, defined(b"\3", b"", 1, f4=b"\1d"), "d in .* as c before"),
    (INT | {"kind": "varchar", "octets": 300}, defined(b"\x0f", b"\x2d\1", 1), r"varchar\(301\) .*\(300\)"),
    (INT | {"kind": "char", "octets": 800}, defined(b"\xfe", b"\xfe\x09", 1), r"char\(9\) in .*char\(800\)"),
    (INT | {"kind": "binary", "octets": 9}, defined(b"\xfe", b"\xf7\1", 1), r"enum\(1\) in .* char\(9\)"),
    (INT | TEXT, defined(b"\xfc", b"\2", 1, f2=b"\x3f"), "CHARACTER SET binary in .* CHARACTER SET latin1"),
    (INT | TEXT, defined(b"\xfc", b"\2", 1, f3=b"\x3f"), "CHARACTER SET binary in .* CHARACTER SET latin1"),
    (
        INT | {"kind": "set", "full": "set('a','it''s')"},
        defined(b"\xfe", b"\xf8\1", 1, f5=b"\1\1a"),
        "with the values a in .* with the values a, it's before",
    ),
    (INT | {"kind": "json"}, defined(b"\xfc", b"\4", 1), r"blob\(4\) in .* as json before"),
    (INT | {"kind": "datetime", "fraction": 3}, defined(b"\x12", b"\0", 1), r"datetime\(0\) .*datetime\(3\)"),
    (INT | {"kind": "bit", "digits": 9}, defined(b"\x10", b"\7\0", 1), r"bit\(7\) in .* as bit\(9\)"),
]


@pytest.mark.parametrize(("base", "logged", "told"), CHANGED)
def test_a_column_that_is_another_one_in_the_log_is_told(
    tmp_path: Path, base: dict[str, Any], logged: bytes, told: str
) -> None:
    with pytest.raises(Refused, match=rf"shop\.o has column 1 as {told}.*--before 0-1-1"):
        look(tmp_path, ("o", logged), base=Base(base))
    look(tmp_path, "ALTER TABLE o MODIFY c INT", ("o", logged), base=Base(base))


@pytest.mark.parametrize(
    ("base", "logged"),
    [
        (INT | {"kind": "timestamp", "fraction": 3}, defined(b"\7", b"", 1)),
        (INT | {"kind": "varchar", "octets": 90}, defined(b"\x8d", b"\x5b\0", 1)),
        (INT | {"kind": "geometry"}, defined(b"\xff", b"\4", 1, f2=b"\x3f")),
        (INT | {"kind": "uuid"}, defined(b"\xfe", b"\xfe\x10", 1)),
        (INT | {"kind": "enum", "full": r"enum('a\\b')"}, defined(b"\xfe", b"\xf7\1", 1, f6=b"\1\3a\\b")),
        (INT | {"kind": "enum", "full": "enum('ä')"}, defined(b"\xfe", b"\xf7\1", 1, f6=b"\1\1\xe4")),
        (INT, defined(b"\x99", b"\1\2\3", 1)),
        (INT | TEXT, defined(b"\xfc", b"\2", 1, f3=b"\xfc\xff\xff")),
    ],
)
def test_what_is_not_known_of_a_column_is_not_told(
    tmp_path: Path, base: dict[str, Any], logged: bytes
) -> None:
    look(tmp_path, ("o", logged), base=Base(base))


def test_what_the_log_adds_is_learnt_and_a_change_within_it_is_found(tmp_path: Path) -> None:
    signed, unsigned = defined(b"\3", b"", 1, f1=b"\0"), defined(b"\3", b"", 1, f1=b"\x80")
    look(tmp_path, ("o", INT_NULL), ("o", signed), ("o", INT_NULL), ("o", signed), columns=0)
    with pytest.raises(Refused, match=r"as unsigned in 0-1-3 and had it as signed before"):
        look(tmp_path, ("o", signed), ("o", INT_NULL), ("o", unsigned), columns=0)
    look(tmp_path, ("o", signed), "ALTER TABLE o MODIFY c INT UNSIGNED", ("o", unsigned), columns=0)
    look(tmp_path, ("o", signed), "DROP DATABASE shop", ("o", unsigned), columns=0)


def test_rows_of_a_table_that_nothing_created_are_refused(tmp_path: Path) -> None:
    base = Base(there=False)
    with pytest.raises(
        Refused, match=r"0-1-2 changes rows of shop\.o, which the base does not have.*--before"
    ):
        look(tmp_path, "CREATE TABLE ooo (c INT)", ("o", INT_NULL), base=base)
    look(tmp_path, "CREATE TABLE o (c INT)", ("o", INT_NULL), base=base)
    look(tmp_path, "SOMETHING MAKES o", ("o", INT_NULL), base=base)


def test_the_collations_of_a_mariadb_count_its_geometries_too() -> None:
    body = bytes(POST_HEADER) + b"\1s\0\1t\0" + defined(b"\xff\xfc", b"\4\2", 3, f2=b"\x3f\1\x08")
    told, sets = read_table_map(body), {8: "latin1", 63: "binary"}
    facts = told.facts(sets.get, mariadb=True)
    assert facts == (
        ColumnFacts(kind="geometry", nullable=True),
        ColumnFacts(kind="blob", size=(2,), character_set="latin1", nullable=True),
    )
    with pytest.raises(LookupError):
        told.facts(sets.get, mariadb=False)


class Backups:
    """The files of two backups of one server, and the log between them."""

    def __init__(self, room: Path, engine: str = "mariadb") -> None:
        self.room, self.engine = room, engine
        self.before: dict[str, bytes] = {"shop/kept": b""}
        self.after: dict[str, bytes] = {"shop/kept": b""}
        self.said: list[Rows | str] = ["CREATE TABLE shop.logged (c INT)"]
        self.server: dict[str, str] = {"innodb_file_per_table": "ON"}

    def told(self, lock: str = "ftwrl", base: Applying | None = None, **server: str) -> str:
        ending = ".ibd" if self.engine == "mysql" else ".frm"
        files = []
        for name, tables in (("before", self.before), ("after", self.after)):
            for table, content in tables.items():
                path = self.room / name / f"{table}{ending}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            here = self.room / name
            log = written(here / "binlog.000001", *self.said)
            (here / "binlog.index").write_text("/srv/log/binlog.000001\n")
            held = record(None, lock, self.engine)
            held = replace(held, server={**held.server, "datadir": "/srv/log", **self.server, **server})
            files.append(BackupFiles(held, Relocation((("/srv/log", str(here)),))))
        return find_unlogged_tables(as_any(base or Base(there=False)), files[0], files[1], log.start)


@pytest.mark.parametrize("engine", ["mysql", "mariadb"])
def test_tables_that_came_and_went_and_are_in_no_statement_are_told(tmp_path: Path, engine: str) -> None:
    backups = Backups(tmp_path, engine)
    part = "#p#p0" if engine == "mysql" else ""
    backups.before |= {"shop/old": b"", f"shop/kept{part}": b"", "mysql/own": b"", "gone@002d1/t": b""}
    backups.after |= {"shop/local": b"", f"shop/in{part}": b"", "shop/logged": b"", "shop/#sql-1": b""}
    backups.after |= {"sys/own": b"", "shop/@0k": b"", "other/t": b"", "shop/a@002db": b""}
    told = backups.told()
    assert "created: other.t, shop.a-b, shop.in, shop.local, which " in told
    assert "dropped: gone-1.t, shop.old, which the base has" in told
    backups.said += ["DROP DATABASE shop", "DROP DATABASE `gone-1`", "CREATE TABLE other.T (c INT)"]
    assert backups.told() == ""


def test_a_view_is_no_table(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    backups.after["shop/seen"] = b"TYPE=VIEW\nquery="
    assert backups.told() == ""


def test_a_table_that_got_a_file_of_its_own_was_not_created(tmp_path: Path) -> None:
    backups = Backups(tmp_path, "mysql")
    backups.after |= {"shop/inside": b"", "shop/fts_0000000000000042_config": b""}
    assert backups.told(base=Base(INT)) == ""
    backups = Backups(tmp_path / "dropped", "mysql")
    backups.before["shop/inside"] = b""
    assert "shop.inside" in backups.told()
    assert backups.told(innodb_file_per_table="OFF") == ""


def test_files_that_may_be_between_two_moments_are_not_compared(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    backups.after["shop/local"] = b""
    assert "shop.local" in backups.told()
    assert backups.told(lock="none") == ""
    assert backups.told(**{ARCHIVED: "1"}) == ""
    assert backups.told(datadir="/elsewhere") == ""


def test_many_tables_are_counted(tmp_path: Path) -> None:
    backups = Backups(tmp_path)
    backups.after |= {f"shop/t{number:02}": b"" for number in range(13)}
    assert "shop.t08, shop.t09, 3 more, which" in backups.told()
