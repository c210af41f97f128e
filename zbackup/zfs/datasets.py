"""The zfs commands zbackup uses, one method each. Nothing else runs zfs.

None of them mounts: what is made, cloned, received or renamed stays unmounted (-u, canmount=noauto) until
`Zfs.mount` mounts it.
"""

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from zbackup.model.errors import CommandFailed, DatasetBusy, DatasetNotFound, NotFound, Refused
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.proc.run import Runner, run
from zbackup.zfs import parse
from zbackup.zfs.errors import translate
from zbackup.zfs.mounting import (
    FACTS,
    KernelMounts,
    Mounts,
    elsewhere,
    mount_options,
    place_of,
    require_empty,
)
from zbackup.zfs.prepared import Prepared

KSTAT = Path("/proc/spl/kstat/zfs")
POLL_S = 0.001


def open_group(pool: str, kstat: Path = KSTAT) -> int | None:
    """Number of the pool's open transaction group, or None when ZFS does not tell (zfs_txg_history = 0)."""
    try:
        lines = (kstat / pool / "txgs").read_text().splitlines()
    except OSError:
        return None
    # A group gets its row when it is opened, behind those of the older ones.
    rows = (line.split(maxsplit=1)[0] for line in lines if line)
    return max((int(number) for number in rows if number.isdigit()), default=None)


@dataclass(slots=True)
class Taking:
    """A `zfs snapshot` that is under way. `cut` is the group that was open when it was seen to be closed."""

    pool: str
    kstat: Path
    before: int | None
    command: Future[None]
    cut: int | None = field(default=None)

    def wait_closed(self) -> None:
        """Return when nothing written from now on gets into the snapshot, which `proven` has to confirm.

        Raise what the command raises, should it end first.
        """
        while self.before is not None and not self.command.done():
            now = open_group(self.pool, self.kstat)
            if now is not None and now > self.before:
                self.cut = now
                return
            time.sleep(POLL_S)
        self.wait_taken()

    def wait_taken(self) -> None:
        """Return when the snapshot is there. Raise what the command raises."""
        self.command.result()

    def proven(self, createtxg: int) -> bool:
        """Whether the snapshot was closed indeed when wait_closed returned.

        Not if the group that was closed then was one of before the command got as far as to ask for it.
        """
        return self.cut is None or createtxg < self.cut


@contextmanager
def taking(pool: str, command: Callable[[], None], kstat: Path = KSTAT) -> Iterator[Taking]:
    """The command runs while the body does, and has ended afterwards, however the body ends."""
    with ThreadPoolExecutor(1, thread_name_prefix="zfs-snapshot") as thread:
        before = open_group(pool, kstat)
        yield Taking(pool, kstat, before, thread.submit(command))


# "busy" often passes within moments: another process looks at a mount, a server is just closing.
BUSY_TRIES = 12
BUSY_PAUSE_S = 0.5

MOST_TOLD = 3
"""Mounts and directories in use that a message names."""

# Snapshots named in one command: a single argument ends at 128 KiB (execve(2)), and a name of ours is short.
AT_ONCE = 400

QUOTAS_UNKNOWN = ("permission denied", "unsupported version or feature")
"""What is said of quotas in an encrypted dataset whose key is not loaded, or that is of an old version."""

MOST_ASKED = 64
"""Questions for as many snapshots as are named at once, if others' values speak of them: each takes three
commands. To tell one owner's from others' takes two dozen."""


