"""The transaction that is left out of a restore, and what is said of those that came after it."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.reports import ASKED, LEFT_OUT, PLAN, REPLAY, a_transaction
from zbackup.cli.restore_report import render_plan
from zbackup.cli.restore_target import named_target
from zbackup.engines.mongodb.recovery.log_search import MongoLogSearch
from zbackup.engines.mysql.recovery.log_search import MysqlLogSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore import skip
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.errors import Refused, UsageError, ZbackupError
from zbackup.model.log import LogPosition, Transaction
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Touched
from zbackup.model.recovery import LeftOut

SUBJECT = LEFT_OUT.transaction


def entry(transaction: Transaction, *tables: str) -> LogEntry:
    touched = tuple(Touched(name, ("update",)) for name in tables)
    return LogEntry(transaction=transaction, tables=touched, events=1, size=1)


def planned(monkeypatch: pytest.MonkeyPatch, *log: LogEntry | LogRead) -> tuple[LeftOut | None, list[str]]:
    def search(_: Context, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        return (each for each in log if isinstance(each, LogRead) or wanted.admits(each))

    monkeypatch.setattr(skip, "search_log", search)
    notes: list[str] = []
    ctx = cast(Context, SimpleNamespace(progress=SimpleNamespace(note=notes.append)))
    return skip.planned_without(ctx, PLAN, SUBJECT).left_out, notes


def test_those_behind_it_that_are_applied_and_touched_the_same_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later, last = a_transaction(0, 4600, "u:35"), a_transaction(1, 5000, "u:41")
    found, notes = planned(
        monkeypatch,
        entry(a_transaction(0, 3900, "u:30"), "shop.orders"),
        entry(SUBJECT, "shop.orders", "shop.lines"),
        entry(later, "shop.lines"),
        entry(a_transaction(1, 4700, "u:36"), "shop.other"),
        entry(last, "shop.orders"),
        entry(a_transaction(1, 5100, "u:42"), "shop.orders"),
        LogRead(name="binlog.000012", size=9, end="", problem="behind it", damaged=True),
    )
    tables = ("shop.orders", "shop.lines")
    assert found == LeftOut(transaction=SUBJECT, tables=tables, later=2, first=(later, last))
    assert notes == [str(found)] and "2 transactions touched the same tables later (u:35, u:41)" in notes[0]


def test_a_log_that_is_not_read_whole_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="not all of the log was read"):
        planned(
            monkeypatch,
            entry(SUBJECT, "shop.orders"),
            LogRead(name="binlog.000012", size=9, end="", problem="encrypted"),
        )


def test_log_that_is_lost_in_front_of_it_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = LogRead(name="binlog.000012", size=0, end="", problem="binlog.000011 is gone")
    found, _ = planned(monkeypatch, lost, entry(SUBJECT, "shop.orders"))
    assert found == LeftOut(transaction=SUBJECT, tables=("shop.orders",))
    for log in ([entry(SUBJECT, "shop.orders"), lost], [lost]):
        with pytest.raises(Refused, match=r"binlog\.000011 is gone"):
            planned(monkeypatch, *log)


def test_log_that_is_lost_behind_the_target_has_no_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was purged since is of no transaction that is applied."""
    last = REPLAY.last_applied
    assert last and last.end.startswith("binlog.000012:")
    whole = LogRead(name="binlog.000012", size=9, end=last.end)
    lost = LogRead(name="binlog.000015", size=0, end="", problem="binlog.000013 is gone")
    later = entry(a_transaction(0, 4600, "u:35"), "shop.orders")
    for read in (whole, replace(whole, problem="it ends within an event", torn=True)):
        found, _ = planned(monkeypatch, entry(SUBJECT, "shop.orders"), later, read, lost)
        assert found and found.later == 1
    before = replace(whole, end=SUBJECT.end)
    unread = replace(whole, problem="its last 9 bytes were not read", damaged=True)
    elsewhere = replace(whole, name="binlog.000016", end="binlog.000016:900")
    for reads in ([before, lost, whole], [unread, lost, elsewhere], [before, lost], [lost, whole]):
        with pytest.raises(ZbackupError, match="not all of the log was read"):
            planned(monkeypatch, entry(SUBJECT, "shop.orders"), later, *reads)
    with pytest.raises(Refused, match=r"binlog\.000013 is gone"):
        planned(monkeypatch, whole, lost)


def test_it_has_to_be_applied_and_not_the_last() -> None:
    assert skip.require_within(PLAN, SUBJECT) == REPLAY.last_applied
    for start, why in ((5000, "use --before u:41"), (5100, "^u:41 is not before the target anyway")):
        with pytest.raises(Refused, match=why):
            skip.require_within(PLAN, a_transaction(1, start, "u:41"))
    with pytest.raises(Refused, match="not before the target anyway"):
        skip.require_within(replace(PLAN, replay=replace(REPLAY, last_applied=None)), SUBJECT)


