"""Tell which moments can be restored, and where the gaps are and why: from what was recorded. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup, FinishedBackup, finished
from zbackup.model.log import position_of
from zbackup.model.moment import local_text
from zbackup.model.silence import Silence
from zbackup.model.unreplayable import Unreplayable
from zbackup.plan.recovery.coverage import Coverage, first_behind, log_known, silences_behind

MOST_HOLES = 3
"""Gaps that are told in a sentence; of more only how many there are."""

Cause = Literal[
    "purged", "reset", "not whole", "no replay", "silent", "other server", "switch", "damaged", "unknown"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The moments that can be reached: after `start`, up to `end` (None: up to now, from the live log).

    There are `gaps`, of which `holes` (after, up to) are in between. `unseen`: the live log was not looked
    at, and may lead further.
    """

    start: datetime
    end: datetime | None
    gaps: int = 0
    unseen: bool = False
    holes: tuple[tuple[datetime, datetime], ...] = ()

    def describe(self, zone: ZoneInfo, sep: str = ",") -> str:
        end = local_text(self.end, zone) if self.end else "now"
        end += " and as far on as the server's own log leads" if self.unseen else ""
        return f"after {local_text(self.start, zone)}{sep} up to {end}{self._exceptions(zone)}"

    def _exceptions(self, zone: ZoneInfo) -> str:
        """What is not in it, to be said behind its ends; "" for nothing."""
        if not self.holes:
            return ""
        if len(self.holes) > MOST_HOLES:
            return f", except in {len(self.holes)} gaps"
        said = (f"after {local_text(after, zone)} up to {local_text(to, zone)}" for after, to in self.holes)
        return f", except {' and '.join(said)}"


@dataclass(frozen=True, slots=True)
class LiveLog:
    """The server's own log at the time of the look: of which log it is ("": none that a backup holds), where
    it begins, and what keeps it from being read behind the newest backup ("": nothing that was seen).
    `stops`: what is behind that and cannot be replayed. `broken`: why it may hold two histories, a clause.
    `silent`: of which time behind the newest backup it does not show what was committed."""

    log_id: str
    first: str
    damage: str = ""
    stops: tuple[Unreplayable, ...] = ()
    broken: str = ""
    silent: Silence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """Every moment after `after` and up to `to` can be restored. `live`: the end of it from the live log."""

    after: datetime
    to: datetime
    live: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """No moment after `after` and up to `to` can be restored.

    `older` is the last that leads up to it, `newer` the first behind it ("": the live log); `why` says what
    became of the log between them.
    """

    after: datetime
    to: datetime
    cause: Cause
    older: str
    newer: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryWindow:
    """All ranges and the gaps between them, oldest first. `saw_live_log`: of that, too."""

    ranges: tuple[Range, ...]
    gaps: tuple[Gap, ...]
    saw_live_log: bool

    @property
    def overall(self) -> Window | None:
        """From the first moment to the last; None when nothing can be restored."""
        if not self.ranges:
            return None
        last = self.ranges[-1]
        end = None if last.live else last.to
        holes = tuple((gap.after, gap.to) for gap in self.gaps if gap.after < last.after)
        return Window(
            start=self.ranges[0].after,
            end=end,
            gaps=len(self.gaps),
            unseen=not self.saw_live_log,
            holes=holes,
        )

    def lacking(self, start: datetime, now: datetime) -> tuple[tuple[datetime, datetime], ...]:
        """What of a promise to reach every moment after `start` is not kept: pairs of after and up to.

        Without a look at the live log the promise is taken to end where the last range does.
        """
        end = now if self.saw_live_log or not self.ranges else self.ranges[-1].to
        found, reached = [], start
        for each in self.ranges:
            found.append((reached, min(each.after, end)))
            reached = max(reached, each.to)
        found.append((reached, end))
        return tuple((after, to) for after, to in found if after < to)


def usable_bases(backups: Sequence[Backup]) -> list[Backup]:
    """The backups that can be opened: complete, finished, and taken from a server that was asked."""
    return [b for b in backups if b.complete and b.finished and b.record.purpose == "base"]


def moment_bases(backups: Sequence[Backup]) -> list[Backup]:
    """The usable ones that a log leads on from: the others are restored as they are only."""
    return [b for b in usable_bases(backups) if not b.record.blockers]


@dataclass(frozen=True, slots=True)
class _Piece:
    """The range that one base reaches, and the holder of the log that leads to its end."""

    after: datetime
    to: datetime
    base: Backup
    holder: Backup
    live: bool
    broken: Backup | None
    """The first behind the base at which its log was not whole."""
    stop: Unreplayable | None = None
    """The first behind the base that cannot be replayed."""
    silent: Silence | None = None
    """Why it ends where it does, if that is why."""


def recovery_window(backups: Sequence[Backup], live: LiveLog | None, now: datetime) -> RecoveryWindow:
    """What can be reached with these backups, and with the live log if it was looked at."""
    coverage = Coverage(finished(backups))
    pieces = sorted(
        (
            part
            for base in finished(moment_bases(backups))
            for part in _parts(_piece(base, coverage, live, now), backups, live)
        ),
        key=lambda p: (p.after, p.base.createtxg),
    )
    ranges: list[Range] = []
    gaps: list[Gap] = []
    farthest: _Piece | None = None
    for piece in pieces:
        if farthest is not None and farthest.holder is piece.base and piece.to == piece.after:
            continue  # A moment behind the end of its own log: others go on from there only if this one does.
        if farthest is None or piece.after > farthest.to:
            if farthest is not None:
                gaps.append(_gap(farthest, piece.after, piece.base))
            ranges.append(Range(after=piece.after, to=piece.to, live=piece.live))
            farthest = piece
        elif piece.to > farthest.to or (piece.live and not farthest.live):
            ranges[-1] = Range(after=ranges[-1].after, to=piece.to, live=piece.live)
            farthest = piece
    if farthest is not None and live is not None and not farthest.live and farthest.to < now:
        gaps.append(_tail(farthest, live, now))
    return RecoveryWindow(ranges=tuple(ranges), gaps=tuple(gaps), saw_live_log=live is not None)


