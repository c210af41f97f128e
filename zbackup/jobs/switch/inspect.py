"""Find out what a switch needs to know before anything is changed: clone, datasets, and what forbids it."""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path

from zbackup.catalog.switched import formerly, require_settled, switches
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.fetched_datasets import fetched_guids
from zbackup.jobs.clones.lifecycle import require_ready
from zbackup.jobs.context import Context
from zbackup.jobs.switch.steps import part_name
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, Refused
from zbackup.model.record import Record
from zbackup.model.recovery import OUTSIDE
from zbackup.model.server import ServerFacts
from zbackup.model.snapshot import Dataset
from zbackup.model.switch import Switch
from zbackup.plan.clones.clone_name import copy_name
from zbackup.plan.switch import CloneDataset, Member, plan_switch
from zbackup.proc import secure_files
from zbackup.proc.mounts import is_below
from zbackup.proc.open_files import processes_in, told

HALF_DONE = ("switching", "undoing")
MOST_NAMED = 5
"""Replicas that a message names."""


def find(ctx: Context, name: str) -> Clone:
    """Raise NotFound; or Refused, with what to do instead, for one on a destination's pool."""
    for each in ctx.everywhere():
        found = clone_datasets.find_clone(each, name)
        if found and found[0].instance == ctx.instance:
            if each.clones != ctx.clones:
                raise _bound_to_copies(ctx, found[0], each.clones)
            return found[0]
    raise NotFound(f"{ctx.instance} has no clone {name}: zbackup clone list")


def _bound_to_copies(ctx: Context, clone: Clone, address: str) -> Refused:
    """ZFS renames nothing across pools, and production must not depend on what lies at a destination."""
    pool = address.partition("/")[0]
    there = (t.name for t in ctx.destinations if t.adapter.here.partition("/")[0] == pool)
    source = next(there, "DESTINATION")
    again = command_line("zbackup", "restore", ctx.instance, "--from", source, "--to", clone.target)
    return Refused(
        f"{clone.name} runs on copies at a destination, on the pool {pool}, and cannot leave them: fetch "
        f"them ({again}), then switch to that"
    )


def clone_to_switch(ctx: Context, name: str) -> Clone:
    """The clone that is to be switched to, or is half switched to, or half switched back."""
    clone = find(ctx, name)
    if clone.state in HALF_DONE:
        return clone
    require_settled(switches(ctx.zfs, ctx.clones, ctx.instance))
    if clone.kind != "restore":
        raise Refused(
            f"{name} is a dev clone, with other accounts than production: recover one for this purpose "
            f"(zbackup restore --to ...)"
        )
    require_ready(clone)
    copy = clone_datasets.find_clone(ctx, copy_name(name))
    if copy and not fetched_guids(ctx, copy[1].name):
        raise _bound_to_copies(ctx, clone, ctx.clones)
    return clone


def require_unread(ctx: Context, guids: frozenset[int]) -> None:
    """Raise Refused while somebody is in these datasets' snapshots, as a restore is that reads its log there:
    what is mounted below a dataset keeps it from being unmounted. No restore begins under the instance's
    lock."""
    for each in ctx.zfs.filesystems(ctx.clones.partition("/")[0]):
        if each.guid in guids and each.mountpoint and (who := told(processes_in(f"{each.mountpoint}/.zfs"))):
            raise Refused(
                f"snapshots of {each.name} are being read, so that it cannot be unmounted: {who}. "
                f"Wait until that is done, or end it"
            )


def require_free_mountpoints(ctx: Context, clone: Clone, switch: Switch) -> None:
    """Raise Refused when something lies in the clone where another of its datasets is to be mounted.

    There they are mounted side by side, so that the server's user can put anything there. Those that are not
    mounted are not looked at: whatever lies there, nothing is mounted through it.
    """
    there = {d.guid: d.mountpoint for d in ctx.zfs.filesystems(f"{ctx.clones}/{clone.name}") if d.mountpoint}
    for each in switch.coming:
        around = [c for c in switch.coming if c.guid in there and _is_inside(each.mountpoint, c.mountpoint)]
        for outer in sorted(around, key=lambda c: len(c.mountpoint))[-1:]:
            place = Path(there[outer.guid], each.mountpoint.removeprefix(outer.mountpoint).lstrip("/"))
            if why := _in_the_way(place):
                raise Refused(f"{each.name} cannot be mounted at {each.mountpoint}: in the clone, {why}")


def _is_inside(path: str, directory: str) -> bool:
    """Tell whether it is below the directory, and not the directory itself."""
    return path != directory and is_below(path, directory)


def _in_the_way(place: Path) -> str:
    """Tell why nothing can be mounted there; "" for an empty directory, or one that is missing."""
    try:
        return f"files lie in {place}: move them away" if secure_files.names(place) else ""
    except FileNotFoundError:
        return ""
    except Refused as refused:
        return str(refused)


def replicas_ahead(ctx: Context, facts: ServerFacts | None, reached: str) -> tuple[str, ...]:
    """The replicas that follow production now, if that has written anything behind what was `reached`; none
    where it does not answer."""
    if facts is None or (reached and reached in (facts.gtid, facts.position)):
        return ()
    return ctx.engine.replicas()


def require_no_replicas_ahead(ctx: Context, facts: ServerFacts | None, reached: str) -> None:
    """Raise Refused while replicas have what the server will lack: it gives the same numbers to others."""
    if ahead := replicas_ahead(ctx, facts, reached):
        what = "Oplog entries" if ctx.engine_name == "mongodb" else "GTIDs or sequence numbers"
        more = f" and {len(ahead) - MOST_NAMED} more" if ahead[MOST_NAMED:] else ""
        raise Refused(
            f"servers that follow {ctx.instance} have transactions that are not in what takes its place: "
            f"{', '.join(ahead[:MOST_NAMED])}{more}. {what} would exist twice, with different content: stop "
            "them, and make them again from a backup afterwards; or repeat this command with --replicas-ahead"
        )