@pytest.mark.parametrize("engine", ["mysql", "mongodb"])
def test_without_gtids_or_from_an_oplog_it_is_refused(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(transaction=replace(SUBJECT, gtid=""))
    monkeypatch.setattr(skip, "LOCAL", SimpleNamespace(transaction=lambda *_: found))
    why, name, search = {
        "mysql": ("has no GTID", "binlog.000012:4000", MysqlLogSearch(flavor="mysql")),
        "mongodb": ("oplog of shop", "1714557720,1", MongoLogSearch(recovery=cast(Any, None))),
    }[engine]
    made = SimpleNamespace(log_search=search, engine_name=engine, instance="shop")
    with pytest.raises(Refused, match=why):
        skip.without(cast(Context, made), RestoreOptions(), name)


def test_the_plan_says_what_is_left_out_and_what_came_later() -> None:
    said = render_plan(ASKED, replace(PLAN, left_out=LEFT_OUT))
    assert "left out: u:31, which changed shop.orders; 2 transactions" in said and "u:36 and 1 more" in said
    alone = LeftOut(transaction=SUBJECT, tables=("shop.orders",))
    assert "nothing touched the same tables later" in str(alone)


def test_all_but_one_transaction_is_up_to_now_unless_an_end_is_named() -> None:
    assert named_target({"--to": None}, skips=True) == "now"
    assert named_target({"--to": "-1h"}, skips=True) == "-1h"
    assert named_target({"--before": "binlog.000001:4"}, skips=True) == LogPosition.of("binlog.000001", 4)


@pytest.mark.parametrize(
    ("given", "origin", "said"),
    [
        ({"--to-timestamp": "1714557720,1"}, None, "--to-timestamp: MongoDB"),
        ({"--to": "1714557720,1"}, None, "--to-timestamp: MongoDB"),
        ({"--to-backup": "b"}, None, "--to-backup: a backup as it is replays no log"),
        ({"--to": "label:l"}, None, "--to-label: a backup as it is replays no log"),
        ({}, "cloud", "--from: what came after it"),
    ],
)
def test_nothing_is_left_out_where_no_log_is_replayed(
    given: dict[str, str], origin: str | None, said: str
) -> None:
    with pytest.raises(UsageError, match=f"^--skip does not go with {said}"):
        named_target(given, origin=origin, skips=True)


@pytest.mark.parametrize("half", [{"prepared": True}, {"text": "XA COMMIT X'01',X'',1"}])
def test_half_an_xa_transaction_is_not_left_out(
    half: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused, match=r"^u:31 is one half of an XA transaction"):
        planned(monkeypatch, replace(entry(SUBJECT, "shop.orders"), **half))


def test_it_is_left_out_from_a_backup_that_does_not_hold_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """MariaDB's are left out by their place, and need no GTID."""
    found = SimpleNamespace(transaction=SUBJECT)
    base = SimpleNamespace(base=SimpleNamespace(name="zbackup-1"))
    local = SimpleNamespace(transaction=lambda *_: found, plan=lambda *_: base)
    monkeypatch.setattr(skip, "LOCAL", local)

    def without(engine: str) -> RestoreOptions:
        search = MysqlLogSearch(flavor="mysql")
        made = SimpleNamespace(log_search=search, engine_name=engine, instance="shop")
        return skip.without(cast(Context, made), RestoreOptions(port=7), "binlog.000012:4000")

    assert without("mysql") == RestoreOptions(port=7, base="zbackup-1", skip=SUBJECT)
    found.transaction = replace(SUBJECT, gtid="")
    assert without("mariadb").skip == found.transaction


def test_one_that_is_in_the_log_no_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = replace(SUBJECT, start="binlog.000012:3999")
    with pytest.raises(Refused, match="was in the log just now, and is not any more"):
        planned(monkeypatch, entry(gone, "shop.orders"))


def test_one_that_touched_no_table_has_none_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    later = entry(a_transaction(0, 4600, "u:35"), "shop.lines")
    found, _ = planned(monkeypatch, entry(SUBJECT, ""), later)
    assert found == LeftOut(transaction=SUBJECT, tables=())
    found, _ = planned(monkeypatch, entry(SUBJECT, "", "shop.lines"), later)
    assert found and (found.tables, found.later) == (("shop.lines",), 1)


def test_a_plan_that_leaves_nothing_out_searches_nothing() -> None:
    assert skip.planned_without(cast(Context, None), PLAN, None) is PLAN
    with pytest.raises(Refused, match=r"^binlog.000012:5000 is the last before the target"):
        skip.require_within(PLAN, replace(SUBJECT, gtid="", start="binlog.000012:5000"))
    with pytest.raises(Refused, match="not before the target anyway"):
        skip.require_within(replace(PLAN, replay=None), SUBJECT)
