"""Copy backups to a destination: look at both sides, plan, pin, send, commit, release.

The instance's own lock is held only while it is planned and pinned, for a stream may take hours and snapshots
are due meanwhile. What is being sent is held, and bookmarked: the bookmark stays when the snapshot is pruned,
and the next stream starts from it. A bookmark of a snapshot that never arrived does no harm, as the plan goes
by what the destination says it has.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from zbackup.destinations.base import Session
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.lag import write_down, write_down_commit, write_down_keys
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import Diverged, KeyElsewhere, Refused, Stopped, Taken, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.shipped import OtherKey
from zbackup.model.shipping import Inventory, Origin, SourceDataset, bookmark_name, bookmarked
from zbackup.model.snapshot import Snapshot
from zbackup.plan.ship.ship import (
    Abort,
    Commit,
    Divergence,
    KeyLocked,
    NeedsInitial,
    Send,
    ShipPlan,
    Steps,
    UpToDate,
    other_keys,
    plan_ship,
    target_of,
)
from zbackup.plan.ship.wanted import wanted
from zbackup.proc.lock import exclusive
from zbackup.proc.pipeline import Command, Meter
from zbackup.zfs.streams import ZfsStreams, failure_of, resume_argv, send_argv


def pin(
    ctx: Context,
    destination: ShipDestination,
    sources: Sequence[SourceDataset],
    inventory: Inventory,
    snapshots: Sequence[Snapshot],
) -> None:
    """Hold what is to be sent, and bookmark it, and what is there already if its bookmark is gone.

    Done before a byte is sent: from then on the snapshot may be pruned at any time after it has arrived.
    """
    for snapshot in snapshots:
        ctx.zfs.hold(destination.tag, snapshot)
    streams = ZfsStreams(ctx.zfs.runner)
    for dataset in sources:
        target = target_of(dataset, inventory)
        guids = {s.guid for s in snapshots} | set(target.bases if target else ())
        marked = {o.guid for o in _bookmarks(dataset, destination)}
        for guid in sorted(guids - marked):
            found = dataset.origin(guid)
            if found and "@" in found.name:
                streams.bookmark(found.name, f"{dataset.name}#{bookmark_name(destination.name, guid)}")


def release(
    ctx: Context,
    destination: ShipDestination,
    backups: Sequence[Backup],
    sources: Sequence[SourceDataset],
    inventory: Inventory,
) -> None:
    """Everything wanted has arrived: release the holds, and destroy the bookmarks that newer ones replace.

    A bookmark goes only when the target dataset's newest copy is known to the source by another.
    """
    streams = ZfsStreams(ctx.zfs.runner)
    for dataset in sources:
        target = target_of(dataset, inventory)
        bases = [guid for guid in (target.bases if target else ()) if dataset.origin(guid)]
        for origin in _bookmarks(dataset, destination) if bases else ():
            if origin.guid not in bases:
                streams.destroy_bookmark(origin.name)
    held = [s for b in backups for s in b.snapshots if s.holds]
    tags = ctx.zfs.holds(held)
    for snapshot in held:
        if destination.tag in tags.get(snapshot.guid, ()):
            ctx.zfs.release(destination.tag, snapshot)


def _bookmarks(dataset: SourceDataset, destination: ShipDestination) -> list[Origin]:
    """This destination's on the dataset."""
    named = [(o, bookmarked(o.name.partition("#")[2])) for o in dataset.origins]
    return [origin for origin, found in named if found and found[0] == destination.name]


