"""The last drop that dropped something, however the log is cut into files."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import at
from zbackup.model.log import Transaction
from zbackup.model.log_entry import Kind, LogEntry, Touched
from zbackup.plan.recovery.last_drop import LastDrop

EVENTS: dict[str, tuple[str, tuple[Kind, ...]]] = {
    "drop": ("shop.orders", ("ddl", "drop")),
    "drop all": ("shop.*", ("ddl", "drop")),
    "create": ("shop.orders", ("ddl",)),
    "create schema": ("shop.*", ("ddl",)),
    "rows": ("shop.orders", ("insert",)),
    "replaced with rows": ("shop.orders", ("ddl", "drop", "insert")),
    "truncate": ("shop.orders", ("ddl", "truncate")),
    "upkeep": ("shop.orders", ()),
    "drop another": ("shop.other", ("ddl", "drop")),
    "rows of another": ("shop.other", ("insert",)),
}


RENAMES: dict[str, tuple[tuple[str, str], ...]] = {
    "rename away": (("shop.orders", "shop.orders_old"),),
    "rename back": (("shop.orders_old", "shop.orders"),),
    "exchange": (("shop.orders", "shop.orders_old"), ("shop.orders_new", "shop.orders")),
    "rename in capitals": (("Shop.Orders", "shop.old"),),
}
EVENTS |= {name: ("shop.orders", ("ddl",)) for name in RENAMES}


def entry(number: int, event: str) -> LogEntry:
    touched = Touched(*EVENTS[event])
    done = Transaction(start=f"binlog.000001:{number}", end="", committed=at(number))
    return LogEntry(
        transaction=done, tables=(touched,), events=1, size=1, text=event, renames=RENAMES.get(event, ())
    )


def told(table: str, kind: Kind, *files: Sequence[str]) -> LastDrop:
    """What is known behind the files, oldest first, of which those behind the answer are not read."""
    numbered, number = [], 0
    for file in files:
        numbered.append([entry(number + n, event) for n, event in enumerate(file, 1)])
        number += len(file)
    seen = LastDrop(table, kind)
    for entries in reversed(numbered):
        for each in entries:
            seen.saw(each)
        if seen.ended_file():
            break
    return seen


def number(found: LogEntry | None) -> int:
    return int(found.transaction.start.partition(":")[2]) if found else 0


@pytest.mark.parametrize(
    ("events", "place"),
    [
        (["rows", "drop", "drop"], 2),
        (["rows", "rename away", "drop"], 0),
        (["rows", "rename in capitals", "drop"], 0),
        (["rows", "drop", "create", "rename away", "drop", "drop"], 2),
        (["rows", "rename away", "drop", "rename back", "drop"], 5),
        (["rows", "exchange", "drop"], 3),
        (["rows", "drop", "drop", "create", "rows"], 2),
        (["rows", "drop", "create", "drop"], 4),
        (["rows", "drop", "drop all"], 2),
        (["rows", "drop all", "create schema", "drop"], 2),
        (["rows", "drop", "upkeep", "drop"], 2),
        (["rows", "drop", "rows of another", "drop"], 2),
        (["replaced with rows", "drop"], 2),
        (["drop"], 1),
        (["rows", "truncate"], 0),
    ],
)
def test_a_drop_of_nothing_is_none(events: list[str], place: int) -> None:
    for cut in range(len(events) + 1):
        assert number(told("shop.orders", "drop", events[:cut], events[cut:]).found) == place


def test_a_table_that_got_another_name_is_told_of() -> None:
    seen = told("shop.orders", "drop", ["rows", "rename away"], ["drop", "rows of another"])
    assert seen.found is None and seen.renamed is not None
    assert (number(seen.renamed[0]), seen.renamed[1]) == (2, "shop.orders_old")


def test_of_a_schema_one_table_goes_after_the_other() -> None:
    assert number(told("shop.*", "drop", ["rows", "drop", "drop another"]).found) == 3
    assert number(told("shop.*", "drop", ["rows", "drop all"], ["drop another"]).found) == 2
    assert number(told("shop.*", "drop", ["rows", "drop all", "rows of another", "drop"]).found) == 4


def test_the_last_truncate_is_the_last() -> None:
    assert number(told("shop.orders", "truncate", ["truncate", "truncate", "drop"]).found) == 2


def test_a_later_change_is_known() -> None:
    seen = told("shop.orders", "drop", ["rows", "drop", "drop"], ["create"], ["rows"])
    assert (number(seen.found), number(seen.defined)) == (2, 4)


def test_names_in_letters_of_other_case_are_of_the_table() -> None:
    assert number(told("SHOP.Orders", "drop", ["rows", "drop", "drop all", "drop another"]).found) == 2


@given(st.lists(st.lists(st.sampled_from(sorted(EVENTS)), max_size=5), max_size=5))
def test_files_make_no_difference(files: list[list[str]]) -> None:
    whole = [event for file in files for event in file]
    gone, place = False, 0
    for each, event in enumerate(whole, 1):
        name, kinds = EVENTS[event]
        if name == "shop.other" or event in ("upkeep", "create schema"):
            continue
        if "drop" in kinds and not gone:
            place = each
        gone = event in ("drop", "drop all", "rename away", "rename in capitals")
    assert number(told("shop.orders", "drop", *files).found) == place


def seen_of(*entries: LogEntry) -> LastDrop:
    seen = LastDrop("shop.orders", "drop")
    for each in entries:
        seen.saw(each)
    seen.ended_file()
    return seen


def renaming(place: int, *renames: tuple[str, str]) -> LogEntry:
    return replace(entry(place, "upkeep"), renames=renames)


def test_a_table_of_its_own_in_other_letters_is_another_one() -> None:
    """Where names in other letters are other tables, the log has both."""
    both = Touched("shop.orders", ("insert",)), Touched("SHOP.ORDERS", ("ddl", "drop"))
    assert seen_of(replace(entry(1, "rows"), tables=both)).found is None
    came = renaming(2, ("Shop.Orders", "shop.x"), ("shop.a", "shop.orders"))
    assert seen_of(entry(1, "rows"), came).renamed is None
    went = renaming(2, ("shop.orders", "shop.x"), ("shop.a", "SHOP.ORDERS"))
    assert number(seen_of(entry(1, "rows"), went, entry(3, "drop")).found) == 0


def test_a_table_that_comes_back_in_other_letters_is_there_again() -> None:
    back = renaming(3, ("shop.orders_old", "Shop.Orders"))
    assert number(seen_of(entry(1, "rows"), entry(2, "rename away"), back, entry(4, "drop")).found) == 4


def test_other_tables_renames_are_no_matter() -> None:
    seen = seen_of(entry(1, "rows"), renaming(2, ("shop.other", "shop.more")), entry(3, "drop"))
    assert number(seen.found) == 3 and seen.renamed is None
    seen = seen_of(entry(1, "drop"), renaming(2, ("shop.other", "shop.more")), entry(3, "drop"))
    assert number(seen.found) == 1


def test_a_file_that_says_nothing_of_the_table_settles_nothing() -> None:
    assert number(told("shop.orders", "drop", ["rows", "drop"], ["upkeep"], ["drop"]).found) == 2
    assert number(told("shop.orders", "drop", ["rows"], ["upkeep"], ["drop"]).found) == 3


@pytest.mark.parametrize(("event", "settled"), [("drop", True), ("rename away", False), ("drop all", False)])
def test_where_nothing_is_dropped_that_was_not_there_a_drop_of_the_table_is_enough(
    event: str, settled: bool
) -> None:
    for sure in (True, False):
        seen = LastDrop("shop.orders", "drop", only_of_what_was_there=sure)
        seen.saw(entry(1, event))
        assert seen.ended_file() is (settled and sure)


@pytest.mark.parametrize(
    ("gone", "found"), [("`my.db`.*", True), ("`my.db`.orders", True), ("my.*", False), ("my.db", False)]
)
def test_a_schema_with_a_dot_is_told_from_another(gone: str, found: bool) -> None:
    seen = LastDrop("`my.db`.orders", "drop", only_of_what_was_there=True)
    done = Transaction(start="binlog.000001:4", end="", committed=at(1))
    touched = (Touched(gone, ("ddl", "drop")),)
    seen.saw(LogEntry(transaction=done, tables=touched, events=1, size=1))
    seen.ended_file()
    assert (seen.found is not None) == found


def test_a_view_that_was_dropped_is_known_and_is_no_table() -> None:
    """DROP VIEW IF EXISTS is logged where a table has that name, too, and does nothing to it then."""
    view = replace(entry(3, "drop"), no_tables=("shop.orders",))
    seen = seen_of(entry(1, "drop"), entry(2, "create"), view)
    assert (number(seen.found), number(seen.view), seen.there) == (1, 3, True)
    assert seen_of(view).found is None and seen_of(view).view is view
