"""A server that does to its log whatever servers do, an archive in memory, and who archives it."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.test_recovery_of_files import NOW, record
from tests.unit.samples import NOON
from zbackup.destinations.copies import Copies
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    FLAGS_AT,
    GTID_LIST,
    PREVIOUS_GTIDS,
)
from zbackup.jobs.archive.archive import append_all
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Taken
from zbackup.model.log import LogPosition, LogSpan
from zbackup.model.relocation import Relocation
from zbackup.plan.archive import ArchivePlan, plan_archive
from zbackup.proc.pipeline import Meter

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
IN_USE_AT = FIRST_EVENT + FLAGS_AT


def masked(content: bytes) -> bytes:
    return content[:IN_USE_AT] + bytes((content[IN_USE_AT] & ~1,)) + content[IN_USE_AT + 1 :]


HEAD = {False: 158, True: 299}
"""Bytes at the beginning of a file that no other file has; True for MariaDB."""


class Killed(Exception):
    """The archiver ends here."""


@dataclass
class Server:
    """A server's log directory, and whatever it ever was."""

    directory: Path
    mariadb: bool = False
    log_bin: str = "binlog"
    files: dict[int, Builder] = field(default_factory=dict)
    torn: bytes = b""
    began: int = 0
    number: int = 0
    past: list[dict[int, bytes]] = field(default_factory=list)
    clock: datetime = NOON
    times: list[datetime] = field(default_factory=list)
    snapshots: list[BackupFiles] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin(1)

    @property
    def newest(self) -> int:
        return max(self.files)

    def now(self) -> datetime:
        self.clock += timedelta(milliseconds=1)
        return self.clock

    def at(self, moment: datetime) -> dict[int, bytes]:
        """The log as it was just before that moment."""
        return self.past[bisect_left(self.times, moment) - 1]

    def begin(self, number: int) -> None:
        builder = self.headed()
        # What tells one file from another of the same name; a server is not so fast that it is the same.
        self.began += 1
        if self.mariadb:
            builder.event(GTID_LIST, (1).to_bytes(4, "little") + bytes(8) + self.began.to_bytes(8, "little"))
        else:
            builder.event(PREVIOUS_GTIDS, bytes(8), seconds=NOW // 1_000_000 + self.began)
        self.files[number] = builder
        self.write()

    def headed(self) -> Builder:
        return Builder(mariadb=self.mariadb)

    def commit(self, size: int = 40) -> None:
        if self.torn:
            return
        self.number += 1
        if self.mariadb:
            self.files[self.newest].maria(NOW // 1_000_000 + self.number, self.number, size=size)
        else:
            self.files[self.newest].mysql(NOW + self.number, self.number, size=size)
        self.write()

    def begin_commit(self) -> None:
        """Half a transaction is in the file."""
        if self.torn:
            return
        whole = Builder(mariadb=self.mariadb)
        whole.data = bytearray(self.files[self.newest].data)
        before = len(whole.data)
        if self.mariadb:
            whole.maria(NOW // 1_000_000 + self.number, self.number + 1)
        else:
            whole.mysql(NOW + self.number, self.number + 1)
        self.torn = bytes(whole.data[before : before + (len(whole.data) - before) * 2 // 3])
        self.write()

    def rotate(self) -> None:
        if self.torn:
            return
        newest = self.newest
        self.files[newest].rotate(f"{self.log_bin}.{newest + 1:06}")
        self.begin(newest + 1)

    def crash(self, lost: int) -> None:
        """The server has lost its last transactions, and what it was writing; it begins another file."""
        self.torn = b""
        last = self.files[self.newest]
        if lost and last.written:
            kept = last.written[max(0, len(last.written) - lost)]
            del last.data[kept.start :]
            last.written = [w for w in last.written if w.end <= kept.start]
        self.write()
        self.begin(self.newest + 1)

    def reset(self) -> None:
        self.torn = b""
        self.files = {}
        self.begin(1)

    def purge(self) -> None:
        for number in sorted(self.files)[:-1]:
            del self.files[number]
        self.write()

    def snapshot(self) -> None:
        where = self._copy(f"snapshot-{len(self.snapshots)}", dict(self._contents()))
        first, last = min(self.files), self.newest
        end = LogPosition.of(f"{self.log_bin}.{last:06}", len(self.files[last].data))
        held = record(end, engine="mariadb" if self.mariadb else "mysql").with_log(
            "log", LogSpan(f"{self.log_bin}.{first:06}:4", str(end))
        )
        taken = self.now()
        held = replace(held, taken=taken).with_end(as_of=taken, complete_to=NOON if self.torn else taken)
        self.snapshots.insert(0, BackupFiles(held, where))

    def live(self) -> BackupFiles:
        place = Relocation((("/srv/log", str(self.directory / "live")),))
        base = f"/srv/log/{self.log_bin}"
        there = {"log_bin_basename": base, "log_bin_index": f"{base}.index"}
        held = record(None)
        return BackupFiles(
            replace(held, server_uuid=UUID, role="primary", server={**held.server, **there}), place
        )

    def write(self) -> None:
        contents = dict(self._contents())
        self._copy("live", contents)
        self.past.append(contents)
        self.times.append(self.now())

    def _contents(self) -> Iterator[tuple[int, bytes]]:
        for number, builder in self.files.items():
            content = bytes(builder.data)
            if number == self.newest:
                content = content[:IN_USE_AT] + b"\x01" + content[IN_USE_AT + 1 :] + self.torn
            yield number, content

    def _copy(self, name: str, contents: dict[int, bytes]) -> Relocation:
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        wanted = {f"{self.log_bin}.{number:06}": content for number, content in contents.items()}
        for path in directory.iterdir():
            if path.name not in wanted:
                path.unlink()
        for file, content in wanted.items():
            (directory / file).write_bytes(content)
        (directory / f"{self.log_bin}.index").write_text("".join(f"/srv/log/{n}\n" for n in sorted(wanted)))
        return Relocation((("/srv/log", str(directory)),))


@dataclass
class Archive:
    """A destination in memory that can do no more than the protocol says."""

    chunks: dict[str, list[tuple[Chunk, bytes]]] = field(default_factory=dict)
    files: dict[str, LogFileId] = field(default_factory=dict)
    claims: dict[tuple[str, int], str] = field(default_factory=dict)

    def copies(self) -> Copies:
        return Copies((), ())

    def claim_log(self, server: str, epoch: int, writer: str) -> str:
        return self.claims.setdefault((server, epoch), writer)

    def archived(self) -> ArchiveInventory:
        inventory = ArchiveInventory(address="memory")
        for key, chunks in self.chunks.items():
            for chunk, _ in chunks:
                inventory = inventory.with_append(self.files[key], chunk, chunk.size)
        return inventory

    def append_log(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        before = self.chunks.get(file.key, [])
        size = before[-1][0].end if before else 0
        if size != chunk.begin or (before and before[-1][0].closed):
            raise Taken(f"{file} has {size}")
        assert len(data) == chunk.size
        self.files[file.key] = file
        self.chunks[file.key] = [*before, (chunk, data)]
        return len(data)

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        yield self.content(file)[begin:end]

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        return archived.complete_to

    def remove_log(self, file: LogFileId) -> None:
        raise AssertionError("an archiver removes nothing")

    def content(self, file: LogFileId) -> bytes:
        return b"".join(data for _, data in self.chunks[file.key])


@dataclass
class Archiver:
    """One process that archives; the next one remembers nothing."""

    server: Server
    archive: Archive
    follower: MysqlLogFollower = field(default_factory=MysqlLogFollower)
    most: int = 1 << 24

    def run(self, kill_after: int | None = None, since: str = "") -> ArchivePlan:
        inventory = self.archive.archived()
        newest = max((f.file.epoch for f in inventory.files), default=0)
        current = [f for f in inventory.files if f.file.epoch == newest]
        here = self.follower.scan(
            self.server.live(), lambda: self.server.snapshots, current, since, self.server.now
        )
        plan = plan_archive(UUID, inventory.files, here, self.most)
        done = 0

        def appended(_: ArchiveInventory, __: Chunk) -> None:
            nonlocal done
            done += 1
            if done == kill_after:
                raise Killed

        append_all(self.archive, self.follower, plan, inventory, appended)
        return plan


def check(server: Server, archive: Archive) -> None:
    past = [{n: masked(c) for n, c in then.items()} for then in server.past]
    files = archive.archived().files
    for each in files:
        content = archive.content(each.file)
        assert any(then.get(each.file.number, b"").startswith(content) for then in past), each
    for each in files:
        for other in files:
            if other.continues(each):
                before, after = archive.content(each.file), archive.content(other.file)
                # Both were there at once, and of the one before nothing but what was torn is missing.
                assert any(
                    then.get(each.file.number, b"").startswith(before)
                    and len(then[each.file.number]) - len(before) < 300
                    and then.get(other.file.number, b"").startswith(after[: HEAD[server.mariadb]])
                    for then in past
                ), (each, other)


def require_complete(server: Server, archive: Archive) -> None:
    """Before the moment that a file is complete to, the server had no more than is archived."""
    for file in archive.archived().files:
        if file.complete_to is None or file.complete_to <= NOON:
            continue
        then = server.at(file.complete_to)
        content = archive.content(file.file)
        assert max(then) == file.file.number, (file, "the server had begun another file")
        assert content.startswith(masked(then[file.file.number])), file


def require_up_to_date(server: Server, archive: Archive) -> Sequence[ArchivedFile]:
    """The newest epoch holds what the server has, in an unbroken row back to its first file there."""
    files = archive.archived().files
    newest = files[-1]
    whole = masked(dict(server._contents())[server.newest])
    content = archive.content(newest.file)
    assert newest.file.number == server.newest
    assert not newest.closed
    assert content == whole[: len(whole) - len(server.torn)]
    row = [each for each in files if each.file.epoch == newest.file.epoch]
    # After a reset the server may have another file of a number that is archived.
    there = {number: masked(content) for number, content in server._contents()}
    same = [f for f in row[:-1] if there.get(f.file.number, b"").startswith(archive.content(f.file))]
    assert all(each.closed for each in same)
    return row
