"""Decide which datasets change places in a switch, and with which settings. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused
from zbackup.model.snapshot import Dataset
from zbackup.model.switch import Coming, SteppedAside, Switch

# What production's datasets cannot keep while they are aside: two cannot be mounted in one place, and room
# that is kept for both would be kept twice.
GIVEN_UP = ("mountpoint", "canmount", "readonly", "reservation", "refreservation")

# Settings that a file system has for life, or gets by other means than `zfs set` (zfsprops(7)).
FIXED = (
    "encryption", "keyformat", "keylocation", "pbkdf2iters", "casesensitivity", "normalization", "utf8only",
    "version", "zoned", "jailed",
)  # fmt: skip

LONGEST = 255
"""Bytes of a dataset's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchedDataset:
    """A dataset of the instance. `own` is what is set on it itself, `path` its property mountpoint."""

    dataset: Dataset
    own: Mapping[str, str]
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneDataset:
    """A dataset of the clone: `origin` is the snapshot that it was made of, `owner` the dataset it is of.

    `mountpoint` is where its original was when the backup was taken. `own` and `moving` are names of its
    snapshots, and of those it would take over.
    """

    number: int
    guid: int
    origin: int
    owner: Dataset
    mountpoint: str
    own: frozenset[str] = frozenset()
    moving: frozenset[str] = frozenset()


def plan_switch(
    roots: Sequence[str],
    members: Sequence[SwitchedDataset],
    parts: Sequence[CloneDataset],
    formerly: Mapping[str, str],
    at: datetime,
) -> Switch:
    """Plan what is to be done; `formerly` has what datasets that are aside were called. Raise Refused when it
    cannot be."""
    suffix = f"-before-{at:%Y%m%dT%H%M%SZ}"
    coming = tuple(_coming(part, members, formerly) for part in parts)
    _require_whole(roots, members, coming)
    for part in parts:
        if both := sorted(part.own & part.moving):
            raise Refused(
                f"the clone and production both have a snapshot @{both[0].rpartition('@')[2]}: rename or "
                f"destroy the clone's (dataset {part.number} of the clone)"
            )
    leaving = tuple(
        SteppedAside(
            name=m.dataset.name,
            guid=m.dataset.guid,
            mountpoint=m.dataset.mountpoint or "",
            own=tuple((key, m.own[key]) for key in GIVEN_UP if key in m.own),
        )
        for m in members
    )
    _require_renamable(members, roots)
    switch = Switch(at=at, suffix=suffix, roots=tuple(roots), leaving=leaving, coming=coming)
    if long := [n for each in leaving if len(n := switch.aside(each.name)) > LONGEST]:
        raise Refused(f"{long[0]} would be too long a name for a dataset")
    return switch


def _coming(part: CloneDataset, members: Sequence[SwitchedDataset], formerly: Mapping[str, str]) -> Coming:
    name = formerly.get(part.owner.name, part.owner.name)
    there = next((m.dataset.mountpoint for m in members if m.dataset.name == name), None)
    return Coming(
        number=part.number,
        name=name,
        guid=part.guid,
        mountpoint=there or part.mountpoint,
        origin=part.origin,
        owner=part.owner.guid,
    )


def _require_whole(
    roots: Sequence[str], members: Sequence[SwitchedDataset], coming: Sequence[Coming]
) -> None:
    names = {each.name for each in coming}
    if absent := [root for root in roots if root not in {m.dataset.name for m in members}]:
        raise Refused(
            f"there is no {absent[0]} here whose place the clone could take: create it, empty and mounted "
            f"where the server has its files"
        )
    if missing := [root for root in roots if root not in names]:
        raise Refused(
            f"the clone has nothing in place of {missing[0]}: when its backup was taken, that was no dataset "
            f"of the instance"
        )
    if strange := [n for n in sorted(names) if not any(n == r or n.startswith(r + "/") for r in roots)]:
        raise Refused(f"the clone holds a copy of {strange[0]}, which is no dataset of the instance")
    if lost := [n for n in sorted(names) if n not in roots and n.rpartition("/")[0] not in names]:
        raise Refused(
            f"the clone has a dataset in place of {lost[0]}, and none in place of its parent "
            f"{lost[0].rpartition('/')[0]}: switch cannot use it"
        )


def _require_renamable(members: Sequence[SwitchedDataset], roots: Sequence[str]) -> None:
    for member in members:
        name = member.dataset.name
        if name in roots and "/" not in name:
            raise Refused(f"{name} is a pool's own file system, which cannot be renamed: switch by hand")
        if member.path in ("legacy", "none") and member.dataset.mountpoint:
            raise Refused(
                f"{name} is mounted by /etc/fstab or by hand, which zbackup cannot change: "
                + command_line("zfs", "set", f"mountpoint={member.dataset.mountpoint}", name)
            )


def settings_in_place(
    formerly_own: Mapping[str, str], given_up: Mapping[str, str], mountpoint: str, *, known: bool
) -> dict[str, str]:
    """What is to be set on a dataset of the clone in production's place, so that it is as the one before
    it.

    `formerly_own` is set on that one now, and `given_up` was. `known`: there was one before it; else it gets
    its `mountpoint`.
    """
    kept = {
        key: value
        for key, value in formerly_own.items()
        if key not in GIVEN_UP and key not in FIXED and not key.startswith("zbackup:")
    }
    wanted = kept | dict(given_up)
    if not known:
        wanted["mountpoint"] = mountpoint
    # It cannot be inherited.
    return {**wanted, "canmount": wanted.get("canmount", "on")}


def settings_aside(switch: Switch, leaving: SteppedAside) -> dict[str, str]:
    """What is to be set on a dataset of production's that has stepped aside: nobody writes to it."""
    own = dict(leaving.own)
    wanted = {"readonly": "on"}
    wanted |= {key: "none" for key in ("reservation", "refreservation") if key in own}
    if "mountpoint" in own:
        wanted["mountpoint"] = switch.place_aside(own["mountpoint"])
    return wanted
