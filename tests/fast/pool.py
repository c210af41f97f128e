"""Pools in memory: file systems, snapshots, bookmarks, what is written in them, and what ZFS allows.

Facts are those of `recorded.json`. A file system's content is a dictionary; a snapshot keeps what it was.
"""

import itertools
from collections.abc import Iterator, Mapping

from tests.fast.objects import Bookmark, FileSystem, Snapshot, Stream, ZfsError

START = 1_714_550_400
"""Seconds since 1970 when the pools' history begins."""


class Pools:
    """Everything there is, and a journal of what was destroyed."""

    def __init__(self) -> None:
        self.datasets: dict[str, FileSystem] = {}
        self.destroyed: list[tuple[str, int]] = []
        self._count = itertools.count(1)
        self.txg = 100

    # looking

    def file_system(self, name: str) -> FileSystem:
        found = self.datasets.get(name)
        if found is None:
            raise ZfsError(f"cannot open '{name}': dataset does not exist")
        return found

    def snapshot_called(self, name: str) -> Snapshot:
        dataset, _, short = name.partition("@")
        of = self.datasets.get(dataset)
        if of is None or short not in of.snapshots:
            raise ZfsError(f"cannot open '{name}': dataset does not exist")
        return of.snapshots[short]

    def below(self, root: str) -> list[FileSystem]:
        """The file system and those below it, in the order of zfs list."""
        self.file_system(root)
        found = (d for n, d in self.datasets.items() if n == root or n.startswith(f"{root}/"))
        return sorted(found, key=lambda d: d.name.split("/"))

    def children(self, root: str) -> list[FileSystem]:
        return self.below(root)[1:]

    def all_snapshots(self) -> Iterator[Snapshot]:
        for each in self.datasets.values():
            yield from each.snapshots.values()

    def clones_of(self, snapshot: Snapshot) -> list[str]:
        return [d.name for d in self.datasets.values() if d.origin is snapshot]

    def value(self, dataset: FileSystem, key: str) -> str | None:
        """A property, inherited if it is not its own; None if it is nowhere."""
        name = dataset.name
        while True:
            own = self.datasets[name].properties
            if key in own:
                inherited = dataset.name.removeprefix(name)
                value = own[key]
                return value + inherited if key == "mountpoint" and value[:1] == "/" else value
            if "/" not in name or key == "canmount":
                return None
            name = name.rpartition("/")[0]

    def mountpoint(self, dataset: FileSystem) -> str:
        return self.value(dataset, "mountpoint") or f"/{dataset.name}"

    def mounted_at(self, path: str) -> tuple[FileSystem, str] | None:
        """What is mounted there, and the path inside it."""
        for each in self.datasets.values():
            if each.mounted == path:
                return each, ""
        found = [d for d in self.datasets.values() if d.mounted and _is_in(path, d.mounted)]
        if not found:
            return None
        inner = max(found, key=lambda d: len(d.mounted or ""))
        return inner, path.removeprefix(inner.mounted or "").lstrip("/")

    # making

    def create(self, name: str, properties: Mapping[str, str]) -> FileSystem:
        self._require_free(name)
        made = FileSystem(name, self._guid(), self._next(), START + self.txg, dict(properties))
        self.datasets[name] = made
        return made

    def snapshot(self, names: list[str], properties: Mapping[str, str]) -> None:
        for name in names:
            if name.partition("@")[0] not in self.datasets:
                raise ZfsError(f"cannot open '{name.partition('@')[0]}': dataset does not exist", 2)
        for name in names:
            dataset, _, short = name.partition("@")
            if short in self.datasets[dataset].snapshots:
                more = "\nno snapshots were created" if len(names) > 1 else ""
                raise ZfsError(f"cannot create snapshot '{name}': dataset already exists{more}")
        txg = self._next()
        for name in names:
            dataset, _, short = name.partition("@")
            of = self.datasets[dataset]
            of.snapshots[short] = Snapshot(
                of, short, self._guid(), txg, START + txg, dict(properties), dict(of.files)
            )

    def bookmark(self, snapshot: str, bookmark: str) -> None:
        try:
            found = self.snapshot_called(snapshot)
        except ZfsError as missing:
            raise ZfsError(missing.said, 2) from None
        if bookmark.partition("#")[2] in found.of.bookmarks:
            raise ZfsError(f"cannot create bookmark '{bookmark}': bookmark exists")
        found.of.bookmarks[bookmark.partition("#")[2]] = Bookmark(found.guid, found.txg, found.creation)

    def clone(self, snapshot: str, name: str, properties: Mapping[str, str]) -> None:
        origin = self.snapshot_called(snapshot)
        made = self.create(name, properties)
        made.origin, made.files = origin, dict(origin.files)

    # ends

    def destroy_snapshot(self, name: str) -> None:
        dataset, _, short = name.partition("@")
        of = self.datasets.get(dataset)
        if of is None or short not in of.snapshots:
            raise ZfsError("could not find any snapshots to destroy; check snapshot names.")
        found = of.snapshots[short]
        if clones := self.clones_of(found):
            raise ZfsError(dependent(name, clones))
        if of.partial and of.partial.base == found.guid:
            raise ZfsError(dependent(name, [f"{dataset}/%recv"]))
        if found.looked_into:
            raise ZfsError(f"cannot destroy snapshot {name}: dataset is busy")
        if found.holds:
            raise ZfsError(
                f"cannot destroy snapshot {name}: it's being held. Run 'zfs holds -r {name}' to see holders."
            )
        del of.snapshots[short]
        self.destroyed.append((name, found.guid))

    def destroy_bookmark(self, name: str) -> None:
        dataset, _, short = name.partition("#")
        of = self.datasets.get(dataset)
        if of is None or short not in of.bookmarks:
            raise ZfsError(f"bookmark '{name}' does not exist.")
        del of.bookmarks[short]

    def destroy(self, name: str, *, really: bool = True) -> None:
        found = self.file_system(name)
        inside = [f"{name}/%recv"] if found.partial and found.partial.base else []
        for child in self.children(name):
            inside += [*(str(s) for s in child.snapshots.values()), child.name]
        inside += [str(s) for s in found.snapshots.values()]
        if inside:
            listed = "\n".join(inside)
            raise ZfsError(
                f"cannot destroy '{name}': filesystem has children\n"
                f"use '-r' to destroy the following datasets:\n{listed}"
            )
        if not really:
            return
        if found.users:
            raise ZfsError(f"cannot unmount '{found.mounted}': pool or dataset is busy")
        del self.datasets[name]
        self.destroyed.append((name, found.guid))

    # who comes from whom, and what it is called

    def promote(self, name: str) -> None:
        clone = self.file_system(name)
        origin = clone.origin
        if origin is None:
            raise ZfsError(f"cannot promote '{name}': not a cloned filesystem")
        parent = origin.of
        moving = [s for s in parent.snapshots.values() if s.txg <= origin.txg]
        if both := [s for s in moving if s.name in clone.snapshots]:
            raise ZfsError(
                f"cannot promote '{name}': conflicting snapshot '{both[0].name}' from parent '{both[0]}'"
            )
        clone.origin, parent.origin = parent.origin, origin
        for each in moving:
            del parent.snapshots[each.name]
            each.of = clone
        own = [*moving, *clone.snapshots.values()]
        clone.snapshots = {s.name: s for s in sorted(own, key=lambda s: s.txg)}
        self._next()

    def rename(self, name: str, new: str) -> None:
        found = self.below(name)
        above = new.rpartition("/")[0]
        if above not in self.datasets:
            raise ZfsError(f"cannot create '{new}': parent does not exist")
        if new in self.datasets:
            raise ZfsError(f"cannot rename '{name}': dataset already exists")
        if busy := [d for d in found if d.users]:
            raise ZfsError(f"cannot unmount '{busy[0].mounted}': pool or dataset is busy")
        for each in found:
            del self.datasets[each.name]
            each.name = new + each.name.removeprefix(name)
            self.datasets[each.name] = each
        self._mount_again([d for d in found if d.mounted])

    # mounts

    def mount(self, name: str) -> None:
        found = self.file_system(name)
        where = self.mountpoint(found)
        if where in ("none", "legacy"):
            raise ZfsError(f"cannot mount '{name}': no mountpoint set")
        if found.properties.get("canmount") == "off":
            raise ZfsError(f"cannot mount '{name}': 'canmount' property is set to 'off'")
        if found.mounted:
            raise ZfsError(f"cannot mount '{name}': filesystem already mounted")
        found.mounted = where

    def unmount(self, name: str) -> None:
        found = self.file_system(name)
        if not found.mounted:
            raise ZfsError(f"cannot unmount '{name}': not currently mounted")
        inherited = [d for d in self.below(name) if d is found or "mountpoint" not in d.properties]
        others = [d for d in self.datasets.values() if d.mounted and d not in inherited]
        inner = any(_is_in(d.mounted or "", found.mounted) for d in others)
        looked_into = any(s.looked_into for d in inherited for s in d.snapshots.values())
        if inner or looked_into or any(d.users for d in inherited):
            raise ZfsError(f"cannot unmount '{found.mounted}': pool or dataset is busy")
        for each in inherited:
            each.mounted = None

    def set(self, name: str, properties: Mapping[str, str]) -> None:
        if "@" in name:
            self.snapshot_called(name).properties.update(properties)
            return
        found = self.file_system(name)
        found.properties.update(properties)
        if "mountpoint" in properties:
            self._mount_again([d for d in self.below(name) if d.mounted or can_be_mounted(d)])
        if properties.get("canmount") == "off":
            found.mounted = None

    def inherit(self, name: str, key: str) -> None:
        if "@" in name:
            self.snapshot_called(name).properties.pop(key, None)
            return
        found = self.file_system(name)
        found.properties.pop(key, None)
        if key == "mountpoint":
            self._mount_again([d for d in self.below(name) if d.mounted or can_be_mounted(d)])

    def _mount_again(self, datasets: list[FileSystem]) -> None:
        """Where they belong now, after what that depends on was changed."""
        for each in datasets:
            where = self.mountpoint(each)
            each.mounted = None if where in ("none", "legacy") else where

    # what is sent and received

    def receive(self, name: str, stream: Stream, properties: Mapping[str, str]) -> None:
        """Raise ZfsError when it does not fit; else the snapshot is there."""
        found = self._receiving(name, stream, properties)
        txg = self._next()
        found.files, found.partial = dict(stream.files), None
        found.snapshots[stream.name] = Snapshot(
            found, stream.name, stream.guid, txg, stream.creation, {}, dict(stream.files)
        )

    def receive_part(self, name: str, stream: Stream, properties: Mapping[str, str]) -> None:
        """What there is of it when the stream is cut off in its middle."""
        self._receiving(name, stream, properties).partial = stream

    def _receiving(self, name: str, stream: Stream, properties: Mapping[str, str]) -> FileSystem:
        kind = "incremental" if stream.base else "new filesystem"
        there = self.datasets.get(name)
        if there is not None and there.partial is not None:
            if there.partial.guid == stream.guid and stream.source == "resumed":
                return there
            if there.partial.base:
                raise ZfsError(
                    f"cannot receive {kind} stream: destination {name} contains partially-complete state "
                    'from "zfs receive -s".'
                )
        if stream.base:
            if there is None:
                raise ZfsError(f"cannot receive {kind} stream: destination '{name}' does not exist")
            newest = there.newest
            if newest is None or newest.guid != stream.base:
                raise ZfsError(
                    f"cannot receive {kind} stream: most recent snapshot of {name} does not\n"
                    "match incremental source"
                )
            return there
        if there is not None:
            raise ZfsError(
                f"cannot receive {kind} stream: destination '{name}' exists\nmust specify -F to overwrite it"
            )
        if (above := name.rpartition("/")[0]) not in self.datasets:
            raise ZfsError(
                f"cannot open '{above}': dataset does not exist\n"
                f"cannot receive {kind} stream: unable to restore to destination"
            )
        return self.create(name, properties)

    def abort(self, name: str) -> None:
        if name not in self.datasets:
            raise ZfsError(f"cannot open '{name}': dataset does not exist", 2)
        found = self.datasets[name]
        if found.partial is None:
            raise ZfsError(f"'{name}' does not have any resumable receive state to abort")
        found.partial = None
        if not found.snapshots:
            del self.datasets[name]

    def _require_free(self, name: str) -> None:
        if name in self.datasets:
            raise ZfsError(f"cannot create '{name}': dataset already exists")
        if "/" in name and name.rpartition("/")[0] not in self.datasets:
            raise ZfsError(f"cannot create '{name}': parent does not exist")

    def _guid(self) -> int:
        return (next(self._count) * 0x9E3779B97F4A7C15) % (1 << 63) | 1 << 62

    def _next(self) -> int:
        self.txg += 1
        return self.txg


def can_be_mounted(dataset: FileSystem) -> bool:
    """Whether zfs mounts it by itself as soon as it has another mountpoint."""
    return dataset.properties.get("canmount", "on") == "on"


def dependent(name: str, clones: list[str]) -> str:
    """What zfs says of a snapshot that has clones."""
    listed = "\n".join(clones)
    return (
        f"cannot destroy '{name}': snapshot has dependent clones\n"
        f"use '-R' to destroy the following datasets:\n{listed}"
    )


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")
