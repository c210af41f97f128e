"""Fetch from a destination what a recovery needs, and go on after a cut.

<clones>/<name>.copy       its description: whose it is, and the guids of the snapshots it is to hold
<clones>/<name>.copy/0..   the members, received read-only, each with the base's snapshot and the log's
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from zbackup.catalog.local import Catalog
from zbackup.destinations.base import Session
from zbackup.destinations.copies import StreamStep
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.fetched_datasets import FETCHED, fetched_guids
from zbackup.jobs.context import Context
from zbackup.model.backup import Backup
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.drr_begin import RECORD
from zbackup.model.errors import CommandFailed, NotResumable, Refused, StreamRefused, VerificationFailed
from zbackup.model.event_log import log
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.plan.clones.clone_name import copy_name
from zbackup.plan.ship.accept_stream import require_copy, require_receivable
from zbackup.proc.pipeline import Command, Head, Meter
from zbackup.zfs.streams import ZfsStreams, failure_of, receive_argv


@dataclass(frozen=True, slots=True)
class _Arriving:
    """A stream on its way, and the dataset it goes to."""

    step: StreamStep
    part: str


def fetch(ctx: Context, session: Session, name: str, base: Backup, source: Backup, limit: int) -> Catalog:
    """Have both backups here, for the recovery `name`; what an earlier run has fetched is used.

    Returns them as a catalogue of their own. Raise Refused when an encrypted one cannot be opened here,
    VerificationFailed when something else arrived; CommandFailed or ConnectionFailed, and what is there
    by then is kept. `limit` is in bytes a second, 0 for none.
    """
    container = f"{ctx.clones}/{copy_name(name)}"
    streams = _arriving(session, container, base, source)
    clone = _prepare(ctx, name, base, {str(a.step.copy.guid) for a in streams})
    for number, arriving in enumerate(streams, 1):
        ctx.progress.phase(f"fetching {arriving.step.copy}", f"stream {number} of {len(streams)}")
        _receive(ctx, session, clone, arriving, limit)
    parts = mounted(ctx, container, len(base.snapshots))
    backups = [_here(ctx, backup, parts) for backup in (base, *((source,) if source is not base else ()))]
    clone_datasets.mark_ready(ctx, clone)
    return of_parts(ctx, parts, backups)


def of_parts(ctx: Context, parts: Sequence[Dataset], backups: Iterable[Backup]) -> Catalog:
    """These backups alone. The original's datasets, if it is on this host, are none that a server may see."""
    return Catalog(tuple(parts), tuple(backups), (), former=ctx.members())


def sizes(session: Session, base: Backup, source: Backup) -> int:
    """Bytes that would be fetched, by the destination's estimate."""
    return sum(session.size(a.step) for a in _arriving(session, "", base, source))


def _prepare(ctx: Context, name: str, base: Backup, wanted: set[str]) -> Clone:
    """The copy's own dataset, new or from an earlier run that wanted the same: snapshots of these guids."""
    if found := clone_datasets.find_clone(ctx, copy_name(name)):
        clone, dataset = found
        if fetched_guids(ctx, dataset.name) == wanted:
            ctx.progress.note(f"continuing with what was fetched into {dataset.name}")
            ctx.zfs.mount(dataset.name)  # after a reboot it is not
            return clone
        ctx.progress.note(f"{dataset.name} holds other backups than are needed now, and is removed")
        clone_datasets.destroy(ctx, clone, dataset)
    return announced(ctx, name, base, {FETCHED: json.dumps(sorted(wanted))})


def announced(ctx: Context, name: str, base: Backup, properties: Mapping[str, str]) -> Clone:
    """A new copy for the recovery `name`, with nothing in it yet. Raise Taken when the name is another's."""
    clone = Clone(
        id=clone_datasets.new_id(),
        name=copy_name(name),
        instance=ctx.instance,
        engine=base.record.engine,
        kind="copy",
        state="building",
        created=ctx.clock.now(),
        backup=base.name,
    )
    return announce(ctx, clone, properties=properties)


