"""Keep what has to stay so that no moment of the promised window gets out of reach. Pure.

Only snapshots count as holders of the log, not the live server: what it holds today it may purge tomorrow.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from zbackup.model.backup import Backup, FinishedBackup, finished
from zbackup.model.log import position_of
from zbackup.plan.recovery.coverage import Coverage, Reached, continues, log_known

Kept = tuple[Backup, str]


def keep_for_window(
    bases: Sequence[Backup],
    holders: Sequence[Backup],
    start: datetime,
    preferred: Callable[[Backup], bool],
    names: tuple[str, Callable[[datetime], str]],
) -> Iterator[Kept]:
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
            yield best.base, f"{rule} the {called} window"
            if best.holder is not best.base:
                yield best.holder, f"log for the window up to {say(reached)}"
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


def _saying_where_replays_end(coverage: Coverage, bases: Sequence[Backup]) -> Iterator[Kept]:
    """Without them a base would seem to lead across what ends a replay, and the next to be superfluous."""
    found = {h.createtxg: h for base in bases if (stopped := coverage.stopped_by(base)) for h in stopped[1:]}
    yield from ((holder, "says what cannot be replayed behind an older base") for holder in found.values())


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


def _unknown(holders: Sequence[Backup], start: datetime) -> Iterator[Kept]:
    """Keep those that do not say which log they hold: all in the window, and one before."""
    unknown = [h for h in holders if not log_known(h.record)]
    before = [h for h in unknown if h.record.taken <= start and h.record.purpose == "base"]
    why = "may be needed for the window: what log it holds is not recorded"
    yield from ((h, why) for h in unknown if h.record.taken > start)
    if before:
        yield max(before, key=lambda h: h.createtxg), why
