"""Whatever a server does with its log, and wherever the archiver is killed: what is archived is what the
server had, nothing of it is ever overwritten, and no hole is taken for a whole log."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.test_recovery_of_files import NOW, record
from tests.unit.samples import NOON
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.engines.mysql.binlog.errors import BinlogEncrypted
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    FLAGS_AT,
    GTID_LIST,
    PREVIOUS_GTIDS,
    START_ENCRYPTION,
)
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.jobs.archive.append import append_all
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Taken, VerificationFailed
from zbackup.model.log import LogSpan
from zbackup.model.relocation import Relocation
from zbackup.plan.archive import ArchivePlan, plan_archive
from zbackup.proc.pipeline import Meter

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
IN_USE_AT = FIRST_EVENT + FLAGS_AT


def masked(content: bytes) -> bytes:
    return content[:IN_USE_AT] + bytes((content[IN_USE_AT] & ~1,)) + content[IN_USE_AT + 1 :]


class Killed(Exception):
    """The archiver ends here."""


@dataclass
class Server:
    """A server's log directory, and whatever it ever was."""

    directory: Path
    mariadb: bool = False
    files: dict[int, Builder] = field(default_factory=dict)
    torn: bytes = b""
    began: int = 0
    number: int = 0
    past: list[dict[int, bytes]] = field(default_factory=list)
    snapshots: list[BackupFiles] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begin(1)

    @property
    def newest(self) -> int:
        return max(self.files)

    def begin(self, number: int) -> None:
        builder = Builder(mariadb=self.mariadb)
        # What tells one file from another of the same name; a server is not so fast that it is the same.
        self.began += 1
        if self.mariadb:
            builder.event(GTID_LIST, (1).to_bytes(4, "little") + bytes(8) + self.began.to_bytes(8, "little"))
        else:
            builder.event(PREVIOUS_GTIDS, bytes(8), seconds=NOW // 1_000_000 + self.began)
        self.files[number] = builder
        self.write()

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
        self.files[newest].rotate(f"binlog.{newest + 1:06}")
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
        end = LogPosition.of(f"binlog.{last:06}", len(self.files[last].data))
        held = record(end, engine="mariadb" if self.mariadb else "mysql").with_log(
            "log", LogSpan(f"binlog.{first:06}:4", str(end))
        )
        self.snapshots.insert(0, BackupFiles(held, where))

    def live(self) -> BackupFiles:
        place = Relocation((("/srv/log", str(self.directory / "live")),))
        return BackupFiles(replace(record(None), server_uuid=UUID, role="primary"), place)

    def write(self) -> None:
        contents = dict(self._contents())
        self._copy("live", contents)
        self.past.append(contents)

    def _contents(self) -> Iterator[tuple[int, bytes]]:
        for number, builder in self.files.items():
            content = bytes(builder.data)
            if number == self.newest:
                content = content[:IN_USE_AT] + b"\x01" + content[IN_USE_AT + 1 :] + self.torn
            yield number, content

    def _copy(self, name: str, contents: dict[int, bytes]) -> Relocation:
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        wanted = {f"binlog.{number:06}": content for number, content in contents.items()}
        for path in directory.iterdir():
            if path.name not in wanted:
                path.unlink()
        for file, content in wanted.items():
            (directory / file).write_bytes(content)
        (directory / "binlog.index").write_text("".join(f"/srv/log/{n}\n" for n in sorted(wanted)))
        return Relocation((("/srv/log", str(directory)),))


@dataclass
class Archive:
    """A destination in memory that can do no more than the protocol says."""

    chunks: dict[str, list[tuple[Chunk, bytes]]] = field(default_factory=dict)
    files: dict[str, LogFileId] = field(default_factory=dict)

    def archived(self) -> ArchiveInventory:
        inventory = ArchiveInventory(place="memory")
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
    clock: datetime = NOON

    def now(self) -> datetime:
        self.clock += timedelta(milliseconds=1)
        return self.clock

    def run(self, kill_after: int | None = None, since: str = "") -> ArchivePlan:
        inventory = self.archive.archived()
        newest = max((f.file.epoch for f in inventory.files), default=0)
        current = [f for f in inventory.files if f.file.epoch == newest]
        here = self.follower.look(self.server.live(), lambda: self.server.snapshots, current, since, self.now)
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
                    and then.get(other.file.number, b"").startswith(after)
                    for then in past
                ), (each, other)


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
    assert all(each.closed for each in row[:-1] if each.file.number in server.files)
    return row


STEPS = st.one_of(
    st.tuples(st.just("commit"), st.integers(1, 600)),
    st.tuples(st.just("begin_commit")),
    st.tuples(st.just("rotate")),
    st.tuples(st.just("crash"), st.integers(0, 3)),
    st.tuples(st.just("reset")),
    st.tuples(st.just("purge")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("archive"), st.none() | st.integers(1, 4)),
    st.tuples(st.just("archive"), st.none()),
    st.tuples(st.just("restart")),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=25), st.booleans(), st.sampled_from([100, 700, 1 << 24]))
