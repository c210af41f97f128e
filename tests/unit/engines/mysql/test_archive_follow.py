"""Archived log is what the server had, whatever a server does with its log, and wherever the archiver is
killed: nothing of it is ever overwritten, and no hole is taken for a whole log."""

import os
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.mysql.archived import (
    UUID,
    Archive,
    Archiver,
    Killed,
    Server,
    check,
    require_complete,
    require_up_to_date,
)
from tests.unit.examples import examples
from tests.unit.samples import NOON
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.engines.mysql.binlog.errors import BinlogDamaged, BinlogEncrypted
from zbackup.engines.mysql.binlog.events import START_ENCRYPTION
from zbackup.engines.mysql.binlog.reader import opened, opened_live
from zbackup.jobs.archive.archive import append_all
from zbackup.model.archive import MOST_EPOCH
from zbackup.model.errors import Refused, Taken, VerificationFailed
from zbackup.plan.archive import plan_archive

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

OLD_AND_NEW = ("rotate", "snapshot", "reset", "rotate", "purge")
"""What a snapshot has behind the archived file, and what the server has, are both called binlog.000002."""


BEHIND_THE_SNAPSHOT = (("commit", 9), ("rotate",), ("commit", 9), ("rotate",), ("purge",))
"""What is archived of the snapshot's last file lacks a transaction that was committed long before."""


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, max_size=25), st.booleans(), st.sampled_from([100, 700, 1 << 24]))
@example([("archive", None), *((each,) for each in OLD_AND_NEW)], False, 1 << 24)
@example(
    [("archive", None), ("commit", 9), ("snapshot",), *BEHIND_THE_SNAPSHOT, ("archive", None)], False, 1 << 24
)
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
                    archiver = Archiver(server, archive, most=most)
                for key, content in kept.items():
                    assert archive.content(archive.files[key]).startswith(content)
                kept = {key: archive.content(file) for key, file in archive.files.items()}
                check(server, archive)
                require_complete(server, archive)
            elif name == "restart":
                archiver = Archiver(server, archive, most=most)
            else:
                getattr(server, name)(*values)
        if archiver.run().appends:
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
    server.clock = NOON + timedelta(hours=1)
    Archiver(server, archive).run()
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
    (file,) = follower.scan(server.live(), list, (), "", lambda: NOON)
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
    plan = plan_archive(UUID, (), follower.scan(server.live(), list, (), "", lambda: NOON))
    Archiver(server, archive).run()
    with pytest.raises(Taken):
        append_all(archive, follower, plan, inventory, lambda *_: None)
    check(server, archive)


@pytest.mark.parametrize(("epoch", "name"), [(MOST_EPOCH, "binlog.000001"), (0, "my+binlog.000001")])
def test_what_no_archive_can_name_is_refused_in_one_line(server: Server, epoch: int, name: str) -> None:
    archive = Archive()
    server.commit()
    Archiver(server, archive).run()
    (file,) = archive.archived().files
    there = () if not epoch else (replace(file, file=replace(file.file, epoch=epoch)),)
    (written,) = Archiver(server, archive).follower.scan(server.live(), lambda: [], (), "", lambda: NOON)
    with pytest.raises(Refused, match=str(epoch or "archived: its name")) as refused:
        plan_archive(UUID, there, [replace(written, name=name)])
    assert "\n" not in str(refused.value)


def test_a_log_that_goes_on_in_a_new_file_meanwhile_is_complete_to_before_the_look(server: Server) -> None:
    """The clock is read before the files are listed: what follows in one that came later may be older."""
    server.commit()
    asked = []

    def clock() -> datetime:
        asked.append(server.newest)
        server.rotate()
        server.commit()
        return NOON

    found = MysqlLogFollower().scan(server.live(), list, (), "", clock)
    assert asked == [1] and [file.number for file in found] == [1, 2]
    assert [file.complete_to for file in found] == [None, NOON]


@pytest.mark.parametrize("mariadb", [False, True])
def test_a_file_that_others_follow_claims_nothing_by_what_a_session_took_for_the_time(
    tmp_path: Path, mariadb: bool
) -> None:
    server, archive = Server(tmp_path, mariadb), Archive()
    server.number = 5 * 365 * 86_400 * (1 if mariadb else 1_000_000)
    server.commit()
    server.rotate()
    server.commit()
    with pytest.raises(Killed):
        Archiver(server, archive).run(kill_after=1)
    (first,) = archive.archived().files
    assert first.closed and first.complete_to is None
    server.begin_commit()
    Archiver(server, archive).run()
    assert archive.archived().files[-1].complete_to is None, "the last commit was in the future, it says"


@pytest.mark.parametrize("left", [b"", b"\xfebin"])
def test_a_file_in_the_middle_that_cannot_be_told_is_no_end_of_the_log(server: Server, left: bytes) -> None:
    archive = Archive()
    server.commit()
    server.rotate()
    server.rotate()
    server.commit()
    path = server.directory / "live" / "binlog.000002"
    whole = path.read_bytes()
    path.write_bytes(left)
    with pytest.raises(VerificationFailed, match=r"binlog\.000002 does not begin"):
        Archiver(server, archive).run()
    path.write_bytes(whole)
    (server.directory / "live" / "binlog.000003").write_bytes(left)
    Archiver(server, archive).run()
    assert [each.file.number for each in archive.archived().files] == [1, 2]


def test_a_log_that_is_cut_off_while_it_is_read_is_a_failure_and_ends_no_daemon(server: Server) -> None:
    for _ in range(6):
        server.commit(200_000)
    path = server.directory / "live" / "binlog.000001"
    with opened_live(path) as scanner:
        spans = scanner.spans()
        next(spans)
        os.truncate(path, 1000)
        with pytest.raises(VerificationFailed, match="cut off while it was read"):
            list(spans)


def test_in_pieces_a_log_is_the_same(server: Server) -> None:
    for size in (40, 700_000, 3, 262_144, 40):
        server.commit(size)
    server.begin_commit()
    path = server.directory / "live" / "binlog.000001"
    with opened(path) as whole, opened_live(path) as pieces:
        assert list(pieces.spans()) == list(whole.spans())
        assert (pieces.reached, pieces.size) == (whole.reached, whole.size)
        assert pieces.head_end() == whole.head_end()
        assert pieces.beginning(100) == whole.data[:100]


def test_what_was_remembered_is_forgotten_when_it_may_be_wrong(server: Server) -> None:
    """The same file, cut off and written anew: the end that is remembered lies within a transaction."""
    follower = MysqlLogFollower()
    server.commit(100)
    server.commit(100)
    (before,) = follower.scan(server.live(), list, (), "", lambda: NOON)
    builder = server.files[1]
    del builder.data[builder.written[0].start :]
    builder.written.clear()
    server.commit(1000)
    with pytest.raises(BinlogDamaged):
        follower.scan(server.live(), list, (), "", lambda: NOON)
    follower.forget()
    (after,) = follower.scan(server.live(), list, (), "", lambda: NOON)
    assert after.size == len(builder.data) > before.size