def newest(ctx: Context) -> str:
    found = switches(ctx.zfs, ctx.clones, ctx.instance)
    known = [c for c in found if c.state in ("switched", *HALF_DONE)]
    if not known:
        raise NotFound(f"no switch of {ctx.instance} is there to be undone")
    return known[-1].name


def intent_of(clone: Clone) -> Switch:
    if clone.switch is None or clone.state == "ready":
        raise NotFound(f"no switch to {clone.name} is there to be undone")
    return clone.switch


def intend(ctx: Context, clone: Clone) -> Switch:
    if inside := [r for r in ctx.datasets if f"{ctx.clones}/".startswith(f"{r}/")]:
        raise Refused(
            f"clones lie below {inside[0]}, which would be renamed: set recovery.clones to another dataset"
        )
    _require_all_inside(ctx, clone)
    members = [_member(ctx, d) for d in ctx.members()]
    found = switches(ctx.zfs, ctx.clones, ctx.instance)
    others = [c for c in found if c.name != clone.name]
    record = clone_datasets.record_of(ctx, clone)
    parts = _parts(ctx, clone, record)
    names = [part_name(ctx, clone, part.number) for part in parts]
    _require_movable(ctx, clone, [*(m.dataset.name for m in members), *names])
    originals = formerly(others, ctx.clones) | _of_fetched(ctx, clone, parts, record)
    made = plan_switch(ctx.datasets, members, parts, originals, ctx.clock.now().astimezone(UTC))
    if taken := [a for r in made.roots if ctx.zfs.exists(a := made.aside(r))]:
        raise Refused(f"{taken[0]} exists already")
    return made


def _require_all_inside(ctx: Context, clone: Clone) -> None:
    """A table that was made beyond the instance's datasets lies in the clone's own, which stays behind."""
    for note in sorted((ctx.mountpoint / clone.name / OUTSIDE).glob("*.path")):
        if any(path.is_file() for path in note.with_suffix("").rglob("*")):
            where = secure_files.read_text(note)
            raise Refused(
                f"tables of {clone.name} lie in {where} (DATA DIRECTORY), on no dataset of the "
                f"instance's, and would be left behind: copy each (CREATE TABLE … SELECT), then drop it"
            )


def _member(ctx: Context, dataset: Dataset) -> Member:
    (path,) = ctx.zfs.values(dataset.name, "mountpoint")
    return Member(dataset=dataset, own=ctx.zfs.own_settings(dataset.name), path=path)


def _parts(ctx: Context, clone: Clone, record: Record) -> list[CloneDataset]:
    parts = []
    for number, (_, mountpoint) in enumerate(record.members):
        name = part_name(ctx, clone, number)
        dataset = ctx.zfs.filesystems(name)[0]
        origin = ctx.zfs.snapshot_named(ctx.zfs.origins(name)[name] or f"{name}@")
        if origin is None:
            raise Refused(f"{name} was promoted (no origin): switch cannot use it")
        moving = [s.name for s in ctx.zfs.snapshots(origin.dataset) if s.createtxg <= origin.createtxg]
        parts.append(
            CloneDataset(
                number=number,
                guid=dataset.guid,
                origin=origin.guid,
                owner=ctx.zfs.filesystems(origin.dataset)[0],
                mountpoint=mountpoint,
                own=frozenset(s.name for s in ctx.zfs.snapshots(name)),
                moving=frozenset(moving),
            )
        )
    return parts


def _of_fetched(ctx: Context, clone: Clone, parts: Sequence[CloneDataset], record: Record) -> dict[str, str]:
    """Tell what was fetched for the clone -> the dataset that it is a copy of, which is on this pool here."""
    below, pool = f"{ctx.clones}/{copy_name(clone.name)}/", ctx.clones.partition("/")[0]
    names = ["/".join((pool, *dataset.split("/")[1:])) for dataset, _ in record.members]
    return {p.owner.name: names[p.number] for p in parts if p.owner.name.startswith(below)}


def _require_movable(ctx: Context, clone: Clone, names: Sequence[str]) -> None:
    """An encrypted dataset cannot be moved away from the one that its key is loaded for.

    What was fetched has a key of its own, and can be given that of where it lies: nothing more is received
    there.
    """
    roots = {name: ctx.zfs.values(name, "encryptionroot")[0] for name in names}
    stuck = {name: root for name, root in roots.items() if root not in ("", "-") and not _spans(ctx, root)}
    if not stuck:
        return
    name, key = next(iter(stuck.items()))
    fetched = f"{ctx.clones}/{copy_name(clone.name)}/"
    here = ctx.zfs.values(ctx.clones, "encryptionroot")[0]
    if _spans(ctx, here) and all(root.startswith(fetched) for root in stuck.values()):
        orders = " && ".join(
            command_line("zfs", "change-key", "-i", root) for root in dict.fromkeys(stuck.values())
        )
        raise Refused(
            f"{name} was fetched, and has a key of its own: ZFS does not move it to production's place below "
            f"{here}. Give it the key of {here}, then run the same command again:\n{orders}"
        )
    raise Refused(
        f"{name} has the encryption root {key}, and ZFS moves no dataset out of its encryption "
        f"root: a switch needs production and the clones below one encryption root"
    )


def _spans(ctx: Context, root: str) -> bool:
    """Tell whether production and the clones lie below this encryption root."""
    return all(name.startswith(f"{root}/") for name in (ctx.clones, *ctx.datasets))