def _arriving(session: Session, container: str, base: Backup, source: Backup) -> list[_Arriving]:
    """The streams by their numbers, those of the base first: its members are 0, 1 and so on.

    Where a dataset's streams begin again, because none leads on from the base, what follows gets a dataset
    of its own behind them.
    """
    wanted: dict[str, list[Snapshot]] = {}
    for backup in (base, *((source,) if source is not base else ())):
        for snapshot in backup.snapshots:
            wanted.setdefault(snapshot.dataset, []).append(snapshot)
    found: list[_Arriving] = []
    more = count(len(wanted))
    for number, copies in enumerate(wanted.values()):
        part = number
        for nth, step in enumerate(session.stream_steps(copies)):
            if nth and step.base is None:
                part = next(more)
            found.append(_Arriving(step, f"{container}/{part}"))
    return found


def _receive(ctx: Context, session: Session, clone: Clone, arriving: _Arriving, limit: int) -> None:
    step, copy, part = arriving.step, arriving.step.copy, arriving.part
    if _is_here(ctx, part, copy):
        return
    streams = ZfsStreams(ctx.zfs.runner)
    total = session.size(step)
    meter = Meter(limit=limit, moved=lambda n: ctx.progress.advance(n, max(n, total)))
    argv = receive_argv(part, {clone_datasets.PART: clone.id})
    base = step.base.guid if step.base else None
    receiver = Command(
        argv=argv,
        failure=lambda status, said: failure_of(argv, status, said),
        head=Head(RECORD, lambda head: _require_stream(ctx, head, part, copy, base)),
    )
    token, problem = streams.partial(part), ""
    try:
        session.fetch(step, token, receiver, meter)
    except (NotResumable, StreamRefused) as failure:
        if not token or streams.partial(part) != token:
            raise
        problem = str(failure)
    if problem:  # Not sooner: what is to be forgotten of the failure holds a stream's buffers.
        ctx.progress.note(f"{copy} is fetched from its beginning: {problem}")
        streams.abort(part)
        session.fetch(step, "", receiver, meter)
    if not _is_here(ctx, part, copy):
        raise VerificationFailed(f"what arrived in {part} is not {copy} (guid {copy.guid})")
    log.info("fetch.received", snapshot=str(copy), dataset=part)


def _require_stream(ctx: Context, head: bytes, part: str, copy: Snapshot, base: int | None) -> None:
    require_copy(head, copy.guid, base, str(copy))
    container = part.rpartition("/")[0]
    if ctx.zfs.values(container, "encryption") != ("off",):
        require_receivable(head, str(copy), container)


def _is_here(ctx: Context, part: str, copy: Snapshot) -> bool:
    found = ctx.zfs.snapshot_named(f"{part}@{copy.name}")
    return found is not None and found.guid == copy.guid


def mounted(ctx: Context, container: str, members: int) -> tuple[Dataset, ...]:
    """What is below the container, `members` at least, mounted. Raise Refused for want of a key."""
    found = [d for d in ctx.zfs.filesystems(container) if d.name != container]
    if len(found) < members:
        raise VerificationFailed(f"only {len(found)} of {members} datasets arrived in {container}")
    shut = []
    for dataset in found:
        try:
            ctx.zfs.mount(dataset.name)
        except CommandFailed as failure:
            if "key" not in failure.stderr:
                raise
            shut.append(dataset.name)
    if shut:
        orders = " && ".join(command_line("zfs", "load-key", name) for name in shut)
        raise Refused(
            f"{', '.join(shut)}: encrypted, and the key is not loaded. Load the key that the copy has at the "
            f"destination, then run the same command again:\n{orders}"
        )
    return tuple(d for d in ctx.zfs.filesystems(container) if d.name != container)


def _here(ctx: Context, backup: Backup, parts: Sequence[Dataset]) -> Backup:
    """The same backup, of the snapshots that were fetched."""
    local = {s.guid: s for part in parts for s in ctx.zfs.snapshots(part.name)}
    return Backup(record=backup.record, snapshots=tuple(local[s.guid] for s in backup.snapshots))
