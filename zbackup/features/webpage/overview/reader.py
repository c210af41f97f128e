"""The reader: what one who may look answers a web process that may not: it changes nothing.

A question is one line of JSON: a verb, an instance, and a time or two. The answer is JSON as well, and the
line is closed behind it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from pydantic import TypeAdapter

from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore
from zbackup.jobs.restore.search_log import search_log
from zbackup.model import bounds
from zbackup.model.errors import Refused
from zbackup.model.fleet import Fleet
from zbackup.model.log import Transaction
from zbackup.model.log_entry import LogEntry, LogFilter
from zbackup.model.moment import Moment, local_text, utc_text
from zbackup.model.operation import Operation
from zbackup.model.overview import Mark, Marks, MomentPlan, Overview
from zbackup.model.run import JobRun

MOST_MARKS = 500
MOST_TEXT = 200
MOST_TABLES = 8
_HARM = ("drop", "truncate", "partition")


def plan_moment(ctx: Context, at: datetime) -> MomentPlan:
    """Return what `zbackup restore --to ... --dry-run` finds. Raise what it raises."""
    plan = plan_restore(ctx, Moment(at, utc_text(at), ctx.zone), RestoreOptions())
    replay = plan.replay
    return MomentPlan(
        base=plan.base.name,
        log=plan.log.name if plan.log else "",
        reason=plan.reason,
        as_it_is=plan.as_it_is,
        transactions=replay.transactions if replay else None,
        log_bytes=replay.log_bytes if replay else None,
        last_applied=_said(ctx, replay.last_applied) if replay else "",
        first_skipped=_said(ctx, replay.first_skipped) if replay else "",
        warnings=plan.warnings,
    )


def _said(ctx: Context, subject: Transaction | None) -> str:
    if subject is None:
        return ""
    parts = (local_text(subject.committed, ctx.zone), subject.gtid, subject.start, subject.what)
    return " ".join(filter(None, parts))


def find_marks(ctx: Context, since: datetime, until: datetime) -> Marks:
    """DDL, drops and truncates that were committed in that time, as `zbackup log` finds them. Raise what it
    raises."""
    wanted = LogFilter(kinds=frozenset(("ddl",)), since=since, until=until)
    marks: list[Mark] = []
    problems: list[str] = []
    more = False
    for each in search_log(ctx, wanted):
        if not isinstance(each, LogEntry):
            problems += [each.problem] if each.problem else []
        elif len(marks) < MOST_MARKS:
            marks.append(_mark(each))
        else:
            more = True
    marks.sort(key=lambda mark: mark.at)
    return Marks(marks=tuple(marks), more=more, problems=tuple(problems[:MOST_TABLES]))


def _mark(entry: LogEntry) -> Mark:
    kinds, subject = entry.kinds(), entry.transaction
    text = entry.text
    return Mark(
        at=subject.committed,
        kind=next((kind for kind in _HARM if kind in kinds), "ddl"),
        tables=tuple(table.name for table in entry.tables[:MOST_TABLES]),
        name=subject.gtid or subject.start,
        text=text if len(text) <= MOST_TEXT else f"{text[: MOST_TEXT - 1]}…",
    )


T = TypeVar("T")
FIELDS = frozenset(("verb", "instance", "since", "until"))
VERBS = ("overview", "moment", "marks", "operations", "fleet", "history")
_OVERVIEW, _MOMENT, _MARKS = TypeAdapter(Overview), TypeAdapter(MomentPlan), TypeAdapter(Marks)
_HISTORY = TypeAdapter(tuple[JobRun, ...])
_OPERATIONS, _FLEET = TypeAdapter(tuple[Operation, ...]), TypeAdapter(Fleet)


@dataclass(frozen=True, slots=True)
class Question:
    """`instance` is "" where all are meant, and so are the times."""

    verb: str
    instance: str
    since: str
    until: str


def require_role(uid: int, readers: frozenset[int]) -> None:
    """Raise Refused unless who asks, as the kernel tells, may read."""
    if uid not in readers:
        raise Refused(f"user id {uid} may not read: [web] readers in the configuration names who may")


def parse(line: str) -> Question:
    """Read a question. Raise Refused for what is none."""
    try:
        asked = bounds.strings(line, FIELDS)
    except ValueError as wrong:
        raise Refused("not a question") from wrong
    if asked["verb"] not in VERBS:
        raise Refused("not a question")
    return Question(**asked)


def obey(
    question: Question,
    contexts: Mapping[str, Context],
    overview: Callable[[], Overview],
    operations: Callable[[], tuple[Operation, ...]],
    fleet: Callable[[], Fleet],
    history: Callable[[], tuple[JobRun, ...]] = tuple,
) -> bytes:
    """The answer, as JSON. Raise Refused for a question that nobody asks, and what looking raises."""
    if question.verb == "overview":
        return _told(_OVERVIEW, overview())
    if question.verb == "operations":
        return _told(_OPERATIONS, operations())
    if question.verb == "history":
        return _told(_HISTORY, history())
    if question.verb == "fleet":
        return _told(_FLEET, fleet())
    if question.instance not in contexts:
        raise Refused("no such instance in the reader's configuration")
    ctx = contexts[question.instance]
    if question.verb == "moment":
        return _told(_MOMENT, plan_moment(ctx, _moment(question.since)))
    return _told(_MARKS, find_marks(ctx, _moment(question.since), _moment(question.until)))


def _told(shape: TypeAdapter[T], found: T) -> bytes:
    """Write it as JSON. What other programs and hosts said is in it, and a byte of that which is no text is a
    "?": for that alone nobody goes without all the rest."""
    try:
        return shape.dump_json(found)
    except ValueError:
        return json.dumps(shape.dump_python(found, mode="json"), ensure_ascii=False).encode(
            "utf-8", "replace"
        )


def _moment(text: str) -> datetime:
    try:
        return bounds.moment(text)
    except ValueError as wrong:
        raise Refused("no time") from wrong
