"""Judge log archives: how much of the log would be lost with the host, and how much may be. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from zbackup.model.finding import Finding
from zbackup.plan.duration_text import length

# A look takes a while, and so does a rotation of the log; less than this is nothing to be told of.
SLACK = timedelta(seconds=30)
LATE, LOST = 5, 60
"""Multiples of the interval of archiving: late is a warning, lost is critical."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFacts:
    """The facts about a destination's log archive. `exposed` is what would be lost with the host (None: not
    known), `every` how often it is archived, `error` why it fails, "" if it does not. `ahead`: it was
    archived later than now, by the clock. `failing` is for how long every look has failed: where nobody knows
    what is exposed, at least so much is. `stranded`: why nothing of it can be restored from there."""

    destination: str
    exposed: timedelta | None
    every: timedelta
    error: str = ""
    ahead: bool = False
    failing: timedelta = timedelta()
    stranded: str = ""


def of_archives(archives: Sequence[ArchiveFacts], *, daemon_runs: bool) -> list[Finding]:
    """List the findings about log archives that are behind."""
    behind = [found for each in archives if (found := _behind(each, daemon_runs=daemon_runs))]
    return behind + [_stranded(each) for each in archives if each.stranded]


def _stranded(facts: ArchiveFacts) -> Finding:
    return Finding(
        severity="critical",
        subject="archive",
        text=f"the log archived at {facts.destination} cannot be restored from there: {facts.stranded}",
        why="archived log extends a backup at the same destination, and is useless without one",
        fix="zbackup ship",
        key=f"{facts.destination} stranded",
    )


def _behind(facts: ArchiveFacts, *, daemon_runs: bool) -> Finding | None:
    why = "what is not archived is lost with this host, back to the newest backup that was shipped"
    error = f": {facts.error}" if facts.error else ""
    fix = "zbackup archive status" if facts.error or daemon_runs else "systemctl start zbackup"
    lost = LOST * facts.every + SLACK
    if facts.exposed is None:
        return Finding(
            severity="critical" if facts.failing > lost else "warning",
            subject="archive",
            text=f"the clock was set back since the log was archived at {facts.destination}, so that nobody "
            f"can tell how long ago that was{error}"
            if facts.ahead
            else f"the log has not been archived at {facts.destination} since this host was started{error}",
            why=why,
            fix=fix,
            key=f"{facts.destination} never",
        )
    if facts.exposed <= LATE * facts.every + SLACK:
        return None
    return Finding(
        severity="critical" if facts.exposed > lost else "warning",
        subject="archive",
        text=f"the last {length(facts.exposed)} of the log are not archived at {facts.destination}{error}",
        why=why,
        fix=fix,
        key=facts.destination,
    )
