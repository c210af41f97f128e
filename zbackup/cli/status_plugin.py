"""`zbackup status --plugin`: a line and an exit status as Nagios, Icinga, Checkmk and others want them.

The forms are those of the Monitoring Plugins Development Guidelines: SERVICE STATUS - text | 'label'=value,
more lines behind the first one, and an exit status of 0 (OK), 1 (WARNING), 2 (CRITICAL) or 3 (UNKNOWN).
"""

from collections.abc import Callable, Sequence

from zbackup.cli.command_context import Done, Failed
from zbackup.jobs.watch.status import InstanceStatus
from zbackup.model.errors import ZbackupError

WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
OK, WARNING, CRITICAL, UNKNOWN = range(4)
LEVELS = {"ok": OK, "advice": OK, "warning": WARNING, "critical": CRITICAL}
WORST_LAST = (OK, WARNING, UNKNOWN, CRITICAL)

Outcome = Done[InstanceStatus] | Failed


def answer(inspect: Callable[[], Sequence[Outcome]]) -> tuple[int, str]:
    """The exit status, and what to print. An error is an answer, too: that nobody knows."""
    try:
        outcomes = inspect()
    except ZbackupError as failure:
        return UNKNOWN, f"ZBACKUP UNKNOWN - {_line(str(failure))}"
    level = max((_level(o) for o in outcomes), key=WORST_LAST.index)
    wrong = [line for outcome in outcomes for line in _wrong(outcome)]
    first = wrong[0] if wrong else ", ".join(f"{name(o)}: ok{_known(o)}" for o in outcomes)
    known = [f"{name(o)}:{_known(o)}" for o in outcomes if _known(o)] if wrong else []
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    data = " ".join(number for o in outcomes if isinstance(o, Done) for number in _numbers(o.result))
    return level, "\n".join(
        (f"ZBACKUP {WORDS[level]} - {first}{more}{f' | {data}' if data else ''}", *wrong[1:], *known)
    )


def _known(outcome: Outcome) -> str:
    """Problems that an operator knows of are no reason to call, and are not hidden."""
    found = outcome.result.findings if isinstance(outcome, Done) else ()
    subjects = ", ".join(f"{f.subject} {f.key}".strip() for f in found if f.acknowledged)
    return f" (acknowledged: {_line(subjects)})" if subjects else ""


def name(outcome: Outcome) -> str:
    return outcome.instance if isinstance(outcome, Failed) else outcome.result.instance


def _level(outcome: Outcome) -> int:
    return UNKNOWN if isinstance(outcome, Failed) else LEVELS[outcome.result.health]


def _wrong(outcome: Outcome) -> list[str]:
    """What is wrong with it, the worst first."""
    if isinstance(outcome, Failed):
        return [f"{outcome.instance}: {_line(str(outcome.error))}"]
    found = sorted(
        (f for f in outcome.result.findings if LEVELS[f.severity] > OK), key=lambda f: -LEVELS[f.severity]
    )
    return [f"{outcome.result.instance}: {f.subject}: {_line(f.text)}" for f in found]


def _numbers(status: InstanceStatus) -> list[str]:
    """Performance data: how old the newest backup and the last drills that passed are, how far each
    destination is behind, what is free."""
    ages = [("age", (status.looked - status.newest.record.taken).total_seconds())] if status.newest else []
    behind = [
        (f"behind {each.destination}", each.behind.total_seconds())
        for each in status.shipped
        if each.behind is not None
    ]
    passed = [
        (f"drill {each.destination}".strip(), age.total_seconds())
        for each in status.drills
        if (age := each.age(status.looked)) is not None
    ]
    seconds = [f"'{status.instance} {what}'={amount:.0f}s" for what, amount in (*ages, *behind, *passed)]
    return [*seconds, f"'{status.instance} pool free'={status.space.pool.free_share * 100:.0f}%"]


def _line(text: str) -> str:
    """Replace bars: what is behind one would be taken for performance data."""
    return " ".join(text.replace("|", "/").split())