def _piece(base: FinishedBackup, coverage: Coverage, live: LiveLog | None, now: datetime) -> _Piece:
    backup, record = base.backup, base.backup.record
    found = coverage.reached(backup)
    to, holder = (found.end, found.holder) if found else (base.complete_to, backup)
    broken = coverage.first_break(backup)
    continued = (
        live is not None
        and not live.damage
        and broken is None
        and found is not None
        and live.log_id == record.log_id
        and position_of(live.first) <= position_of(record.log_to)
    )
    # A base's moment may be known less exactly than its log's end, and be behind it.
    to = max(to, base.as_of, now) if continued else max(to, base.as_of)
    stop = coverage.first_stop(backup) or (first_behind(backup, live.stops) if live and continued else None)
    if stop and stop.transaction.committed < to:
        return _Piece(
            base.as_of, max(stop.transaction.committed, base.as_of), backup, holder, False, None, stop
        )
    return _Piece(base.as_of, to, backup, holder, continued, broken)


def _parts(piece: _Piece, backups: Sequence[Backup], live: LiveLog | None) -> list[_Piece]:
    """The same without what lies in a silence of the log."""
    silences = list(silences_behind(piece.base, backups))
    if piece.live and live and live.silent:
        silences.append(live.silent)
    parts = [piece]
    for silent in sorted(set(silences), key=lambda s: s.after):
        last = parts[-1]
        if silent.to <= last.after or silent.after >= last.to:
            continue
        first = replace(last, to=max(last.after, silent.after), live=False, stop=None, silent=silent)
        rest = [replace(last, after=silent.to)] if silent.to < last.to else []
        parts[-1:] = [first, *rest]
    return parts


def _gap(before: _Piece, to: datetime, newer: Backup) -> Gap:
    record = newer.record
    if before.silent:
        older = before.base.name
        return Gap(
            after=before.to, to=to, cause="silent", older=older, newer=newer.name, why=before.silent.told
        )
    if before.stop:
        why = _unreplayable(before.stop)
        older = before.base.name
        return Gap(after=before.to, to=to, cause="no replay", older=older, newer=newer.name, why=why)
    if stopped := before.holder.record.stopped_for:
        why = f"the server was stopped for the {stopped}, and {newer.name} is the first backup since"
        return Gap(
            after=before.to, to=to, cause="switch", older=before.holder.name, newer=newer.name, why=why
        )
    if before.broken and before.broken.createtxg > newer.createtxg:
        before = replace(before, broken=None)
    cause, why = _cause(before, record.log_id, record.log_from, f"{newer.name} holds", record.server_uuid)
    return Gap(after=before.to, to=to, cause=cause, older=before.holder.name, newer=newer.name, why=why)


def _unreplayable(stop: Unreplayable) -> str:
    return f"{stop.named} cannot be replayed: {stop.why}"


def _tail(before: _Piece, live: LiveLog, now: datetime) -> Gap:
    if before.silent:
        why, older = before.silent.told, before.base.name
        return Gap(after=before.to, to=now, cause="silent", older=older, newer="", why=why)
    if before.stop:
        why = f"{_unreplayable(before.stop)}, and there is no backup behind it yet: zbackup snapshot"
        return Gap(after=before.to, to=now, cause="no replay", older=before.base.name, newer="", why=why)
    uuid = before.holder.record.server_uuid
    if live.broken and before.broken is None:
        why = f"{live.broken}; take a new backup: zbackup snapshot"
        return Gap(after=before.to, to=now, cause="not whole", older=before.holder.name, newer="", why=why)
    if live.damage and before.broken is None and live.log_id == before.holder.record.log_id:
        why = f"the server's log is damaged: {live.damage}"
        return Gap(after=before.to, to=now, cause="damaged", older=before.holder.name, newer="", why=why)
    cause, why = _cause(before, live.log_id or "none", live.first, "the server has", uuid)
    return Gap(after=before.to, to=now, cause=cause, older=before.holder.name, newer="", why=why)


def _cause(before: _Piece, log_id: str, first: str, who: str, server_uuid: str) -> tuple[Cause, str]:
    """Return why the log that begins at `first`, which `who` "holds" or "has", does not lead on from a
    base."""
    record = before.holder.record
    if broken := before.broken:
        return "not whole", broken.log_break
    if not log_known(record) or not log_id:
        return "unknown", f"which log {'it' if log_id else who.removesuffix(' holds')} holds was not recorded"
    if record.server_uuid != server_uuid:
        return "other server", f"{who} the log of another server: {server_uuid}, not {record.server_uuid}"
    # Of the same log, and yet not enough for the base: then only what the base needs of it is gone.
    end = before.base.record.log_to if log_id == record.log_id else record.log_to
    if position_of(first) > position_of(end):
        return "purged", f"the log behind {end} was purged: {who} it from {first} on"
    if log_id == record.log_id:
        return "purged", f"the log behind {end} was purged where no snapshot holds it"
    return "reset", f"the log that ended at {end} was reset, rolled back or replaced: {who} another one"
