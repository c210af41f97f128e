"""A table is found that was altered without a word in the log, and one that was altered in the log is not."""

import struct
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.applying import Applying, as_any
from zbackup.engines.mysql.binlog import events
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.recovery.unlogged import require_all_logged
from zbackup.model.errors import Refused
from zbackup.model.log import LogPosition

ANSI_QUOTES = 4


def look(room: Path, *said: tuple[str, int] | str, columns: int = 2) -> None:
    """A log with statements and rows of (table, number of columns); the base's tables have `columns`."""
    builder, path = Builder(mariadb=True), room / "binlog.000001"
    for number, one in enumerate(said, 1):
        start = len(builder.data)
        flags = 1 if isinstance(one, str) else 4
        builder.event(events.MARIADB_GTID, struct.pack("<QIB", number, 0, flags) + bytes(6))
        if isinstance(one, str):
            mode = struct.pack("<BQ", 1, ANSI_QUOTES if '"' in one else 0)
            builder.query(one.encode(), status=mode)
        else:
            name, count = one[0].encode(), one[1]
            head = struct.pack("<IHH", 7, 0, 1) + b"\4shop\0" + bytes([len(name)]) + name + b"\0"
            builder.event(events.TABLE_MAP, head + bytes([count]) + b"\3" * count + b"\0\xff")
            builder.event(23, struct.pack("<IHH", 7, 0, 1) + bytes([count]) + b"\xff\0" + b"\1\0\0\0" * count)
            builder.xid()
        builder.note(start, 0, f"0-1-{number}")
    path.write_bytes(builder.data)
    stop = LogPosition.of(path.name, len(builder.data))
    log = LogRange(files=(path,), start=LogPosition.of(path.name, FIRST_EVENT), stop=stop, ends_file=True)
    require_all_logged(as_any(Applying(cast(Any, None), columns=columns)), log, lambda _: None)


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
def test_a_change_that_nothing_in_the_log_explains_is_refused(
    tmp_path: Path, said: list[tuple[str, int] | str]
) -> None:
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
def test_a_change_that_the_log_may_explain_is_none(tmp_path: Path, said: list[tuple[str, int] | str]) -> None:
    look(tmp_path, *said)


def test_a_table_of_which_the_base_does_not_tell_is_learnt(tmp_path: Path) -> None:
    look(tmp_path, ("o", 5), ("o", 5), columns=0)
