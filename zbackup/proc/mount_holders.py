"""Find who keeps ZFS file systems and snapshots in use: open files here, and mounts that stay elsewhere.

A process in a mount namespace of its own, such as a container that shows all of `/`, has copies of the host's
mounts. With private propagation they stay when the host unmounts, and ZFS destroys nothing that is mounted
anywhere ("dataset is busy"). Every user can make such a namespace (`unshare -Urm --propagation private`).

What other processes' files say is hostile input: they vanish, cannot be read, are huge, and hold any name.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from zbackup.proc.mounts import Mount, is_below, mounts
from zbackup.proc.open_files import PROC, process_name, processes_in_each, told

MOST_READ, MOST_IN_ALL = 32 << 20, 128 << 20
"""Bytes of one namespace's list, and of all lists: a namespace may have 100,000 mounts (fs.mount-max)."""


def in_use(
    names: Mapping[str, str], proc: Path = PROC, *, apart_from: int | None = None
) -> dict[str, list[str]]:
    """Map those of these datasets and snapshots that are in use to clauses that tell by whom.

    `names` has where each is mounted, "" for nowhere. A mount counts that stays when each is unmounted here
    as usual. Processes in the mount namespace of the process `apart_from`, a server that is to be ended, do
    not count. What cannot be read is left out: only root sees the mounts and files of others' processes.
    """
    left_out = _namespace(proc / str(apart_from)) if apart_from else ""
    there, room = dict[tuple[int, ...], list[Mount]](), MOST_IN_ALL
    spaces, own = _namespaces(proc), _namespace(proc / "self")
    ours, _ = _read(proc / "self", MOST_READ)
    for space, pids in spaces.items():
        if space not in (own, left_out):
            there[tuple(pids)], used = _read_first(proc, pids, min(room, MOST_READ))
            room -= used
    usual = {name: _usual(name, ours) for name in names}
    groups = _Groups([*ours, *(mount for seen in there.values() for mount in seen)])
    found: dict[str, list[str]] = defaultdict(list)
    for mount in groups.staying(ours, usual):
        if mount not in usual.values():
            found[mount.source].append(f"{mount.source} is also mounted at {mount.mountpoint}")
    for tied, seen in there.items():
        for mount in groups.staying(seen, usual):
            who = told([(pid, process_name(proc / str(pid))) for pid in tied])
            at = f"{mount.mountpoint} in the mount namespace of {who}"
            found[mount.source].append(f"{mount.source} is mounted at {at}")
    ended = {*spaces.get(left_out, ()), apart_from}
    outermost = _outermost(names)
    everyone = processes_in_each(outermost.values(), proc)
    for name, directory in outermost.items():
        if inside := [each for each in everyone[directory] if each[0] not in ended]:
            found[name].append(f"{directory} is in use by {told(inside)}")
    return dict(found)


def _outermost(names: Mapping[str, str]) -> dict[str, str]:
    """Those that are mounted, and below no other of them."""
    there = {name: at for name, at in names.items() if at}
    return {n: at for n, at in there.items() if not any(at != a and is_below(at, a) for a in there.values())}


class _Groups:
    """How mounts and unmounts spread between directories (mount_namespaces(7), shared subtrees)."""

    def __init__(self, everywhere: Sequence[Mount]) -> None:
        self._slaves: dict[int, set[int]] = defaultdict(set)
        for mount in everywhere:
            if mount.master and mount.shared:
                self._slaves[mount.master].add(mount.shared)
        self._known: dict[int, set[int]] = {}
        self._parents = {m.number: m for m in everywhere}

    def staying(self, there: Sequence[Mount], usual: Mapping[str, Mount | None]) -> list[Mount]:
        """Those of a namespace's mounts that stay when the usual ones are unmounted."""
        on = {m.number: m for m in there}
        wanted = [m for m in there if m.kind == "zfs" and m.source in usual]
        return [m for m in wanted if not self._goes(m, on.get(m.parent), usual[m.source])]

    def _goes(self, mount: Mount, parent: Mount | None, usual: Mount | None) -> bool:
        """A mount goes with the usual one when it is at the same place, on a peer or a slave of what that one
        is on."""
        above = usual and self._parents.get(usual.parent)
        if not (
            usual and above and above.shared and parent and _place(mount, parent) == _place(usual, above)
        ):
            return False
        return bool({parent.shared, parent.master} & self._reached(above.shared))

    def _reached(self, group: int) -> set[int]:
        """All groups that receive from this one. Users can make chains of 100,000."""
        if group not in self._known:
            self._known[group], following = {group}, [group]
            while following:
                more = self._slaves.get(following.pop(), set()) - self._known[group]
                self._known[group] |= more
                following += more
        return self._known[group]


def _place(mount: Mount, parent: Mount) -> str:
    """The path of the mountpoint in the file system that it lies in."""
    return parent.root.rstrip("/") + mount.mountpoint.removeprefix(parent.mountpoint.rstrip("/"))


def _usual(name: str, ours: Sequence[Mount]) -> Mount | None:
    """The mount that goes when the dataset is unmounted, or the snapshot destroyed: ZFS's own below
    `.zfs/snapshot`."""
    inside = f"/.zfs/snapshot/{name.partition('@')[2]}" if "@" in name else ""
    own = (m for m in ours if m.kind == "zfs" and m.source == name and m.root == "/")
    return next((m for m in own if m.mountpoint.endswith(inside)), None)


def _namespaces(proc: Path) -> dict[str, list[int]]:
    """Map each mount namespace to its processes, lowest number first."""
    found: dict[str, list[int]] = defaultdict(list)
    for pid in sorted(int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal()):
        if space := _namespace(proc / str(pid)):
            found[space].append(pid)
    return found


def _namespace(process: Path) -> str:
    """Its mount namespace; "" where we may not ask, or the process is gone."""
    with contextlib.suppress(OSError):
        return str((process / "ns/mnt").readlink())
    return ""


def _read_first(proc: Path, pids: Sequence[int], most: int) -> tuple[list[Mount], int]:
    """What the first of these processes that still is there sees, and how many bytes that took."""
    for pid in pids:
        with contextlib.suppress(OSError):
            return _read(proc / str(pid), most)
    return [], 0


def _read(process: Path, most: int) -> tuple[list[Mount], int]:
    """Its mounts, unless they tell nothing here, and how many bytes were read. Raise OSError."""
    with (process / "mountinfo").open("rb", buffering=0) as file:
        pieces, left = [], most
        while left > 0 and (piece := file.read(min(left, 1 << 20))):
            pieces.append(piece)
            left -= len(piece)
    text = b"".join(pieces)
    whole = text[: text.rfind(b"\n") + 1]
    telling = b" - zfs " in whole or b" master:" in whole
    there = mounts(whole.decode(errors="surrogateescape")) if telling else []
    return there, len(text)
