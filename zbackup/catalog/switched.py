"""Tell which clones took production's place, and where the datasets of before are: their backups count on."""

import contextlib
from collections.abc import Iterable, Sequence

from zbackup.model.clone import PROPERTY, Clone, from_property
from zbackup.model.command_line import command_line
from zbackup.model.errors import DatasetNotFound, Refused
from zbackup.zfs.datasets import Zfs


def switches(zfs: Zfs, root: str, instance: str) -> tuple[Clone, ...]:
    """The clones below `root` that a switch of the instance is written on, oldest switch first.

    A description that cannot be read is passed over: backups must go on whatever becomes of a clone.
    """
    try:
        if len(zfs.filesystems(root)) < 2:
            return ()
    except DatasetNotFound:
        return ()
    found = []
    for properties in zfs.user_properties(root).values():
        with contextlib.suppress(ValueError):
            found.append(from_property(properties.get(PROPERTY, "")))
    return among(found, instance)


def among(clones: Iterable[Clone], instance: str) -> tuple[Clone, ...]:
    """Choose of these clones those that a switch of the instance is written on, oldest switch first. Pure."""
    found = [(c.switch.at, c) for c in clones if c.switch and c.instance == instance]
    return tuple(clone for _, clone in sorted(found, key=lambda pair: pair[0]))


def require_settled(found: Sequence[Clone]) -> None:
    """Raise Refused, with what to do, while a switch is half done: which dataset is whose is not settled."""
    for clone in found:
        if clone.state in ("switching", "undoing"):
            on = command_line("zbackup", "switch", clone.instance, clone.name)
            back = command_line("zbackup", "switch", clone.instance, clone.name, "--undo")
            finish, other = (on, back) if clone.state == "switching" else (back, on)
            raise Refused(
                f"a switch of {clone.instance} to {clone.name} is under way or was cut short: finish it "
                f"({finish}), or go back ({other})"
            )


def formerly(found: Sequence[Clone], root: str) -> dict[str, str]:
    """Datasets that were the instance's, each with what it was called then. Pure.

    Of a switch that was undone: the clone's own, for it was production for a while.
    """
    names: dict[str, str] = {}
    for clone in found:
        if clone.switch and clone.state == "switched":
            names |= {clone.switch.aside(each.name): each.name for each in clone.switch.leaving}
        elif clone.switch and clone.state == "ready":
            names |= {f"{root}/{clone.name}/{each.number}": each.name for each in clone.switch.coming}
    return names
