"""A drill on schedule: whether one is due, whether it is wanted now, and who makes it."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.drills.drill import DrillReport, drill, drill_here
from zbackup.jobs.drills.guard import (
    MEASURE_EVERY,
    DrillGuard,
    memory_needed,
    memory_short,
    restoring,
    room_short,
)
from zbackup.jobs.drills.verdicts import read
from zbackup.jobs.restore.at_destination import at_destination
from zbackup.model.drill import last_passed
from zbackup.model.errors import NotRecoverable, Postponed, Refused, Taken, VerificationFailed, ZbackupError
from zbackup.model.schedule import Retry, Timing
from zbackup.plan.due import CLOCK_TOLERANCE, History, due
from zbackup.plan.recovery.window import usable_bases
from zbackup.proc.helper_socket import ask_patiently

NO_ROOT = (
    "a drill starts a server as the user who owns its files, which takes root, and this daemon runs as user "
    "id {uid}: systemctl enable --now zbackup-drill.socket"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillRules:
    """The rules for when drills are due, `offset` seconds into each slot, and after how many seconds one has
    taken too long."""

    timing: Timing
    zone: ZoneInfo
    limit: float
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillTurn:
    """The result of a turn: the last drill that passed ended `at`, which may have been made by somebody
    else."""

    at: datetime
    report: DrillReport | None = None


def drill_turn(
    ctx: Context, destination: ShipDestination | None, rules: DrillRules, stopping: Callable[[], bool]
) -> DrillTurn:
    """Make the drill if it is due still. Raise Postponed when it has to wait, and whatever drill() raises."""
    passed = last_passed(read(ctx, destination.name if destination else ""))
    if passed and not _is_due(passed.at, rules, ctx.clock.now()):
        return DrillTurn(at=passed.at)
    if os.geteuid() == 0:
        return make(ctx, destination, rules.limit, lambda: "the daemon is told to end" if stopping() else "")
    if ctx.drill_helper is None:
        raise Refused(NO_ROOT.format(uid=os.geteuid()))
    question = {"verb": "drill", "instance": ctx.instance, "clone": destination.name if destination else ""}
    return DrillTurn(at=_told(ask_patiently(ctx.drill_helper, question, stopping), ctx))


def make(
    ctx: Context, destination: ShipDestination | None, limit: float, told: Callable[[], str]
) -> DrillTurn:
    """Make the drill, as root. `told` says why it must not go on, "" if it may."""
    if destination is None and not usable_bases(ctx.catalog().backups):
        raise Postponed(f"there is no backup of {ctx.instance} yet")
    at = at_destination(ctx, destination) if destination and destination.adapter.here else ctx
    if why := restoring(ctx) or memory_short(memory_needed(ctx)) or room_short(at):
        raise Postponed(why)
    guard = DrillGuard(gives_way=_StillWanted(ctx, at, told).why_not, limit=limit)
    try:
        if destination:
            report = drill(ctx, destination, between=True, guard=guard)
        else:
            report = drill_here(ctx, between=True, guard=guard)
    except Taken as busy:
        raise Postponed(str(busy)) from busy
    except NotRecoverable as none:
        if destination and _nothing_yet(ctx, destination):
            raise Postponed(str(none)) from none
        raise
    return DrillTurn(at=report.verdict.at, report=report)


def _nothing_yet(ctx: Context, destination: ShipDestination) -> bool:
    """Whether no backup has arrived there. Not where one was tried before: then they are lost."""
    if read(ctx, destination.name):
        return False
    with destination.adapter.connect() as session:
        copies = session.copies()
    return not (copies.backups or copies.unreadable or copies.remains)


@dataclass(slots=True)
class _StillWanted:
    """The reason why a drill that is under way must not go on. Who else restores takes longer to find out."""

    ctx: Context
    at: Context
    told: Callable[[], str]
    asked: int = 0

    def why_not(self) -> str:
        self.asked += 1
        if why := self.told():
            return why
        if self.asked % MEASURE_EVERY:
            return ""
        with suppress(ZbackupError):  # who cannot be seen is not waited for
            return restoring(self.ctx) or room_short(self.at)
        return ""


def _is_due(last: datetime, rules: DrillRules, now: datetime) -> bool:
    # As the daemon's table of jobs counts it: else that one calls for what is not made here, without end.
    history, retry = History(last=last), Retry(first=1, most=1)
    wanted = due(rules.timing, retry, history, now, rules.zone, offset=rules.offset)
    return wanted.at <= now + CLOCK_TOLERANCE


def _told(answer: dict[str, object], ctx: Context) -> datetime:
    """When the drill ended that the helper made. Raise what it says."""
    said = str(answer.get("said", ""))
    match answer.get("result"):
        case "passed":
            return ctx.clock.now()
        case "postponed":
            raise Postponed(said)
        case "untried":
            raise ZbackupError(said)
    raise VerificationFailed(said or "the helper gave no reason")