def never() -> bool:
    """Nobody wants it to stop."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipPreview:
    """The plan of a shipment. `sizes` are estimates in bytes, for each Send of the plan."""

    destination: ShipDestination
    plan: ShipPlan
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """One stream that arrived: its bytes, and how long it took in seconds."""

    step: Send
    size: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipReport:
    """The report of a shipment. `newest` is the newest backup of the instance that is committed there now, if
    any."""

    destination: ShipDestination
    sent: tuple[Sent, ...] = ()
    committed: tuple[Backup, ...] = ()
    newest: Backup | None = None


@dataclass(frozen=True, slots=True)
class _Sides:
    """Both sides as they were looked at, and what follows."""

    backups: tuple[Backup, ...]
    sources: tuple[SourceDataset, ...]
    inventory: Inventory
    plan: ShipPlan


@dataclass(slots=True)
class _Shipped:
    sent: list[Sent] = field(default_factory=list)
    committed: list[Backup] = field(default_factory=list)


def preview(ctx: Context, destination: ShipDestination, *, initial: bool = False) -> ShipPreview:
    """Look at both sides and plan, and change nothing."""
    with destination_lock(ctx, destination), destination.adapter.connect() as session:
        plan = _both_sides(ctx, destination, session.inventory(), initial=initial).plan
    streams = ZfsStreams(ctx.zfs.runner)
    return ShipPreview(
        destination=destination, plan=plan, sizes=tuple(streams.size(_argv(s)) for s in _sends(plan))
    )


def ready(ctx: Context, destination: ShipDestination) -> str:
    """How it is with the destination, in words.

    Raise what ship() would raise before it sends anything.
    """
    try:
        found = preview(ctx, destination)
    except Taken:
        return "a run is under way"
    _require_plan(ctx, destination, found.plan)
    match found.plan:
        case UpToDate(newest):
            return f"up to date with {newest.name}" if newest else "there is no backup to ship yet"
        case _:
            sends = len(found.sizes)
            return f"{sends} stream{'s' * (sends != 1)} to be sent"


def ship(
    ctx: Context, destination: ShipDestination, *, initial: bool = False, stop: Callable[[], bool] = never
) -> ShipReport:
    """Bring the destination up to date. Cut off anywhere, the next run goes on.

    Raise Diverged, with what is on both sides, when no stream can go on from what is there; Refused when a
    full stream would be the first and nobody allowed it; Taken when another run ships to this destination;
    ConnectionFailed or CommandFailed (which says where) for what fails. `stop` cuts a stream.
    """
    with destination_lock(ctx, destination), destination.adapter.connect() as session:
        ctx.progress.phase("inspecting both sides", destination.adapter.address)
        inventory = session.inventory()
        with ctx.instance_lock(f"zbackup ship to {destination.name} (planning)"):
            sides = _both_sides(ctx, destination, inventory, initial=initial)
            newest = write_down(ctx, destination, sides.backups, inventory)
            if any(source.encrypted for source in sides.sources):
                write_down_keys(ctx, destination, other_keys(sides.sources, inventory))
            _require_plan(ctx, destination, sides.plan)
            pin(ctx, destination, sides.sources, inventory, [s.snapshot for s in _sends(sides.plan)])
        done = _Shipped()
        for step in sides.plan.steps if isinstance(sides.plan, Steps) else ():
            _act(ctx, destination, session, step, done, stop)
        if done.committed:
            sides = replace(sides, inventory=session.inventory())
            newest = write_down(ctx, destination, sides.backups, sides.inventory)
        _tidy(ctx, destination, sides, again=bool(_sends(sides.plan)))
    return ShipReport(
        destination=destination, sent=tuple(done.sent), committed=tuple(done.committed), newest=newest
    )


def ship_all(ctx: Context, stop: Callable[[], bool] = never) -> tuple[ShipReport, ...]:
    """Bring all of the instance's destinations up to date, one after the other.

    One that fails does not keep the others from their turn; the first failure is raised when all had theirs.
    Raise Stopped where `stop` cut a stream, or left some without their turn, and none failed.
    """
    reports = []
    failures: list[ZbackupError] = []
    for number, destination in enumerate(ctx.destinations):
        if number and stop():
            left = ", ".join(each.name for each in ctx.destinations[number:])
            why = f"zbackup was told to end before it shipped to {left}"
            failures.append(Stopped(("zbackup", "ship"), -1, why))
            break
        try:
            reports.append(ship(ctx, destination, stop=stop))
        except Stopped as cut:
            failures.append(cut)
            break
        except ZbackupError as failure:
            log.error(
                "ship.failed",
                destination=destination.name,
                error=type(failure).__name__,
                message=str(failure),
            )
            failures.append(failure)
    if failures:
        raise failures[0]
    return tuple(reports)


@contextmanager
def destination_lock(ctx: Context, destination: ShipDestination) -> Iterator[None]:
    """One run at a time for an instance and a destination; others of the instance may work meanwhile."""
    path = ctx.shared / f"{ctx.instance}.ship.{destination.name}.lock"
    with exclusive(path, "zbackup ship", wait=1):
        yield


def _both_sides(ctx: Context, destination: ShipDestination, inventory: Inventory, *, initial: bool) -> _Sides:
    catalog = ctx.catalog()
    names = {d.name for d in catalog.datasets}
    # What a switch set aside is no target dataset's future any more.
    own = tuple(b for b in catalog.backups if all(s.dataset in names for s in b.snapshots))
    sources = source_datasets(ctx, [d.name for d in catalog.datasets])
    streams = ZfsStreams(ctx.zfs.runner)
    begun = _begun(streams, sources, inventory)
    now = (ctx.clock.now(), ctx.zone)
    chosen = wanted(own, inventory, set(begun.values()), destination.retention, now)
    plan = plan_ship(chosen, sources, inventory, begun, initial=initial or destination.initial)
    return _Sides(catalog.backups, sources, inventory, plan)


def _begun(streams: ZfsStreams, sources: Sequence[SourceDataset], inventory: Inventory) -> dict[str, int]:
    """Map target datasets to the guid of the snapshot whose interrupted stream can be continued."""
    partials = {each.name: each.partial for each in inventory.datasets if each.partial}
    tokens = {name: streams.token(p.token) for name, p in partials.items() if p.token}
    # Without a token it is the whole stream that is sent again: all it takes is the snapshot.
    here = {o.guid for source in sources for o in source.origins if "@" in o.name}
    again = {name: p.guid for name, p in partials.items() if not p.token and p.guid in here}
    return {name: token.guid for name, token in tokens.items() if token} | {
        name: guid for name, guid in again.items() if guid is not None
    }


def _tidy(ctx: Context, destination: ShipDestination, sides: _Sides, *, again: bool) -> None:
    """`again`: what was sent has been pinned since the look."""
    backups, sources = sides.backups, sides.sources
    with ctx.instance_lock(f"zbackup ship to {destination.name} (releasing holds)"):
        if again:
            backups = ctx.catalog().backups
            sources = source_datasets(ctx, [d.name for d in sources])
        release(ctx, destination, backups, sources, sides.inventory)


def source_datasets(ctx: Context, names: Sequence[str] | None = None) -> tuple[SourceDataset, ...]:
    """Return the instance's datasets with these names (default: all), with the origins for streams."""
    wanted_names = [d.name for d in ctx.members()] if names is None else names
    return tuple(d for d in ZfsStreams(ctx.zfs.runner).sources(ctx.datasets) if d.name in wanted_names)


