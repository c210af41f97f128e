"""Logs of real servers whose statements are easily read wrongly (MariaDB 11.8.9 with MIXED, MySQL 9.7.4)."""

from pathlib import Path

import pytest

from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.log_entry import Kind, LogEntry, LogFilter
from zbackup.plan.recovery.last_drop import LastDrop

LOGS = Path(__file__).parent / "odd_statements"


def found(name: str, wanted: LogFilter) -> list[LogEntry]:
    return [each for each in search([LOGS / name], wanted) if isinstance(each, LogEntry)]


def starts(entries: list[LogEntry]) -> list[int]:
    return [int(each.transaction.start.rpartition(":")[2]) for each in entries]


def last(name: str, table: str, kind: Kind) -> LastDrop:
    """What --before-drop and --before-truncate do with one file."""
    seen = LastDrop(table, kind)
    for entry in found(name, LogFilter(tables=(table,), kinds=frozenset({"ddl", "drop", "truncate"}))):
        seen.saw(entry)
    seen.ended_file()
    return seen


@pytest.mark.parametrize(
    ("name", "table", "kind", "start"),
    [
        ("or_replace.000002", "shop.report", "drop", 1321),
        ("nowait.000003", "shop.orders", "drop", 1178),
        ("wait.000004", "shop.orders_old", "drop", 994),
        ("view_mariadb.000005", "shop.report", "drop", 839),
        ("view_mysql.000003", "shop.report", "drop", 865),
        ("1401_tables.000001", "blogs.zz_orders", "drop", 1563),
        ("temporary.000006", "shop.orders", "truncate", 839),
        ("two_phases.000008", "shop.orders", "drop", 1200),
    ],
)
def test_the_last_that_took_the_table_is_found(name: str, table: str, kind: Kind, start: int) -> None:
    seen = last(name, table, kind)
    assert seen.found and starts([seen.found]) == [start]


def test_modifiers_in_front_of_a_table_are_none() -> None:
    entries = found("modifiers.000002", LogFilter(tables=("shop.orders",), kinds=frozenset({"insert"})))
    assert starts(entries) == [673, 844, 1028, 1213]
    assert [[touched.name for touched in each.tables] for each in entries] == [["shop.orders"]] * 4


def test_hints_on_waiting_are_no_names() -> None:
    _, renamed, _ = found("wait.000004", LogFilter(tables=("shop.orders_old",), kinds=frozenset({"ddl"})))
    assert renamed.renames == (("shop.orders", "shop.orders_old"),)
    seen = last("wait.000004", "shop.orders", "drop")
    assert seen.found is None and seen.renamed and seen.renamed[1] == "shop.orders_old"
    assert last("nowait.000003", "shop.orders_new", "drop").renamed is not None


def test_every_table_of_a_long_list_is_read() -> None:
    (entry,) = found("1401_tables.000001", LogFilter(kinds=frozenset({"drop"})))[1:]
    assert len(entry.tables) == 1401 and entry.tables[-1].name == "blogs.zz_orders"


def test_what_is_done_to_a_temporary_table_is_not_done_to_the_real_one() -> None:
    assert starts(found("temporary.000006", LogFilter(tables=("shop.orders",)))) == [
        379, 508, 666, 839, 969, 1588
    ]  # fmt: skip


def test_an_alter_that_was_rolled_back_did_nothing() -> None:
    entries = found("two_phases.000008", LogFilter(kinds=frozenset({"ddl"})))
    assert starts(entries) == [379, 508, 1200]
    assert last("two_phases.000008", "shop.orders", "drop").renamed is None


def test_a_view_that_is_dropped_is_no_table_and_is_shown() -> None:
    for name, start in (("view_mariadb.000005", 1329), ("view_mysql.000003", 1555)):
        (entry,) = (
            e
            for e in found(name, LogFilter(tables=("shop.report",)))
            if e.no_tables and "drop" in e.text.lower()
        )
        assert starts([entry]) == [start]
        (dropped,) = (e for e in found(name, LogFilter(kinds=frozenset({"drop"}))) if e.no_tables)
        assert dropped == entry
