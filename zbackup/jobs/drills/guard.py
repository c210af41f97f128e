"""Keep a drill from being in the way: one at a time on a host, and none where it is not wanted now."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from zbackup.catalog.local import read_clones
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import everywhere
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.errors import Postponed, VerificationFailed, ZbackupError
from zbackup.model.progress import Progress
from zbackup.plan.clones.clone_name import drill_names, recovery_of
from zbackup.proc.lock import exclusive, lock_owner
from zbackup.proc.memory import available
from zbackup.zfs.facts import ZfsFacts

POLL_S = 1.0
MEASURE_EVERY = 10
"""Polls between two looks at who else restores, which asks ZFS."""

LEAST_FREE = 0.05
"""The share of the pool that has to stay free. Less than what a drill may not fetch into: one that was let do
that is not ended for it."""


# A recovery runs up to two servers side by side, which need more than their caches.
SERVERS, BESIDE = 2, 256 * 1024**2


def never() -> str:
    """Nothing ends it."""
    return ""


@contextmanager
def one_at_a_time(ctx: Context, what: str, *, wait: float = 60) -> Iterator[None]:
    """No other drill runs on this host meanwhile, of whatever instance. Raise Taken, saying which does."""
    # No instance's lock can be called so: a name has no dot.
    with exclusive(ctx.shared / "zbackup.drill.lock", what, wait=wait, waiting=ctx.progress.note):
        yield


def restoring(ctx: Context) -> str:
    """Which restore or new clone is being made on this host now, other than a drill; "" for none."""
    for clone, _ in everywhere(ctx):
        maker = recovery_of(clone.name)
        if clone.state != "building" or maker in drill_names(clone.instance):
            continue
        if who := lock_owner(ctx.shared / f"clone-{maker}.lock"):
            return f"{who} makes {maker}"
    return ""


def is_drills(ctx: Context, clone: Clone) -> bool:
    """Whether a clone with a drill's name is one: of this instance, and never handed over to anybody."""
    mine = recovery_of(clone.name) in drill_names(ctx.instance)
    return mine and clone.instance == ctx.instance and clone.state == "building"


def room_short(ctx: Context) -> str:
    """Return why a drill must wait for room where its clone is; "" where there is enough. What it replays
    goes there, and production may lie on it."""
    pool = ZfsFacts(ctx.zfs.runner).pool(ctx.clones.partition("/")[0])
    if pool.free >= LEAST_FREE * pool.size:
        return ""
    return f"{pool.name} has {pool.free >> 20} MiB free, and a twentieth of the pool is to be left"


def memory_short(needed: int) -> str:
    """Return why a drill must wait for memory; "" where there is enough, or nobody says how much there is."""
    free = available()
    if free is None or free >= needed:
        return ""
    return f"{free >> 20} MiB of memory are available, and {needed >> 20} MiB are needed"


def memory_needed(ctx: Context) -> int:
    """Bytes that a drill of this instance's takes."""
    return SERVERS * ctx.recovery.memory + BESIDE


@dataclass(slots=True)
class DrillGuard:
    """Ends a drill that must not go on: `gives_way` says why it is to be tried later, and `limit` is after
    how many seconds it has taken too long (0: never).

    Its servers are killed, and whatever else it does ends with the next progress it reports.
    """

    gives_way: Callable[[], str] = never
    limit: float = 0.0
    _why: ZbackupError | None = field(default=None, init=False)

    @contextmanager
    def watching(self, ctx: Context) -> Iterator[Progress]:
        """Progress for the drill to report to. Raise why it was ended, whatever it failed with then."""
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ctx, done), name="drill", daemon=True)
        watcher.start()
        try:
            yield _Guarded(self, ctx.progress)
        except ZbackupError as failure:
            if self._why and failure is not self._why:
                raise self._why from failure
            raise
        finally:
            done.set()
            watcher.join()

    def require_wanted(self) -> None:
        """Raise what ended it."""
        if self._why:
            raise self._why

    def _watch(self, ctx: Context, done: threading.Event) -> None:
        seconds = 0.0
        while not done.wait(POLL_S):
            seconds += POLL_S
            if self._why is None:
                self._why = self._reason(seconds)
            if self._why:
                self._end_servers(ctx)

    def _reason(self, seconds: float) -> ZbackupError | None:
        if self.limit and seconds > self.limit:
            return VerificationFailed(f"it was not done within {self.limit:g} s (schedule.drill_limit)")
        why = self.gives_way()
        return Postponed(why) if why else None

    def _end_servers(self, ctx: Context) -> None:
        """End the drill's servers, so that what waits for one fails. Again and again: another may have been
        started."""
        with suppress(ZbackupError):
            for clone, _ in read_clones(ctx.zfs, ctx.clones).found:
                if is_drills(ctx, clone):
                    with suppress(ZbackupError, OSError):
                        clone_datasets.kill_server(ctx, clone.name)


@dataclass(frozen=True, slots=True)
class _Guarded:
    """Progress of a drill, which ends where it is not to go on."""

    guard: DrillGuard
    progress: Progress

    def phase(self, name: str, detail: str = "") -> None:
        """See Progress. Raise what ended the drill."""
        self.guard.require_wanted()
        self.progress.phase(name, detail)

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        """See Progress. Raise what ended the drill."""
        self.guard.require_wanted()
        self.progress.advance(done, total, unit)

    def note(self, text: str) -> None:
        """See Progress. What goes wrong while it is taken away is told to the end."""
        self.progress.note(text)
