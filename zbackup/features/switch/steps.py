"""The steps of a switch and of its way back. Each looks by guid where everything is, and does what is left.

So whoever comes after a run that was killed anywhere just goes on, in either direction. Nothing is destroyed
and nothing is rolled back: datasets are renamed, and snapshots change hands (`zfs promote`).
"""

from collections.abc import Mapping, Sequence

from zbackup.catalog.switched import formerly, switches
from zbackup.features.switch.plan import FIXED, GIVEN_UP, settings_aside, settings_in_place
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.clone_datasets import PART
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.command_line import command_line
from zbackup.model.errors import CommandFailed, Refused
from zbackup.model.event_log import log
from zbackup.model.shipped import SHIPPED
from zbackup.model.snapshot import Dataset
from zbackup.model.switch import Switch
from zbackup.plan.clones.clone_name import copy_name


def part_name(ctx: Context, clone: Clone, number: int) -> str:
    """What a part of the clone is called while it is one."""
    return f"{ctx.clones}/{clone.name}/{number}"


def away(ctx: Context, clone: Clone, switch: Switch) -> frozenset[int]:
    """The guids of those datasets that are not where they were before the switch."""
    home = {each.guid: each.name for each in switch.leaving}
    home |= {each.guid: part_name(ctx, clone, each.number) for each in switch.coming}
    return frozenset(d.guid for d in _by_guid(ctx).values() if home.get(d.guid, d.name) != d.name)


def all_of(switch: Switch) -> frozenset[int]:
    """The guids of production's datasets and of the clone's."""
    return frozenset(each.guid for each in switch.leaving) | {each.guid for each in switch.coming}


def unmount(ctx: Context, guids: frozenset[int]) -> None:
    """Raise DatasetBusy when somebody uses one of these datasets: a server that runs."""
    mounted = [(d.mountpoint, d.name) for d in _by_guid(ctx).values() if d.guid in guids and d.mountpoint]
    for _, name in sorted(mounted, key=lambda pair: len(pair[0]), reverse=True):
        ctx.zfs.unmount(name)


# there


def put_in_place(ctx: Context, clone: Clone, switch: Switch) -> None:
    """Production's datasets step aside, the clone's take their places, and all snapshots up to theirs."""
    ctx.progress.phase("exchanging the datasets")
    for root in switch.roots:
        _rename(ctx, _guid_of(switch, root), root, switch.aside(root))
    for each in sorted(switch.coming, key=lambda c: c.name):
        _rename(ctx, each.guid, part_name(ctx, clone, each.number), each.name)
    former = formerly(switches(ctx.zfs, ctx.clones, ctx.instance), ctx.clones)
    ours = {*former, *(switch.aside(each.name) for each in switch.leaving), *_fetched(ctx, clone)}
    for each in switch.coming:
        _promote(ctx, each.guid, ours)


def dress(ctx: Context, switch: Switch) -> None:
    """Each gets the settings of its new place, and is mounted there."""
    ctx.progress.phase("mounting")
    for left in switch.leaving:
        aside = switch.aside(left.name)
        _settle(ctx, aside, settings_aside(switch, left), keep=tuple(ctx.zfs.own_settings(aside)))
    known = {each.name: each for each in switch.leaving}
    canmount = {}
    for each in switch.coming:
        left_behind = known.get(each.name)
        own = ctx.zfs.own_settings(switch.aside(each.name)) if left_behind else {}
        given_up = dict(left_behind.own) if left_behind else {}
        wanted = settings_in_place(own, given_up, each.mountpoint, known=left_behind is not None)
        wanted |= {key: value for key, value in own.items() if key.startswith(SHIPPED)}
        canmount[each.name] = wanted["canmount"]
        _settle(ctx, each.name, wanted)
    away = {each.name for each in switch.leaving if not each.mountpoint}
    mountpoints = {each.name: each.mountpoint for each in switch.coming if each.name not in away}
    _mount(ctx, mountpoints, canmount)
    _mount_aside(ctx, switch)


def _mount_aside(ctx: Context, switch: Switch) -> None:
    """For a look, and for its backups' sake. That it cannot be had is no reason not to go on."""
    for left in sorted(switch.leaving, key=lambda each: len(each.mountpoint)):
        aside = switch.aside(left.name)
        try:
            if left.mountpoint:
                ctx.zfs.mount(aside)
            ctx.zfs.set_properties(aside, {"canmount": dict(left.own).get("canmount", "on")})
        except (CommandFailed, Refused) as failure:
            ctx.progress.note(f"{aside} is not mounted, so that its backups cannot be read: {failure}")


# and back


def put_back(ctx: Context, clone: Clone, switch: Switch) -> None:
    """Everything is where it was, and production's snapshots are its own again."""
    ctx.progress.phase("exchanging the datasets back")
    there = _by_guid(ctx)
    former = formerly(switches(ctx.zfs, ctx.clones, ctx.instance), ctx.clones)
    ours = {*former, *(there[each.guid].name for each in switch.coming if each.guid in there)}
    for left in switch.leaving:
        _promote(ctx, left.guid, ours)
    for each in switch.coming:
        _give_back(ctx, each.owner, each.origin)
    for each in sorted(switch.coming, key=lambda c: c.name, reverse=True):
        _rename(ctx, each.guid, each.name, part_name(ctx, clone, each.number))
    for root in switch.roots:
        _rename(ctx, _guid_of(switch, root), switch.aside(root), root)