@dataclass(frozen=True)
class Zfs:
    """Raises CommandFailed, or the kind of it that names what is wrong (see zfs.errors)."""

    runner: Runner = run
    mountinfo: Path = Path("/proc/self/mountinfo")
    prepare: Callable[[], AbstractContextManager[Prepared | None]] = nullcontext
    """Has a snapshot prepared while the body runs, or None: see zfs.prepared."""
    mounts: Mounts = field(default_factory=KernelMounts)

    # looking

    def filesystems(self, root: str) -> list[Dataset]:
        """`root` and every file system below it."""
        argv = ("list", "-Hp", "-t", "filesystem", "-r", "-o", parse.DATASET_COLUMNS, "--", root)
        listing = self._zfs(*argv, mutates=False)
        return parse.datasets(listing, self._mounts())

    def volumes(self, root: str) -> list[str]:
        """Names of the volumes below `root`: zbackup makes none, but what holds one is not its own."""
        listing = self._zfs("list", "-H", "-t", "volume", "-r", "-o", "name", "--", root, mutates=False)
        return listing.splitlines()

    def homes(self, paths: Sequence[str]) -> dict[str, str]:
        """Path -> the mounted dataset it lies on, "" where that is no dataset."""
        found = {}
        for path in dict.fromkeys(paths):
            try:
                found[path] = self._zfs("list", "-H", "-o", "name", "--", path, mutates=False).strip()
            except CommandFailed:
                found[path] = ""
        return found

    def exists(self, name: str) -> bool:
        try:
            self._zfs("list", "-H", "-o", "name", "--", name, mutates=False)
        except DatasetNotFound:
            return False
        return True

    def snapshots(self, dataset: str) -> list[Snapshot]:
        """The dataset's own snapshots (not those of its children), oldest first, with their properties."""
        where = ("-t", "snapshot", "-d", "1")
        listing = self._zfs("list", "-Hp", *where, "-o", parse.SNAPSHOT_COLUMNS, "--", dataset, mutates=False)
        return parse.snapshots(listing, self._own_properties(dataset, where=where))

    def snapshots_below(self, root: str) -> list[Snapshot]:
        """The snapshots of `root` and of every file system and volume below it, oldest first.

        Two commands for all of them: reading properties takes long where there are thousands of snapshots.
        One where there are none.
        """
        where = ("-t", "snapshot", "-r")
        listing = self._zfs("list", "-Hp", *where, "-o", parse.SNAPSHOT_COLUMNS, "--", root, mutates=False)
        if not listing:
            return []
        return parse.snapshots(listing, self._own_properties(root, where=where))

    def snapshots_with(self, root: str, *properties: str) -> list[tuple[str, int, tuple[str, ...]]]:
        """The snapshots of `root` and below: name, createtxg, and these user properties ("" for none).

        Much quicker than snapshots_below() where there are many. A value with a line break in it could be
        taken for the line of another snapshot: what counts is a line of one as it is listed without values.
        """
        where = ("-Hp", "-t", "snapshot", "-r", "-o")
        names = self._zfs("list", *where, parse.SNAPSHOT_IDENTITY, "--", root, mutates=False)
        columns = ",".join((parse.SNAPSHOT_IDENTITY, *properties))
        listing = self._zfs("list", *where, columns, "--", root, mutates=False)
        return parse.snapshots_with(names, listing, len(properties))

    def snapshots_of_many(self, names: Sequence[str]) -> tuple[list[Snapshot], set[str]]:
        """The snapshots of these that there are, of owners who do not trust each other; and the names
        left out because somebody's values speak of others' snapshots, and of too many.

        Those that are spoken of are asked for again without the others. Where that makes no difference,
        whoever speaks is among them: then by halves, and no owner's are in both until they are alone.
        """
        found: list[Snapshot] = []
        waiting, left = deque([list(names)]), set[str]()
        for _ in range(MOST_ASKED):
            if not waiting:
                break
            some = waiting.popleft()
            believed, disputed = self._undisputed(some)
            found += believed
            if len(disputed) < len(some):
                waiting += [disputed] if disputed else []
            elif len(some) == 1:
                left.update(some)
            else:
                waiting += parse.halves(some)
        return found, left.union(*waiting)

    def _undisputed(self, names: Sequence[str]) -> tuple[list[Snapshot], list[str]]:
        """The snapshots of which one thing is said, and the names of the others."""
        try:
            columns = ("-t", "snapshot", "-o", parse.SNAPSHOT_COLUMNS)
            listing = self._zfs("list", "-Hp", *columns, "--", *names, mutates=False)
            keys = self._own_properties(*names, columns="name,property")
            own = parse.with_keys(self._own_properties(*names), keys)
        except DatasetNotFound:
            # One by one then: what is said of one snapshot alone speaks of no other.
            return [found for name in names for found in self.snapshots_named((name,))], []
        disputed = parse.disputed(own)
        return [s for s in parse.snapshots(listing, own) if str(s) not in disputed], sorted(disputed)

    def mounted_below(self, root: str) -> dict[str, str]:
        """Map `root` and the file systems below it that are mounted to where, as the kernel has it.

        Whoever may set a `mountpoint` could write a line of somebody else's dataset into it.
        """
        return {n: at for n, at in self._mounts().items() if n == root or n.startswith(f"{root}/")}

    def snapshot_named(self, name: str) -> Snapshot | None:
        """One snapshot, with its properties; None when there is none of that name."""
        return next(iter(self.snapshots_named((name,))), None)

    def snapshots_named(self, names: Sequence[str]) -> list[Snapshot]:
        """The snapshots of these that there are, with their properties, oldest first."""
        columns = ("-t", "snapshot", "-o", parse.SNAPSHOT_COLUMNS)
        try:
            listing = self._zfs("list", "-Hp", *columns, "--", *names, mutates=False)
            return parse.snapshots(listing, self._own_properties(*names))
        except DatasetNotFound:
            if len(names) == 1:
                return []
            return [found for name in names for found in self.snapshots_named((name,))]

    def used(self, name: str) -> int:
        """Bytes that would be free if the dataset and everything below it were gone."""
        return int(self._zfs("get", "-Hp", "-o", "value", "used", "--", name, mutates=False))

    def user_properties(self, root: str) -> dict[str, dict[str, str]]:
        """Dataset -> user properties set on it itself, for `root` and every file system below it."""
        return parse.user_properties(self._own_properties(root, where=("-t", "filesystem", "-r")))

    def own_settings(self, name: str) -> dict[str, str]:
        """Properties, native ones and users', that are set on this dataset itself."""
        columns = ("-s", "local,received", "-o", "property,value")
        listing = self._zfs("get", "-Hp", *columns, "all", "--", name, mutates=False)
        return dict(line.split("\t", 1) for line in listing.split("\n") if "\t" in line)

    def values(self, name: str, *properties: str) -> tuple[str, ...]:
        """What these properties are, wherever they are set."""
        asked = ("get", "-Hp", "-o", "value", ",".join(properties), "--", name)
        return tuple(self._zfs(*asked, mutates=False).split("\n")[: len(properties)])

    def origins(self, root: str) -> dict[str, str]:
        """Dataset -> the snapshot it is a clone of ("" for none), for `root` and all file systems below."""
        listing = self._zfs(
            "list", "-H", "-t", "filesystem", "-r", "-o", "name,origin", "--", root, mutates=False
        )
        rows = (line.split("\t") for line in listing.split("\n") if line)
        return {name: origin.removeprefix("-") for name, origin in rows}

    def _own_properties(
        self, *names: str, where: Sequence[str] = (), columns: str = "name,property,value"
    ) -> str:
        asked = ("-s", "local,received", "-o", columns, "all")
        return self._zfs("get", "-Hp", *where, *asked, "--", *names, mutates=False)

    # snapshots

    def snapshot(self, names: Sequence[str], properties: Mapping[str, str], *, timeout: float) -> None:
        """One atomic snapshot of several datasets of one pool, properties included; `timeout` in seconds."""
        self._zfs("snapshot", *_options(properties), "--", *names, timeout=timeout)

    def taking(
        self,
        names: Sequence[str],
        properties: Mapping[str, str],
        *,
        timeout: float,
        by: Prepared | None = None,
    ) -> AbstractContextManager[Taking]:
        """The same, done while the body runs: it can see when nothing more gets into the snapshot.

        What stands by (see `prepare`) does it; where it fails, the command does, or says why it cannot be.
        """
        pool = re.split("[/@]", names[0], maxsplit=1)[0]

        def take() -> None:
            end = time.monotonic() + timeout
            if by is None or not by.snapshot(names, properties, timeout=timeout):
                self.snapshot(names, properties, timeout=max(0.1, end - time.monotonic()))

        return taking(pool, take)

    def set_properties(self, target: str, properties: Mapping[str, str]) -> None:
        """Set properties on a dataset or snapshot."""
        self._zfs("set", *(f"{k}={v}" for k, v in properties.items()), target)

    def mark_snapshot(self, snapshot: Snapshot, name: str, value: str) -> None:
        """Set a user property on exactly this snapshot. Raise NotFound if the name is another's now."""
        self._require_guid(str(snapshot), snapshot.guid)
        self.set_properties(str(snapshot), {name: value})

    def clear_property(self, target: str, name: str) -> None:
        self._zfs("inherit", name, target)

    def destroy_snapshot(self, snapshot: Snapshot) -> None:
        """Destroy exactly this snapshot. Raise NotFound if the name now belongs to another one, DatasetBusy,
        saying by whom where that can be seen."""
        self._require_guid(str(snapshot), snapshot.guid)
        try:
            self._zfs("destroy", str(snapshot))
        except DatasetBusy as busy:
            self._say_who(busy, str(snapshot))
            raise

    def destroying_frees(self, snapshots: Sequence[Snapshot]) -> int:
        """Bytes that would be free if all of these were gone, shared blocks counted once for each dataset.

        Raise DatasetBusy when one of them is held or cloned from.
        """
        by_dataset: dict[str, list[str]] = {}
        for snapshot in snapshots:
            by_dataset.setdefault(snapshot.dataset, []).append(snapshot.name)
        return sum(
            parse.reclaimed(
                self._zfs("destroy", "-nvp", f"{dataset}@{','.join(names[n : n + AT_ONCE])}", mutates=False)
            )
            for dataset, names in by_dataset.items()
            for n in range(0, len(names), AT_ONCE)
        )

    def holds(self, snapshots: Sequence[Snapshot]) -> dict[int, tuple[str, ...]]:
        """Guid -> tags of the holds, of those of the snapshots that are held."""
        held = {str(s): s.guid for s in snapshots if s.holds}
        names = list(held)
        tags = [
            row
            for n in range(0, len(names), AT_ONCE)
            for row in parse.holds(self._zfs("holds", "-H", "--", *names[n : n + AT_ONCE], mutates=False))
        ]
        return {guid: tuple(tag for name, tag in tags if name == full) for full, guid in held.items()}

    def hold(self, tag: str, snapshot: Snapshot) -> None:
        """Pin against destruction. A hold of this tag that is there already is success."""
        try:
            self._zfs("hold", "--", tag, str(snapshot))
        except CommandFailed as failure:
            if "tag already exists" not in failure.stderr:
                raise

    def release(self, tag: str, snapshot: Snapshot) -> None:
        """Take a hold back. A hold that is gone already is success."""
        try:
            self._zfs("release", "--", tag, str(snapshot))
        except CommandFailed as failure:
            if "no such tag" not in failure.stderr and not isinstance(failure, DatasetNotFound):
                raise

    # file systems

    def create(self, name: str, properties: Mapping[str, str]) -> None:
        """A new, unmounted file system (canmount=noauto), with its missing parents left missing."""
        self._zfs("create", "-u", *_options(properties), "--", name)

    def clone(self, snapshot: Snapshot, target: str, properties: Mapping[str, str]) -> None:
        self.clone_each({target: snapshot}, properties)

    def clone_each(self, targets: Mapping[str, Snapshot], properties: Mapping[str, str]) -> None:
        """Clone each target from its origin (target -> origin). Verify all origins before the first clone.

        User, group and project quotas are in the snapshot. They are removed from the clone: the replay would
        fail if production raised a quota after the backup. A snapshot that was received raw does not tell
        them, but its clone does.
        """
        if targets:
            self._require_guids({str(s): s.guid for s in targets.values()})
        for target, snapshot in targets.items():
            self._zfs("clone", *_options(properties), "--", str(snapshot), target)
            if quotas := self._quotas(target):
                self.set_properties(target, dict.fromkeys(quotas, "none"))

    def _quotas(self, name: str) -> list[str]:
        """Return the user, group and project quota properties that are set on a dataset."""
        columns = ("-o", "type,name,quota,objquota", "--", name)
        try:
            listing = self._zfs("userspace", "-nHp", "-t", "all", *columns, mutates=False)
            listing += self._zfs("projectspace", "-Hp", *columns, mutates=False)
        except CommandFailed as failure:
            if not any(phrase in failure.stderr for phrase in QUOTAS_UNKNOWN):
                raise
            return []
        return parse.quotas(listing)

    def mount(self, name: str, *, only_at: Path | None = None) -> None:
        """Mount where its `mountpoint` says; being there already is success.

        Raise Refused, with nothing mounted, where others could lead the path elsewhere, when it is mounted
        at another place, and when its place is not `only_at`: whoever may set the property does so at any
        moment.
        """
        asked = self._zfs("get", "-Hp", "-o", "value", ",".join(FACTS), "--", name, mutates=False)
        facts = dict(zip(FACTS, asked.removesuffix("\n").split("\n", len(FACTS) - 1), strict=True))
        place = place_of(name, facts, self.mounts)
        if only_at and place != only_at:
            raise Refused(f"{name} is not mounted at {place}: its mountpoint has to be {only_at}")
        if found := self._mounts().get(name):
            if not self.mounts.is_there(name, place):
                raise elsewhere(name, found, place)
            return
        require_empty(name, facts, place, self.mounts)
        with _named():
            self.mounts.mount(name, place, *mount_options(facts))

    def unmount(self, name: str) -> None:
        """Unmount; not mounted is success. Raise DatasetBusy when somebody goes on using it.

        Snapshots that were looked into (`.zfs/snapshot`) stay mounted below it for minutes. They go with it
        only if that was done in our own mount namespace, and a daemon under systemd has another.
        """
        for source, mountpoint in self._mounts().items():
            if source.startswith(f"{name}@"):
                # It is gone, or is why the next one fails.
                with contextlib.suppress(CommandFailed, Refused):
                    self.mounts.unmount(source, Path(mountpoint))
        self._patiently(name, lambda: self._unmount_once(name))

    def _unmount_once(self, name: str) -> None:
        """Not where it was a while ago: others unmount, too."""
        if at := self._mounts().get(name):
            try:
                self.mounts.unmount(name, Path(at))
            except (CommandFailed, Refused):
                if name in self._mounts():
                    raise

    def promote(self, dataset: Dataset) -> None:
        """Let exactly this clone take over the snapshot it was made from, and all older ones."""
        self._require_guid(dataset.name, dataset.guid)
        self._zfs("promote", dataset.name)

    def rename(self, dataset: Dataset, name: str) -> None:
        """Give exactly this file system another name; it is mounted nowhere else by that.

        Raise DatasetExists if the name is another's.
        """
        self._require_guid(dataset.name, dataset.guid)
        self._zfs("rename", "-u", "--", dataset.name, name)

    def destroy_filesystem(self, dataset: Dataset) -> None:
        """Destroy exactly this file system, which must have neither children nor snapshots."""
        self._require_guid(dataset.name, dataset.guid)
        if dataset.name in self._mounts():
            # Not unmounted for nothing, where it has children or snapshots.
            self._zfs("destroy", "-n", dataset.name, mutates=False)
            self.unmount(dataset.name)
        self._patiently(dataset.name, lambda: self._zfs("destroy", dataset.name))

    def in_use(self, names: Iterable[str], *, apart_from: int | None = None) -> dict[str, list[str]]:
        """Map each of these datasets and snapshots of this host that is in use, and so cannot be unmounted or
        destroyed, to clauses that say by whom. The server with the process id `apart_from` does not count."""
        mounted = self._mounts()
        return self.mounts.in_use({name: mounted.get(name, "") for name in names}, apart_from)

    def require_unused(self, names: Sequence[str], *, apart_from: int | None = None) -> None:
        """Raise DatasetBusy, with the users, if any of these is in use; call it before a change."""
        for attempt in range(1, BUSY_TRIES + 1):
            if not (who := self.in_use(names, apart_from=apart_from)):
                return
            if attempt < BUSY_TRIES:
                time.sleep(BUSY_PAUSE_S)
        busy = DatasetBusy(("zfs", "destroy"), 1, "dataset is busy")
        busy.args = (f"{_joined(who)}. Nothing was changed. End this use, then run the same command again",)
        raise busy

    def _patiently(self, name: str, act: Callable[[], object]) -> None:
        for attempt in range(1, BUSY_TRIES + 1):
            try:
                with _named():
                    act()
                return
            except DatasetBusy as busy:
                if attempt == BUSY_TRIES:
                    self._say_who(busy, name)
                    raise
                time.sleep(BUSY_PAUSE_S)

    def _say_who(self, busy: DatasetBusy, name: str) -> None:
        """Add to the failure who uses the dataset, if that can be found out."""
        if busy.where:
            return  # the mounts and processes of another host are not seen here
        with contextlib.suppress(OSError):
            if who := self.in_use((name,)):
                busy.args = (f"{busy}; {_joined(who)}",)

    def _mounts(self) -> dict[str, str]:
        """Dataset or snapshot -> where it is mounted."""
        mounts = self.mountinfo.read_bytes().decode(errors="surrogateescape")
        return parse.zfs_mounts(mounts.split("\n"))

    def _require_guid(self, name: str, guid: int) -> None:
        self._require_guids({name: guid})

    def _require_guids(self, guids: Mapping[str, int]) -> None:
        """Names may be reused: whatever we change, we prove first that it is what we mean."""
        listing = self._zfs("get", "-Hp", "-o", "name,value", "guid", "--", *guids, mutates=False)
        # In an order of its own, whatever the order of the names.
        found = dict(line.split("\t") for line in listing.split("\n") if line)
        for name, guid in guids.items():
            if found[name] != str(guid):
                raise NotFound(
                    f"{name} is not the one expected (guid {found[name]}, not {guid}): nothing was changed"
                )

    def _zfs(self, *argv: str, mutates: bool = True, timeout: float = 600) -> str:
        with _named():
            return self.runner(("zfs", *argv), mutates=mutates, timeout=timeout)


@contextlib.contextmanager
def _named() -> Iterator[None]:
    """A failure of the body under the name that callers can act on."""
    try:
        yield
    except CommandFailed as failure:
        raise translate(failure) from failure


def _joined(who: Mapping[str, list[str]]) -> str:
    """The first few of the clauses."""
    clauses = [clause for each in who.values() for clause in each]
    more = f", and {len(clauses) - MOST_TOLD} more" if clauses[MOST_TOLD:] else ""
    return "; ".join(clauses[:MOST_TOLD]) + more


def _options(properties: Mapping[str, str]) -> list[str]:
    return [part for key, value in properties.items() for part in ("-o", f"{key}={value}")]