def _require_plan(ctx: Context, destination: ShipDestination, plan: ShipPlan) -> None:
    match plan:
        case Divergence():
            raise Diverged(diverged_text(ctx.instance, destination, plan))
        case OtherKey():
            raise KeyElsewhere(other_key_text(ctx.instance, destination, plan))
        case KeyLocked(dataset, root):
            raise Refused(locked_text(destination, dataset, root))
        case NeedsInitial(datasets):
            raise Refused(
                f"no copy of {', '.join(datasets)} is at {destination.adapter.address}, and a first one "
                f"sends all of it: "
                f"{command_line('zbackup', 'ship', ctx.instance, destination.name, '--initial')}"
            )


def diverged_text(instance: str, destination: ShipDestination, found: Divergence) -> str:
    """What is on each side, and what would go on without destroying anything."""
    here, there = ", ".join(found.here) or "no snapshot", ", ".join(found.there) or "no snapshot"
    return (
        f"{found.dataset} and its copy {instance}/{found.target} at {destination.adapter.address} have "
        f"diverged: {found.why}. Here: {here}. There: {there}. Nothing was changed. To continue and lose "
        f"neither, set the old copies aside ({destination.adapter.aside}) and start again: "
        f"{command_line('zbackup', 'ship', instance, destination.name, '--initial')}"
    )


