"""Tell what a restore to a moment takes, and which statements changed the tables there are. Looks only."""

from datetime import datetime

from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore
from zbackup.jobs.restore.search_log import search_log
from zbackup.model.log import Transaction
from zbackup.model.log_entry import LogEntry, LogFilter
from zbackup.model.moment import Moment, local_text, utc_text
from zbackup.model.overview import Mark, Marks, MomentPlan

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