def test_the_archive_is_what_the_server_had(
    steps: list[tuple[str, *tuple[int | None, ...]]], mariadb: bool, most: int
) -> None:
    with TemporaryDirectory() as directory:
        server, archive = Server(Path(directory), mariadb), Archive()
        archiver = Archiver(server, archive, most=most)
        kept: dict[str, bytes] = {}
        for name, *values in steps:
            if name == "archive":
                try:
                    archiver.run(values[0])
                except Killed:
                    archiver = Archiver(server, archive, most=most, clock=archiver.clock)
                for key, content in kept.items():
                    assert archive.content(archive.files[key]).startswith(content)
                kept = {key: archive.content(file) for key, file in archive.files.items()}
                check(server, archive)
            elif name == "restart":
                archiver = Archiver(server, archive, most=most, clock=archiver.clock)
            else:
                getattr(server, name)(*values)
        archiver.run()
        if len(archive.files) and archive.archived().files[-1].file.number != server.newest:
            archiver.run()  # what was left in front of a gap comes first
        check(server, archive)
        require_up_to_date(server, archive)
        assert not archiver.run().appends


@pytest.fixture
def server(tmp_path: Path) -> Server:
    return Server(tmp_path)


def test_what_was_purged_comes_from_a_snapshot(server: Server) -> None:
    archive = Archive()
    server.commit()
    Archiver(server, archive).run()
    for _ in range(3):
        server.commit()
        server.rotate()
    server.rotate()
    server.snapshot()
    server.commit()
    server.purge()
    plan = Archiver(server, archive).run()
    row = require_up_to_date(server, archive)
    assert not plan.gap
    assert [each.file.number for each in row] == [1, 2, 3, 4, 5]
    assert all(other.continues(one) for one, other in pairwise(row))


def test_what_a_snapshot_has_in_front_of_a_gap_is_archived(server: Server) -> None:
    archive = Archive()
    server.commit()
    Archiver(server, archive).run()
    server.commit()
    server.rotate()
    server.commit()
    server.snapshot()
    server.commit()
    server.rotate()
    server.purge()
    assert not Archiver(server, archive).run().gap
    assert [(f.file.number, f.closed) for f in archive.archived().files] == [(1, True), (2, False)]
    assert "from binlog.000002" in Archiver(server, archive).run().gap
    _, before, after = require_up_to_date(server, archive)
    assert not after.continues(before)
    assert not Archiver(server, archive).run().gap


def test_without_one_there_is_a_gap_and_it_is_told(server: Server) -> None:
    archive = Archive()
    server.commit()
    Archiver(server, archive).run()
    size = archive.archived().files[0].size
    for _ in range(3):
        server.rotate()
    server.purge()
    plan = Archiver(server, archive).run()
    assert plan.gap == f"of the log nothing is left from binlog.000001:{size} to binlog.000004"
    first, second = require_up_to_date(server, archive)
    assert not second.continues(first)
    assert not Archiver(server, archive).run().gap


def test_what_is_being_written_is_not_archived_before_it_is_whole(server: Server) -> None:
    archive = Archive()
    server.commit()
    Archiver(server, archive).run()
    size = archive.archived().files[0].size
    server.begin_commit()
    assert not Archiver(server, archive).run().appends
    assert archive.archived().files[0].size == size


def test_what_is_archived_is_complete_to_the_time_of_the_look_where_nothing_is_under_way(
    server: Server,
) -> None:
    archive = Archive()
    server.commit()
    Archiver(server, archive).run()
    (first,) = archive.archived().files
    assert first.complete_to == first.last.read
    server.commit()
    server.begin_commit()
    Archiver(server, archive, clock=NOON + timedelta(hours=1)).run()
    (second,) = archive.archived().files
    assert second.last.read > NOON + timedelta(hours=1)
    assert second.complete_to is not None and second.complete_to < NOON + timedelta(minutes=1)


def test_a_log_that_is_not_archived_yet_begins_where_it_is_wanted(server: Server) -> None:
    archive = Archive()
    for _ in range(4):
        server.commit()
        server.rotate()
    Archiver(server, archive).run(since="binlog.000003:200")
    assert [each.file.number for each in archive.archived().files] == [3, 4, 5]


def test_a_file_that_is_replaced_while_it_is_read_is_not_archived(server: Server) -> None:
    server.commit()
    follower = MysqlLogFollower()
    (file,) = follower.look(server.live(), list, (), "", lambda: NOON)
    path = file.path
    path.rename(path.with_name("other"))
    path.write_bytes(bytes(file.size))
    with pytest.raises(VerificationFailed):
        follower.read(file, 0, file.size)
    path.unlink()
    path.with_name("other").rename(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(VerificationFailed):
        follower.read(file, 0, file.size)


def test_an_encrypted_log_is_refused_in_one_line(server: Server) -> None:
    builder = Builder(mariadb=True)
    builder.event(START_ENCRYPTION, bytes(17))
    server.files = {1: builder}
    server.write()
    with pytest.raises(BinlogEncrypted, match=r"binlog\.000001 is encrypted"):
        Archiver(server, Archive()).run()


def test_two_archivers_do_not_mix(server: Server) -> None:
    """Whoever is slower is told, and nothing is appended twice."""
    archive = Archive()
    server.commit()
    inventory = archive.archived()
    follower = MysqlLogFollower()
    plan = plan_archive(UUID, (), follower.look(server.live(), list, (), "", lambda: NOON))
    Archiver(server, archive).run()
    with pytest.raises(Taken):
        append_all(archive, follower, plan, inventory, lambda *_: None)
    check(server, archive)
