"""Transactions of a log as people read them, and the command that follows."""

from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from zbackup.cli.log_lines import LogLines, what
from zbackup.model.log import Transaction
from zbackup.model.log_entry import LogEntry, LogRead, Touched

ZONE = ZoneInfo("UTC")
DROP = LogEntry(
    transaction=Transaction(
        start="binlog.000001:700",
        end="binlog.000001:900",
        committed=datetime(2024, 5, 1, 10, 2, tzinfo=UTC),
        gtid="0-1-9",
    ),
    tables=(Touched("shop.orders", ("ddl", "drop")),),
    events=2,
    size=200,
    text="DROP TABLE\n orders",
    thread=41,
)
DELETE = replace(
    DROP,
    transaction=replace(DROP.transaction, gtid="", start="binlog.000001:900"),
    tables=tuple(Touched(f"shop.t{n}", ("delete",)) for n in range(6)),
    text="",
    by_text=True,
)
READ = LogRead(name="binlog.000001", size=2048, end="binlog.000001:2048")


def lines(*, by_size: bool = False, at: str = "", engine: str = "mysql") -> LogLines:
    return LogLines(ZONE, "shop", engine, by_size=by_size, at=at)


def test_a_line_says_when_who_and_what() -> None:
    said = lines().line(DROP)
    assert said == (
        "2024-05-01 10:02:00 UTC  0-1-9  binlog.000001:700  shop.orders drop  2 events, 200 B  thread 41  "
        "DROP TABLE orders"
    )
    assert what(DELETE).endswith("shop.t3 delete, and 2 more (by text)")


@pytest.mark.parametrize(
    ("columns", "below"),
    [
        (80, ["    0-1-9  binlog.000001:700  DROP TABLE orders"]),
        (40, ["    0-1-9  binlog.000001:700", "    DROP TABLE orders"]),
        (20, ["    0-1-9  binlog.000001:700", "    DROP TABLE orde…"]),
    ],
)
def test_on_a_narrow_terminal_it_is_seen_what_was_done_and_no_name_is_cut(
    columns: int, below: list[str]
) -> None:
    said = LogLines(ZONE, "shop", "mysql", columns, by_size=False).line(DROP).splitlines()
    done = "2024-05-01 10:02:00 UTC  shop.orders drop  2 events, 200 B  thread 41"
    assert " ".join(" ".join(said[: -len(below)]).split()) == " ".join(done.split())
    assert said[-len(below) :] == below
    assert max(map(len, [*said[: -len(below)], below[-1]])) <= columns
    one_line = LogLines(ZONE, "shop", "mysql", 200, by_size=False).line(DELETE)
    assert "\n" not in one_line and not DELETE.text
    folded = LogLines(ZONE, "shop", "mysql", 80, by_size=False).line(DELETE)
    assert folded.splitlines()[-1] == "    binlog.000001:900"


def test_the_command_goes_before_the_last_that_did_harm() -> None:
    told = lines()
    for entry in (DROP, DELETE):
        told.line(entry)
    assert list(told.end([READ])) == [
        "2 transactions of 1 file of the log, 2.0 KiB.",
        "To restore to just before the last drop or truncate: zbackup restore shop --before 0-1-9",
    ]
    largest = lines(by_size=True, at="offsite")
    for entry in (DELETE, DROP):
        largest.saw(entry)
    assert largest.restore() == "zbackup restore shop --before binlog.000001:900 --from offsite"
    oplog = lines(engine="mongodb")
    oplog.saw(replace(DROP, transaction=replace(DROP.transaction, gtid="", start="1714557720,7@3")))
    assert oplog.restore() == "zbackup restore shop --to-timestamp 1714557720,7"
    assert list(lines().end([])) == ["0 transactions of 0 files of the log, 0 B."]
