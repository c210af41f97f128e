"""A dataset that copies are received below: on another host, by ssh, or on another pool of this one.

ROOT/INSTANCE/DATASET holds the copies of DATASET. Its parents are containers: they hold nothing themselves.
The room zfs is the same for here and there; what differs is the runner.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path, PurePosixPath

from zbackup.config.units import instance_name_is_valid
from zbackup.destinations.archive_leftovers import leftovers, orphan, remove_leftovers
from zbackup.destinations.archived_bytes import paced, proven
from zbackup.destinations.copies import (
    MOST_INSTANCES,
    Copies,
    StreamStep,
    by_home,
    committed,
    instance_without_home,
)
from zbackup.destinations.zfs_archive import LocalLogs, Logs, RemoteLogs
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.archive_order import LOG
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed, DatasetNotFound, NotFound, NotResumable, VerificationFailed
from zbackup.model.record import Record
from zbackup.model.retention import CONDEMNED
from zbackup.model.shipping import Inventory, OutgoingStream, commit_properties
from zbackup.model.snapshot import Snapshot
from zbackup.proc.pipeline import Command, Meter, transfer
from zbackup.proc.run import Runner, run
from zbackup.proc.ssh import SshHost, SshRunner
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.errors import translate
from zbackup.zfs.stream_content import Content, opens, read_content
from zbackup.zfs.streams import ZfsStreams, content_argv, failure_of, receive_argv, resume_argv, send_argv

_connections = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsSession:
    """`home` is ROOT/INSTANCE; `command` makes one end of a stream of a zfs command over there.

    `raws` is what was asked already: which datasets are encrypted, and so leave raw. No dataset changes that.
    `here`: on a pool of this host.
    """

    root: str
    home: str
    address: str
    zfs: ZfsStreams
    command: Callable[[tuple[str, ...]], Command]
    logs: Logs
    raws: dict[str, bool] = field(default_factory=dict)
    here: bool = False

    def inventory(self) -> Inventory:
        received, locked = self.zfs.received_below(self.home)
        found = [each for each in received if each.name != LOG]
        if not found:
            self.require_root()
            locked = self.zfs.locked(self.root)
        return Inventory(address=self.address, datasets=tuple(found), locked=locked)

    def store(self, part: OutgoingStream, sender: Command, meter: Meter) -> int:
        target = f"{self.home}/{part.dataset}"
        if part.base is None:
            self._make_room(part.dataset)
        count = transfer(sender, self.command(receive_argv(target)), meter)
        self._confirm(f"{target}@{part.name}", part.guid)
        return count

    def abort(self, dataset: str) -> None:
        self.zfs.abort(f"{self.home}/{dataset}")

    def commit(self, record: Record, parts: Sequence[OutgoingStream], when: str) -> None:
        names = [f"{self.home}/{part.dataset}@{part.name}" for part in parts]
        self.zfs.mark(names, commit_properties(record, [part.guid for part in parts], when))

    def copies(self) -> Copies:
        try:
            return committed(Zfs(self.zfs.runner).snapshots_below(self.home))
        except DatasetNotFound:
            self.require_root()
            return Copies((), ())

    def remove(self, backup: Backup, when: str) -> None:
        zfs = Zfs(self.zfs.runner)
        first, *others = backup.snapshots
        if others:
            if self.here:
                zfs.require_unused([str(snapshot) for snapshot in backup.snapshots])
            zfs.mark_snapshot(first, CONDEMNED, when)
        for snapshot in (*reversed(others), first):
            with suppress(DatasetNotFound):
                zfs.destroy_snapshot(snapshot)

    def stream_steps(self, wanted: Sequence[Snapshot]) -> Sequence[StreamStep]:
        return [StreamStep(copy, base) for base, copy in zip((None, *wanted), wanted, strict=False)]

    def size(self, step: StreamStep) -> int:
        return self.zfs.size(self._send(step))

    def fetch(self, step: StreamStep, token: str, receiver: Command, meter: Meter) -> int:
        if token and self.zfs.token(token) is None:
            raise NotResumable(f"{step.copy} at {self.address}: what was fetched of it cannot be continued")
        argv = resume_argv(token, raw=self._raw(step)) if token else self._send(step)
        return transfer(self.command(argv), receiver, meter)

    def content(self, copy: Snapshot, most: int, meter: Meter, *, raw: bool | None = None) -> Content:
        argv = content_argv(str(copy), raw=self.zfs.encrypted(copy.dataset) if raw is None else raw)
        return read_content(self.command(argv), most, meter)

    def unopened(self, copy: Snapshot) -> str:
        root = self.zfs.key_loaded(copy.dataset)
        return "" if not root or opens(self.command(content_argv(str(copy), raw=False))) else root

    def holds(self, copies: Sequence[Snapshot]) -> Mapping[int, tuple[str, ...]]:
        return Zfs(self.zfs.runner).holds(copies)

    def hold(self, tag: str, copy: Snapshot) -> None:
        Zfs(self.zfs.runner).hold(tag, copy)

    def release(self, tag: str, copy: Snapshot) -> None:
        Zfs(self.zfs.runner).release(tag, copy)

    def orphans(self) -> tuple[str, ...]:
        return tuple(map(orphan, leftovers(self)))

    def collect_garbage(self) -> tuple[str, ...]:
        return remove_leftovers(self)

    def archived(self) -> ArchiveInventory:
        found = self.logs.archived()
        if not found.files:
            self.require_root()
        return found

    def claim_log(self, server: str, epoch: int, writer: str) -> str:
        return self.logs.claim(server, epoch, writer)

    def append_log(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        return self.logs.append(file, chunk, data)

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        return paced(proven(file, begin, end, self.logs.chunks(file, begin, end)), meter)

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        # Whoever can write there has written its bytes, too: nothing there proves more.
        return archived.complete_to

    def remove_log(self, file: LogFileId) -> None:
        self.logs.remove(file)

    def _send(self, step: StreamStep) -> tuple[str, ...]:
        return send_argv(str(step.copy), str(step.base) if step.base else None, raw=self._raw(step))

    def _raw(self, step: StreamStep) -> bool:
        dataset = step.copy.dataset
        if dataset not in self.raws:
            self.raws[dataset] = self.zfs.encrypted(dataset)
        return self.raws[dataset]

    def _make_room(self, dataset: str) -> None:
        """The containers that the dataset lies in; what lies in its own place is no concern of this."""
        above = [str(p) for p in reversed(PurePosixPath(dataset).parents) if str(p) != "."]
        for name in (self.home, *(f"{self.home}/{path}" for path in above)):
            self.zfs.container(name)

    def require_root(self) -> None:
        """Raise NotFound for want of the address: a pool that was not imported is no empty one."""
        if not Zfs(self.zfs.runner).exists(self.root):
            raise NotFound(
                f"there is no dataset {self.root} at {self.address}: import its pool, or make the dataset "
                "there"
            )

    def _confirm(self, name: str, guid: int) -> None:
        found = self.zfs.guid(name)
        if found != guid:
            raise VerificationFailed(
                f"{name} at {self.address} has guid {found}, not {guid}: it is not what was sent"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsDestination:
    """`target` None: this host. `control` is what the sockets of ssh connections are called like."""

    name: str
    address: str
    root: str
    instance: str
    target: SshHost | None
    control: Path
    runner: Runner = run

    @property
    def aside(self) -> str:
        return f"rename them over there (zfs rename .../{self.instance} .../{self.instance}.old)"

    @property
    def files(self) -> tuple[Path, ...]:
        named = (self.target.identity, self.target.known_hosts) if self.target else ()
        return tuple(file for file in named if file)

    @property
    def here(self) -> str:
        return "" if self.target else self.root

    def instances(self) -> Sequence[tuple[str, str]]:
        with self.connect() as session:
            session.require_root()
            snapshots = Zfs(session.zfs.runner).snapshots_below(self.root)
        homes = {home for home, copies in by_home(self.root, snapshots).items() if committed(copies).backups}
        named = (home.removeprefix(f"{self.root}/").rpartition("/") for home in sorted(homes))
        found = [(path, name) for path, _, name in named if instance_name_is_valid(name)]
        own = self.root.rpartition("/")[2]
        if any(instance_without_home(self.root, s) == own for s in snapshots):
            raise NotFound(f"{self.address} is that of the instance {own} alone: name the dataset above it")
        return found[:MOST_INSTANCES]

    @contextmanager
    def connect(self) -> Iterator[ZfsSession]:
        if self.target is None:
            here = LocalLogs(home=self._home, address=self.address, runner=self.runner)
            yield self._session(self.runner, self._local, here)
            return
        # A name of its own: who ends a connection that others go through ends their streams.
        own = f"{self.control.stem}.{os.getpid():x}.{next(_connections):x}{self.control.suffix}"
        ssh = SshRunner(self.target, self.control.with_name(own), self.runner)
        try:

            def command(argv: tuple[str, ...]) -> Command:
                return _remote(ssh, argv)

            there = RemoteLogs(home=self._home, address=self.address, command=command)
            yield self._session(ssh, command, there)
        finally:
            ssh.close()

    @property
    def _home(self) -> str:
        return f"{self.root}/{self.instance}"

    def _session(
        self, runner: Runner, command: Callable[[tuple[str, ...]], Command], logs: Logs
    ) -> ZfsSession:
        return ZfsSession(
            root=self.root,
            home=self._home,
            address=self.address,
            zfs=ZfsStreams(runner),
            command=command,
            logs=logs,
            here=self.target is None,
        )

    @staticmethod
    def _local(argv: tuple[str, ...]) -> Command:
        return Command(argv=argv, failure=lambda status, said: failure_of(argv, status, said))


def _remote(ssh: SshRunner, argv: tuple[str, ...]) -> Command:
    def failure(status: int, said: str) -> CommandFailed:
        return translate(ssh.failure(argv, status, said))

    return Command(argv=ssh.command(argv), failure=failure)