def undress(ctx: Context, clone: Clone, switch: Switch) -> None:
    """Each has the settings again that it had, and is mounted where it was."""
    ctx.progress.phase("mounting")
    for left in switch.leaving:
        own = dict(left.own)
        others = [key for key in ctx.zfs.own_settings(left.name) if key not in GIVEN_UP]
        _settle(ctx, left.name, own, keep=(*others, "canmount"))
    for each in switch.coming:
        part = part_name(ctx, clone, each.number)
        # What has arrived at destinations meanwhile: first written there, then forgotten here.
        arrived = {key: v for key, v in ctx.zfs.own_settings(part).items() if key.startswith(SHIPPED)}
        if arrived and each.name in {left.name for left in switch.leaving}:
            ctx.zfs.set_properties(each.name, arrived)
        _settle(ctx, part, {**CLONE_PROPERTIES, PART: clone.id})
    canmount = {each.name: dict(each.own).get("canmount", "on") for each in switch.leaving}
    _mount(ctx, {each.name: each.mountpoint for each in switch.leaving if each.mountpoint}, canmount)
    for each in switch.coming:
        ctx.zfs.mount(part_name(ctx, clone, each.number))


# one step


def _fetched(ctx: Context, clone: Clone) -> list[str]:
    """The datasets that were fetched for the clone: production must not depend on what goes with it."""
    below = f"{ctx.clones}/{copy_name(clone.name)}/"
    return [d.name for d in _by_guid(ctx).values() if d.name.startswith(below)]


def _by_guid(ctx: Context) -> dict[int, Dataset]:
    return {d.guid: d for d in ctx.zfs.filesystems(ctx.clones.partition("/")[0])}


def _known(ctx: Context, guid: int) -> Dataset:
    found = _by_guid(ctx).get(guid)
    if found is None:
        raise Refused(f"the dataset with the guid {guid} is not there any more: somebody destroyed it")
    return found


def _guid_of(switch: Switch, root: str) -> int:
    return next(each.guid for each in switch.leaving if each.name == root)


def _rename(ctx: Context, guid: int, old: str, new: str) -> None:
    """From one name to the other; done already is success. Raise Refused when somebody else renamed it."""
    dataset = _known(ctx, guid)
    if dataset.name == new:
        return
    if dataset.name != old:
        back = command_line("zfs", "rename", "-u", dataset.name, new)
        raise Refused(f"{old} was renamed meanwhile: {back}, then run the same command again")
    ctx.zfs.rename(dataset, new)
    log.info("switch.renamed", dataset=old, to=new)


def _promote(ctx: Context, guid: int, ours: set[str]) -> None:
    """Until it depends on none of these datasets."""
    dataset = _known(ctx, guid)
    while (origin := _origin(ctx, dataset.name)) and origin.partition("@")[0] in ours:
        ctx.zfs.promote(dataset)
        log.info("switch.promoted", dataset=dataset.name, origin=origin)


def _give_back(ctx: Context, owner: int, snapshot: int) -> None:
    """The dataset that had the snapshot before all this gets it, with all older ones."""
    dataset = _by_guid(ctx).get(owner)
    while (
        dataset
        and snapshot not in {s.guid for s in ctx.zfs.snapshots(dataset.name)}
        and _origin(ctx, dataset.name)
    ):
        ctx.zfs.promote(dataset)


def _origin(ctx: Context, name: str) -> str:
    (origin,) = ctx.zfs.values(name, "origin")
    return origin.removeprefix("-")


def _keep_unmounted(ctx: Context, name: str) -> None:
    """Let zfs mount nothing with a new mountpoint: not this one, nor what is below it and inherits that."""
    ctx.zfs.unmount(name)
    for dataset in ctx.zfs.filesystems(name):
        if not dataset.mountpoint and ctx.zfs.values(dataset.name, "canmount") != ("noauto",):
            ctx.zfs.set_properties(dataset.name, {"canmount": "noauto"})


def _settle(ctx: Context, name: str, wanted: Mapping[str, str], keep: Sequence[str] = ()) -> None:
    """Exactly this is set on it itself, and what is to be kept; it is not mounted by that."""
    own = ctx.zfs.own_settings(name)
    changed = {key: value for key, value in wanted.items() if own.get(key) != value and key != "canmount"}
    surplus = [key for key in own if key not in (*wanted, *keep, *FIXED, "canmount")]
    if any(":" not in key for key in (*changed, *surplus)):
        _keep_unmounted(ctx, name)
    if changed:
        ctx.zfs.set_properties(name, changed)
    for key in surplus:
        ctx.zfs.clear_property(name, key)


def _mount(ctx: Context, mountpoints: Mapping[str, str], canmount: Mapping[str, str]) -> None:
    """Mount them where they belong. Raise Refused when one is somewhere else then."""
    for name, mountpoint in sorted(mountpoints.items(), key=lambda pair: len(pair[1])):
        ctx.zfs.mount(name)
        if (found := ctx.zfs.mounted_below(name).get(name)) != mountpoint:
            raise Refused(f"{name} is mounted at {found}, and not at {mountpoint}")
    for name, value in canmount.items():
        if ctx.zfs.values(name, "canmount") != (value,):
            ctx.zfs.set_properties(name, {"canmount": value})


def require_in_place(ctx: Context, switch: Switch) -> None:
    """Raise Refused when the datasets are not as the switch left them: then nobody knows the way back."""
    there = _by_guid(ctx)
    for guid, name in (
        *((each.guid, each.name) for each in switch.coming),
        *((each.guid, switch.aside(each.name)) for each in switch.leaving),
    ):
        if guid not in there or there[guid].name != name:
            raise Refused(f"{name} is not there any more, or another: the switch cannot be undone")
    mine = {each.guid for each in switch.coming}
    for root in switch.roots:
        for dataset in ctx.zfs.filesystems(root):
            if dataset.guid not in mine:
                raise Refused(
                    f"{dataset.name} was created after the switch, and its data would be left behind: "
                    f"rename it to another place first (zfs rename -u)"
                )