def other_key_text(instance: str, destination: ShipDestination, found: OtherKey) -> str:
    """Return the message about a copy with a changed encryption root, with the command that repairs it."""
    send = command_line("zbackup", "ship", instance, destination.name, "--initial")
    again = f"{destination.adapter.aside}, then: {send}"
    begin = (
        f"{found.copy} at {destination.adapter.address} is no longer its own encryption root: zfs "
        f"change-key -i was run there, and the root is now {found.root}. "
    )
    if found.overwritten:
        return (
            f"{begin}A stream has arrived since and brought the key of {found.dataset}. Now neither key "
            f"opens it, and the copy cannot be read. Set the copies aside and send everything again: {again}"
        )
    own = f"zfs change-key -o keyformat=passphrase -o keylocation=prompt {command_line(found.copy)}"
    return (
        f"{begin}The next stream would bring the key of {found.dataset}, and then neither key would open it. "
        f"Nothing was sent. If a stream has arrived since the change, the copy cannot be read, and the "
        f"command below hangs or is refused: then {again}. Otherwise run it at the destination, with any "
        f"passphrase (the next stream replaces it):\n{own}"
    )


def locked_text(destination: ShipDestination, dataset: str, root: str) -> str:
    """Return the message about the key that must be loaded at the destination."""
    return (
        f"{dataset} is not encrypted, but its copy is below an encrypted dataset at "
        f"{destination.adapter.address}, and the key of that is not loaded. Nothing was sent. Load it "
        f"there:\n"
        f"zfs load-key {command_line(root)}"
    )


def _sends(plan: ShipPlan) -> Sequence[Send]:
    return [s for s in plan.steps if isinstance(s, Send)] if isinstance(plan, Steps) else []


def _act(
    ctx: Context,
    destination: ShipDestination,
    session: Session,
    step: Abort | Send | Commit,
    done: _Shipped,
    stop: Callable[[], bool],
) -> None:
    match step:
        case Abort(target, why):
            log.info("ship.aborted", dataset=target, why=why, destination=destination.name)
            session.abort(target)
        case Send():
            done.sent.append(_send(ctx, destination, session, step, stop))
        case Commit(backup, parts):
            session.commit(backup.record, parts, ctx.clock.now().isoformat())
            done.committed.append(backup)
            write_down_commit(ctx, destination, backup)
            log.info("ship.committed", snapshot=backup.name, destination=destination.name)


def _send(
    ctx: Context, destination: ShipDestination, session: Session, step: Send, stop: Callable[[], bool]
) -> Sent:
    argv = _argv(step)
    total = ZfsStreams(ctx.zfs.runner).size(argv)
    ctx.progress.phase(f"sending {step.snapshot} to {destination.name}")
    ctx.progress.advance(0, total)
    meter = Meter(limit=destination.limit, moved=lambda n: ctx.progress.advance(n, max(n, total)), stop=stop)
    sender = Command(argv=argv, failure=lambda status, said: failure_of(argv, status, said))
    began = ctx.clock.monotonic()
    size = session.store(step.part, sender, meter)
    seconds = ctx.clock.monotonic() - began
    log.info(
        "ship.sent",
        snapshot=str(step.snapshot),
        destination=destination.name,
        base=step.origin.name if step.origin else None,
        resumed=bool(step.token),
        bytes=size,
        seconds=round(seconds, 3),
    )
    return Sent(step, size, seconds)


def _argv(step: Send) -> tuple[str, ...]:
    if step.token:
        return resume_argv(step.token, raw=step.part.raw)
    return send_argv(str(step.snapshot), step.origin.name if step.origin else None, raw=step.part.raw)
