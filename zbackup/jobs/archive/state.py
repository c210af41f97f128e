"""Remember what is known of each log archive without asking there: written down after each look, gone at a
reboot."""

import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, TypeAdapter

from zbackup.jobs.archive.archive import Round
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model import bounds
from zbackup.model.errors import Refused
from zbackup.model.json_fields import Moment, to_rows
from zbackup.proc import secure_files
from zbackup.proc.run_directory import prepare

MOST_SAID = 2000
MOST_FILE = 16 << 10

Clause = Annotated[str, AfterValidator(partial(bounds.plain, most=MOST_SAID))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveState:
    """The state of a destination's log archive when it was looked at last.

    Everything acknowledged before `archived` is there (None: not known since the machine was started), and
    `end` is where the archive ends, FILE:OFFSET. `tried` is when it was tried last, and `error` why that
    failed; "" if it did not, and `failing` since when every look failed. `gap` is a clause of the last look
    that had one, and `stranded` one on why what is archived cannot be restored from there.
    """

    destination: str
    every: float
    tried: Moment
    archived: Moment | None = None
    end: Annotated[str, AfterValidator(partial(bounds.plain, most=400))] = ""
    error: Clause = ""
    gap: Clause = ""
    stranded: Clause = ""
    failing: Moment | None = None

    def exposed(self, now: datetime) -> timedelta | None:
        """Return how much would be lost with the host, at most; None where that is not known: it was not
        archived since the machine was started, or the clock says that it was later than now."""
        return now - self.archived if self.archived and self.archived <= now else None


_STATE = TypeAdapter(ArchiveState)


def after_round(
    before: ArchiveState | None, destination: ShipDestination, every: float, done: Round
) -> ArchiveState:
    """Return the state when a look came to its end."""
    end = done.end.end if done.end else ""
    gap = done.gap or (before.gap if before else "")
    return ArchiveState(
        destination=destination.name,
        every=every,
        tried=done.looked,
        archived=done.looked,
        end=end,
        gap=gap,
        stranded=done.stranded[:MOST_SAID],
    )


def after_failure(
    before: ArchiveState | None, destination: ShipDestination, every: float, now: datetime, error: Exception
) -> ArchiveState:
    """Return the state when a look failed."""
    said = " ".join(str(error).split())[:MOST_SAID]
    return ArchiveState(
        destination=destination.name,
        every=every,
        tried=now,
        archived=before.archived if before else None,
        end=before.end if before else "",
        gap=before.gap if before else "",
        stranded=before.stranded if before else "",
        error=said or type(error).__name__,
        failing=(before.failing if before else None) or now,
    )


def write_state(ctx: Context, state: ArchiveState) -> None:
    """Write it down for who asks. Raise nothing: the archive does not depend on it."""
    # A daemon of the version before reads it, too, where it can: it knows nothing of that.
    unsaid = {"destination"} | {name for name in ("failing", "stranded") if not getattr(state, name)}
    text = json.dumps(to_rows(_STATE, state, without=unsaid))
    with suppress(OSError, Refused):
        prepare(ctx.shared)
        secure_files.replace(_file(ctx, state.destination), text)


def archive_states(ctx: Context, now: datetime) -> tuple[ArchiveState, ...]:
    """Return the states of the archives that are configured, one of which nothing is known as never
    archived."""
    return tuple(known_state(ctx, to, now) for to in (ctx.archive.to if ctx.archive else ()))


def known_state(ctx: Context, destination: str, now: datetime | None = None) -> ArchiveState:
    """The same of one."""
    every = ctx.archive.every if ctx.archive else 0.0
    never = ArchiveState(destination=destination, every=every, tried=now or ctx.clock.now())
    return read_state(ctx, destination) or never


def read_state(ctx: Context, destination: str) -> ArchiveState | None:
    """Return what was written down of one; None where that is nothing, or cannot be read."""
    try:
        text = secure_files.read_bytes(_file(ctx, destination), MOST_FILE).decode()
        row = bounds.from_json(text)
        if not isinstance(row, dict):
            return None
        return _STATE.validate_python(row | {"destination": destination})
    except (OSError, Refused, ValueError):
        return None


def _file(ctx: Context, destination: str) -> Path:
    # No instance's lock can be called so: a name has no dot.
    return ctx.shared / f"{ctx.instance}.archive.{destination}.json"
