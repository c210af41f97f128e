"""Decide which backups stay, each with its reasons, and which go. Pure.

A backup goes only when no rule wants it. Nothing here looks at names: identity is the record's.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup, FinishedBackup, finished
from zbackup.model.clock_reading import Reading
from zbackup.model.log import position_of
from zbackup.model.moment import local_text
from zbackup.model.retention import CONDEMNED, Reason, Retention
from zbackup.plan.calendar import back
from zbackup.plan.recovery.clocks import certain_now, doubts, turned_back
from zbackup.plan.recovery.coverage import Coverage, Reached, continues, log_known
from zbackup.plan.retention.rules import DATED, Claim, Scene, claims, edge_of


def keep_for_window(
    bases: Sequence[Backup],
    holders: Sequence[Backup],
    start: datetime,
    preferred: Callable[[Backup], bool],
    names: tuple[str, Callable[[datetime], str]],
) -> Iterator[Claim]:
    """The bases and log holders that reach everything after `start` which all of them together reach.

    From what is reached so far, the base that leads farthest is taken, of equals a `preferred` one, then the
    one with the least to replay. What is chosen stays the choice when anything else is gone, so a second
    look, or one after half of the others were destroyed, keeps the same. `names` are what to call the window,
    and how to write a moment.
    """
    called, say = names
    yield from _unknown(holders, start)
    coverage = _coverage(holders, start)
    yield from _saying_where_replays_end(coverage, bases)
    choices = [_Choice(b, r, preferred(b.backup)) for b, r in _leading_beyond(start, bases, coverage)]
    waiting = sorted(choices, key=lambda c: c.as_of, reverse=True)
    reached, rule = start, "oldest base of"
    while waiting:
        reached = max(reached, waiting[-1].as_of)
        within = []
        while waiting and waiting[-1].as_of <= reached:
            within.append(waiting.pop())
        best = max(within, key=lambda c: c.rank)
        if best.end > reached:
            reached = best.end
            yield best.base, Reason(f"{rule} the {called} window")
            if best.holder is not best.base:
                yield best.holder, Reason("log for the window up to", say(reached))
            rule = "base for"


def _coverage(holders: Sequence[Backup], start: datetime) -> Coverage:
    return Coverage(
        [
            h
            for h in finished(holders)
            if h.complete_to > start
            or h.backup.record.breaks_log
            or h.backup.record.log_ended
            or h.backup.record.unreplayable
        ]
    )


def _saying_where_replays_end(coverage: Coverage, bases: Sequence[Backup]) -> Iterator[Claim]:
    """Without them a base would seem to lead across what ends a replay, and the next to be superfluous."""
    found = {h.createtxg: h for base in bases if (stopped := coverage.stopped_by(base)) for h in stopped[1:]}
    why = Reason("says what cannot be replayed behind an older base")
    yield from ((holder, why) for holder in found.values())


def _leading_beyond(
    start: datetime, bases: Sequence[Backup], coverage: Coverage
) -> Iterator[tuple[FinishedBackup, Reached]]:
    """The bases that lead anywhere behind `start`, and how far. `bases` are in order of creation.

    Of one log an older base never leads farther than a newer one, so most need not be looked at.
    """
    exhausted = set()
    for base in reversed(finished(bases)):
        log = base.backup.record.log_id
        if log in exhausted:
            continue
        if found := coverage.reached(base.backup):
            yield base, _up_to_stop(base.backup, found, coverage)
        elif base.complete_to <= start:
            exhausted.add(log)


def _up_to_stop(base: Backup, found: Reached, coverage: Coverage) -> Reached:
    """No farther than to what cannot be replayed, which is in the log of the backup that says so.

    Whether a holder has it, its position tells: by a clock that went back it looks older than it is.
    """
    stopped = coverage.stopped_by(base)
    if stopped is None or stopped[0].transaction.committed >= found.end:
        return found
    stop, says = stopped
    if position_of(stop.transaction.start) >= position_of(found.holder.record.log_to):
        return found
    return Reached(end=stop.transaction.committed, holder=says if continues(says, base) else found.holder)


class _Choice:
    """A base, and how far it leads."""

    def __init__(self, base: FinishedBackup, reached: Reached, preferred: bool) -> None:
        self.base, self.holder = base.backup, reached.holder
        self.as_of, self.end = base.as_of, reached.end
        self.rank = (self.end, preferred, self.as_of, base.backup.createtxg, base.backup.record.backup)


def _unknown(holders: Sequence[Backup], start: datetime) -> Iterator[Claim]:
    """Keep those that do not say which log they hold: all in the window, and one before."""
    unknown = [h for h in holders if not log_known(h.record)]
    before = [h for h in unknown if h.record.taken <= start and h.record.purpose == "base"]
    why = Reason("may be needed for the window: what log it holds is not recorded")
    yield from ((h, why) for h in unknown if h.record.taken > start)
    if before:
        yield max(before, key=lambda h: h.createtxg), why


@dataclass(frozen=True, slots=True)
class KeptBackup:
    """A backup that stays, and every reason why."""

    backup: Backup
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """`destroy` is what goes, oldest first, remains of what a prune that was cut short began to destroy among
    it. `keep` is everything else, oldest first. `note` says why ages are not counted up to now, or is ""."""

    keep: tuple[KeptBackup, ...]
    destroy: tuple[Backup, ...]
    note: str = ""


def plan_retention(
    backups: Sequence[Backup],
    policy: Retention,
    now: datetime,
    zone: ZoneInfo,
    pinned: Mapping[str, Sequence[str]],
    reading: Reading | None = None,
) -> RetentionPlan:
    """Plan what to do with an instance's backups, given in any order.

    `reading` is what else is known of `now`; without it `now` is believed. `pinned` has, by
    Record.backup, why something outside of the policy needs a backup: a hold, a clone, a destination's base.
    An empty policy keeps everything.
    """
    ordered = sorted(backups, key=lambda b: (b.createtxg, b.record.backup))
    reasons = _Reasons(pinned)
    if policy.empty:
        reasons.add((b, Reason("there is no retention policy")) for b in ordered)
        return RetentionPlan(tuple(KeptBackup(b, tuple(reasons.of(b))) for b in ordered), ())
    condemned = {b.record.backup for b in ordered if not b.complete and _is_condemned(b)}
    sound = [b for b in ordered if b.record.backup not in condemned and reasons.is_sound(b)]
    note = ""
    if reading is not None:
        now, note = certain_now(ordered, now, reading, lambda at: _text(at, zone))
    _keep(sound, reasons, policy, now, zone)
    found = [(b, tuple(reasons.of(b))) for b in ordered]
    keep = tuple(KeptBackup(b, why) for b, why in found if why)
    return RetentionPlan(keep, tuple(b for b, why in found if not why), note)


def _text(moment: datetime, zone: ZoneInfo) -> str:
    return local_text(moment.replace(microsecond=0), zone)


class _Reasons:
    """The reasons why backups are kept, by their identity."""

    def __init__(self, pinned: Mapping[str, Sequence[str]]) -> None:
        self._found: dict[str, list[Reason]] = defaultdict(list)
        for backup, why in pinned.items():
            self._found[backup].extend(Reason(text) for text in why)

    def add(self, kept: Iterable[Claim]) -> None:
        for backup, why in kept:
            if why not in self._found[backup.record.backup]:
                self._found[backup.record.backup].append(why)

    def of(self, backup: Backup) -> Sequence[Reason]:
        return self._found.get(backup.record.backup, ())

    def is_sound(self, backup: Backup) -> bool:
        """Whether the policy may decide on it; if not it stays, and this says why."""
        if problem := _problem(backup):
            self.add([(backup, Reason(problem))])
        return not problem


def _problem(backup: Backup) -> str:
    members = {dataset for dataset, _ in backup.record.members}
    if elsewhere := [s.dataset for s in backup.snapshots if s.dataset not in members]:
        return f"{elsewhere[0]} is not the dataset it was taken of"
    if not backup.complete:
        there = {s.dataset for s in backup.snapshots}
        missing = ", ".join(sorted(members - there))
        return f"incomplete, and not by a prune: the snapshot of {missing} is missing"
    return "" if backup.finished else "not finished yet: the next zbackup snapshot does that"


def _is_condemned(backup: Backup) -> bool:
    members = {dataset for dataset, _ in backup.record.members}
    return all(s.dataset in members for s in backup.snapshots) and any(
        key == CONDEMNED for s in backup.snapshots for key, _ in s.properties
    )


def _keep(
    sound: Sequence[Backup], reasons: _Reasons, policy: Retention, now: datetime, zone: ZoneInfo
) -> None:
    bases = [b for b in sound if b.record.purpose == "base"]
    edges = [edge_of(tier, now, zone) for tier in policy.tiers]
    scene = Scene((), bases, sound, policy, now, zone)
    doubted = doubts(sound, now, lambda at: all(edge is not None and at < edge for edge in edges), scene.text)
    reasons.add(doubted.kept)
    timed = [b for b in doubted.timed if b.record.purpose == "base"]
    reasons.add(claims(replace(scene, timed=timed)))
    # What is kept by its date alone is no part of what the policy promises: it is old, and goes at once.
    lacking = policy.minimum - sum(any(r.rule != DATED for r in reasons.of(b)) for b in bases)
    spare = [b for b in bases if not reasons.of(b)]
    least = Reason(f"at least {policy.minimum} backups are kept")
    reasons.add((b, least) for b in spare[-lacking:] if lacking > 0)
    start = back(now, policy.window, zone)
    reasons.add(turned_back(sound, start))
    wanted = {b.record.backup for b in bases if reasons.of(b)}
    called = f"{policy.window.count}-{policy.window.unit}"
    # No moment is reached from the others: they would be kept in place of those that lead to it.
    leading = [b for b in bases if not b.record.blockers]
    chosen = keep_for_window(leading, sound, start, lambda b: b.record.backup in wanted, (called, scene.text))
    reasons.add(list(chosen))
