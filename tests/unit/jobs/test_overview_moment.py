"""The reader's answers about a moment that somebody may restore to, and about what changed the tables
before."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest
from pydantic import TypeAdapter

from tests.unit.reports import BERLIN, PLAN, REPLAY, a_backup, a_transaction, at
from tests.unit.web.host import fleet, host, runs
from zbackup.features.webpage.overview import reader
from zbackup.features.webpage.overview.reader import MOST_MARKS, MOST_TABLES, MOST_TEXT, VERBS, obey, parse
from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.fleet import Fleet
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead, Touched
from zbackup.model.operation import Operation
from zbackup.model.overview import Marks, MomentPlan, Overview
from zbackup.model.run import JobRun

T = TypeVar("T")
WHEN = at(2)
ONE = Operation(id="ab" * 16, verb="create", instance="shop", clone="dev1", who="ann", began=at(1))


def asked(verb: str, shape: type[T], since: datetime = WHEN, until: datetime | None = None) -> T:
    """What the reader answers, as whoever asked reads it."""
    question = {"verb": verb, "instance": "shop", "since": since.isoformat()}
    question["until"] = until.isoformat() if until else ""
    context = cast(Context, SimpleNamespace(zone=BERLIN))
    said = obey(parse(json.dumps(question)), {"shop": context}, host, lambda: (ONE,), fleet, runs)
    return TypeAdapter(shape).validate_json(said)


def planned(monkeypatch: pytest.MonkeyPatch, plan: RestorePlan) -> MomentPlan:
    def plan_restore(_: Context, target: Any, __: object) -> RestorePlan:
        assert (target.at, target.zone) == (WHEN, BERLIN)
        return plan

    monkeypatch.setattr(reader, "plan_restore", plan_restore)
    return asked("moment", MomentPlan)


def test_each_question_has_its_own_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    planned(monkeypatch, PLAN)
    monkeypatch.setattr(reader, "search_log", lambda *_: ())
    shapes: dict[str, Any] = {"overview": Overview, "moment": MomentPlan, "marks": Marks, "fleet": Fleet}
    shapes |= {"operations": tuple[Operation, ...], "history": tuple[JobRun, ...]}
    found = {verb: asked(verb, shapes[verb], until=at(3)) for verb in VERBS}
    assert (found["overview"], found["operations"]) == (host(), (ONE,))
    assert (found["history"], found["fleet"]) == (runs(), fleet())
    assert found["marks"] == Marks(marks=(), more=False, problems=())
    assert found["moment"].base == PLAN.base.name
    for no_time in ("", "yesterday"):
        with pytest.raises(Refused, match="no time"):
            obey(
                parse(json.dumps({"verb": "moment", "instance": "shop", "since": no_time, "until": ""})),
                {"shop": cast(Any, None)}, host, tuple, fleet,
            )  # fmt: skip


def test_a_plan_says_where_the_replay_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    drop = replace(a_transaction(2, 5100, ""), what="drop shop.orders")
    replay = replace(REPLAY, first_skipped=drop)
    found = planned(monkeypatch, replace(PLAN, replay=replay, warnings=("it lags",)))
    assert found == MomentPlan(
        base="zbackup-20240501T080000Z",
        log="",
        reason="newest before",
        as_it_is=False,
        transactions=32,
        log_bytes=3 * 1024**2,
        last_applied="2024-05-01 10:01:59.250000 CEST u:41 binlog.000012:5000",
        first_skipped="2024-05-01 10:02:59.250000 CEST binlog.000012:5100 drop shop.orders",
        warnings=("it lags",),
    )
    none = replace(REPLAY, last_applied=None, first_skipped=None)
    found = planned(monkeypatch, replace(PLAN, replay=none))
    assert (found.last_applied, found.first_skipped) == ("", "")


def test_a_plan_may_have_no_replay_and_a_log_of_another_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    found = planned(monkeypatch, replace(PLAN, log=a_backup(), replay=None, as_it_is=True))
    assert (found.log, found.as_it_is) == ("zbackup-20240501T080000Z", True)
    assert (found.transactions, found.log_bytes) == (None, None)
    assert (found.last_applied, found.first_skipped) == ("", "")


def entry(second: int, *tables: Touched, gtid: str = "", text: str = "") -> LogEntry:
    transaction = replace(a_transaction(2, 5000 + second, gtid), committed=at(2, second))
    return LogEntry(transaction=transaction, tables=tables, events=1, size=1, text=text)


def marked(monkeypatch: pytest.MonkeyPatch, found: Iterable[LogEntry | LogRead]) -> Marks:
    def search(_: Context, wanted: LogFilter) -> Iterable[LogEntry | LogRead]:
        assert wanted == LogFilter(kinds=frozenset(("ddl",)), since=at(2), until=at(3))
        return found

    monkeypatch.setattr(reader, "search_log", search)
    return asked("marks", Marks, until=at(3))


def test_marks_are_in_the_order_of_time_and_named_by_the_worst_they_did(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dropped, made = Touched("shop.orders", ("ddl", "drop")), Touched("shop.users", ("ddl",))
    emptied, split = Touched("shop.a", ("ddl", "truncate")), Touched("shop.b", ("ddl", "partition"))
    found = marked(
        monkeypatch,
        [
            entry(9, made, text="ALTER"),
            LogRead(name="a", size=1, end="", problem="it is encrypted"),
            entry(5, made, dropped, gtid="u:5", text="DROP"),
            entry(7, split, made),
            entry(6, emptied),
            LogRead(name="b", size=1, end=""),
        ],
    )
    assert [(m.at, m.kind, m.name) for m in found.marks] == [
        (at(2, 5), "drop", "u:5"),
        (at(2, 6), "truncate", "binlog.000012:5006"),
        (at(2, 7), "partition", "binlog.000012:5007"),
        (at(2, 9), "ddl", "binlog.000012:5009"),
    ]
    assert [(m.tables, m.text) for m in found.marks[::3]] == [
        (("shop.users", "shop.orders"), "DROP"),
        (("shop.users",), "ALTER"),
    ]
    assert (found.more, found.problems) == (False, ("it is encrypted",))


def test_no_page_gets_more_than_it_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = tuple(Touched(f"shop.t{n}", ("ddl",)) for n in range(MOST_TABLES + 1))
    texts = ("x" * MOST_TEXT, "y" * (MOST_TEXT + 1))
    whole = [entry(1, *tables, text=texts[n % 2]) for n in range(MOST_MARKS)]
    found = marked(monkeypatch, whole)
    assert (len(found.marks), found.more) == (MOST_MARKS, False)
    assert {m.text for m in found.marks} == {texts[0], "y" * (MOST_TEXT - 1) + "…"}
    assert {len(m.tables) for m in found.marks} == {MOST_TABLES}
    found = marked(monkeypatch, [*whole, entry(2)])
    assert (len(found.marks), found.more) == (MOST_MARKS, True)


def test_what_cannot_be_restored_or_read_is_said_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(*_: object) -> RestorePlan:
        raise NotRecoverable("there is no backup before it")

    monkeypatch.setattr(reader, "plan_restore", nothing)
    with pytest.raises(NotRecoverable, match="no backup before"):
        asked("moment", MomentPlan, since=at(2) - timedelta(days=9))
