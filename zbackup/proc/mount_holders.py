"""Find who uses ZFS file systems and snapshots: open files, and mounts in other mount namespaces.

A process in its own mount namespace, such as a container that shows all of `/`, has copies of the host's
mounts. With private propagation they stay when the host unmounts, and ZFS destroys nothing that is mounted
anywhere ("dataset is busy"). Any user can make such a namespace where the kernel lets users have one
(`unshare -Urm --propagation private`).

Files of other processes are hostile input: they vanish, cannot be read, are huge, and contain any name.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from zbackup.proc.mounts import Mount, is_below, mounts
from zbackup.proc.open_files import PROC, process_name, processes_in_each, told

MOST_READ, MOST_IN_ALL = 32 << 20, 128 << 20
"""Limits in bytes for the mount list of one namespace, and of all. One may have 100,000 mounts
(fs.mount-max)."""


def in_use(
    names: Mapping[str, str], proc: Path = PROC, *, apart_from: int | None = None
) -> dict[str, list[str]]:
    """Map each of these datasets and snapshots that is in use to clauses that say by whom.

    `names` maps each to its mountpoint, "" if it is not mounted. A mount counts if it stays when the dataset
    is unmounted here. Processes in the mount namespace of `apart_from` (a server that will be ended) do not
    count. Unreadable files are skipped: only root sees mounts and files of other users' processes.
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
    """Return the mounted ones that are not below another one."""
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
        """Return the mounts of a namespace that stay when the usual ones are unmounted."""
        on = {m.number: m for m in there}
        wanted = [m for m in there if m.kind == "zfs" and m.source in usual]
        return [m for m in wanted if not self._goes(m, on.get(m.parent), usual[m.source])]

    def _goes(self, mount: Mount, parent: Mount | None, usual: Mount | None) -> bool:
        """Whether a mount goes with the usual one: it is at the same path, and its parent mount is a
        peer or a slave of the usual one's parent."""
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
    """Return the path of the mountpoint in the file system that contains it."""
    return parent.root.rstrip("/") + mount.mountpoint.removeprefix(parent.mountpoint.rstrip("/"))


def _usual(name: str, ours: Sequence[Mount]) -> Mount | None:
    """Return the mount that ends when the dataset is unmounted, or the snapshot destroyed (ZFS's own mount
    below `.zfs/snapshot`)."""
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
    """Return the process' mount namespace; "" if that is not permitted, or the process has ended."""
    with contextlib.suppress(OSError):
        return str((process / "ns/mnt").readlink())
    return ""


def _read_first(proc: Path, pids: Sequence[int], most: int) -> tuple[list[Mount], int]:
    """Return the mounts of the first of these processes that still runs, and the bytes read."""
    for pid in pids:
        with contextlib.suppress(OSError):
            return _read(proc / str(pid), most)
    return [], 0


def _read(process: Path, most: int) -> tuple[list[Mount], int]:
    """Return the process' mounts ([] if none of them matters here) and the bytes read. Raise OSError."""
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
