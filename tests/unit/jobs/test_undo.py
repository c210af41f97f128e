"""What was altered since a transaction, and the name of the clone for it."""

from zoneinfo import ZoneInfo

import pytest

from tests.unit.samples import at
from zbackup.jobs.undo.undo import altered_since
from zbackup.model.errors import Refused
from zbackup.model.log import Transaction
from zbackup.model.log_entry import Kind, LogEntry, LogRead, Touched

ZONE = ZoneInfo("Europe/Berlin")
SUBJECT = Transaction(start="binlog.000001:4", end="binlog.000001:99", committed=at(1), gtid="0-1-1")


def entry(number: int, name: str, *kinds: Kind) -> LogEntry:
    done = Transaction(start=f"binlog.000001:{number}", end="", committed=at(number), gtid=f"0-1-{number}")
    return LogEntry(
        transaction=done, tables=(Touched(name, kinds),), events=1, size=1, text=f"ALTER {number}"
    )


def test_a_table_s_first_later_definition_is_told_and_a_truncate_is_none() -> None:
    itself = LogEntry(transaction=SUBJECT, tables=(Touched("shop.a", ("ddl",)),), events=1, size=1)
    found = [
        itself,
        entry(2, "Shop.Orders", "ddl"),
        entry(3, "shop.orders", "ddl"),
        entry(4, "shop.b", "ddl", "truncate"),
    ]
    altered = altered_since(found, SUBJECT, ZONE)
    assert list(altered) == ["shop.orders"]
    assert altered["shop.orders"].endswith("by 0-1-2: ALTER 2")


def test_a_log_that_was_not_read_whole_proves_nothing() -> None:
    read = LogRead(name="binlog.000002", size=9, end="", problem="binlog.000002 is encrypted")
    with pytest.raises(Refused, match="not all of the log was read"):
        altered_since([read], SUBJECT, ZONE)
