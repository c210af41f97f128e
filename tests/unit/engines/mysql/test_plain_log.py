"""The plain copy of an encrypted log is what the server has, from its first file on without a hole, whatever
the server does and wherever the reader is killed; and what is archived of it is what it had."""

import os
import stat
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.unit.engines.mysql.archived import Archive, Archiver, Killed, check, require_up_to_date
from tests.unit.engines.mysql.sent import Cut, SealedServer, copy_of, held, require_same
from tests.unit.examples import examples
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG, PlainLog
from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import DatabaseError, Refused, Taken, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.proc.lock import exclusive

STEPS = st.one_of(
    st.tuples(st.just("commit"), st.integers(1, 600)),
    st.tuples(st.just("rotate")),
    st.tuples(st.just("crash"), st.integers(0, 3)),
    st.tuples(st.just("reset")),
    st.tuples(st.just("purge")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("cut"), st.integers(0, 12), st.integers(0, 90)),
    st.tuples(st.just("archive"), st.none() | st.integers(1, 4)),
    st.tuples(st.just("archive"), st.none()),
)


def cut(server: SealedServer, after: int, torn: int) -> None:
    """Somebody is killed after some events, and of the last one all bytes but some are there.

    What was there before is on the disk: the copy is written out before anybody reads it to archive it.
    """
    before = {path: path.stat().st_size for path in server.copy.glob("binlog.*")}
    server.most = after
    try:
        copy_of(server).catch_up()
    except Cut:
        newest = max(server.copy.glob("binlog.*"), default=None)
        if newest and torn:
            os.truncate(newest, max(before.get(newest, 0), newest.stat().st_size - torn))
    finally:
        server.most = None


OLD_AND_NEW = ("rotate", "snapshot", "reset", "rotate", "purge")
"""What a snapshot has behind the archived file, and what the server has, are both called binlog.000002."""
ANEW = ("rotate", "purge", "snapshot", "reset", "rotate")
"""The server has another binlog.000001 than the one that is archived, and a copy that begins behind it."""


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, max_size=20), st.booleans(), st.booleans())
@example([("archive", None), *((each,) for each in OLD_AND_NEW)], False, False)
@example([("archive", None), *((each,) for each in ANEW)], False, False)
@example([("snapshot",), ("rotate",), ("snapshot",), ("cut", 0, 1), ("reset",), ("rotate",)], False, False)
@example([("archive", None), ("cut", 0, 32), ("rotate",), ("cut", 0, 0)], False, False)
def test_the_archive_is_what_the_server_had(
    steps: list[tuple[str, *tuple[int, ...]]], mariadb: bool, again: bool
) -> None:
    with TemporaryDirectory() as directory:
        server, archive = SealedServer(Path(directory), mariadb), Archive()

        def archiver() -> Archiver:
            return Archiver(server, archive, follower=MysqlLogFollower(copy_of(server)))

        one = archiver()
        kept: dict[str, bytes] = {}
        for name, *values in steps:
            if name == "archive":
                try:
                    one.run(values[0])
                except Killed:
                    one = archiver()
                require_same(server)
                for key, content in kept.items():
                    assert archive.content(archive.files[key]).startswith(content)
                kept = {key: archive.content(file) for key, file in archive.files.items()}
                check(server, archive)
            elif name == "cut":
                cut(server, *values)
                if again:
                    one = archiver()
            else:
                getattr(server, name)(*values)
        if one.run().appends:
            one.run()  # what was left in front of a gap comes first
        require_same(server)
        check(server, archive)
        require_up_to_date(server, archive)
        assert not one.run().appends


@pytest.fixture(params=[False, True], ids=["mysql", "mariadb"])
def server(tmp_path: Path, request: pytest.FixtureRequest) -> SealedServer:
    return SealedServer(tmp_path, request.param)


def test_the_first_look_begins_with_the_newest_file(server: SealedServer) -> None:
    for _ in range(3):
        server.commit()
        server.rotate()
    server.commit()
    end = copy_of(server).catch_up()
    assert list(held(server)) == ["binlog.000004"] and end.file == "binlog.000004"
    require_same(server)


def test_the_files_are_for_nobody_else(server: SealedServer) -> None:
    server.commit()
    copy_of(server).catch_up()
    assert stat.S_IMODE(server.copy.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in server.copy.iterdir()} == {0o600}


def test_killed_after_each_event_the_next_one_goes_on(server: SealedServer) -> None:
    copy_of(server).catch_up()
    for after in range(20):
        server.commit(300)
        if after % 7 == 0:
            server.rotate()
        cut(server, after, (0, 1, 17, 60)[after % 4])
        copy_of(server).catch_up()
        require_same(server)


def test_what_is_there_is_not_asked_for_again(server: SealedServer) -> None:
    """One session, and of the log only the last transaction."""
    for _ in range(50):
        server.commit()
    copy = copy_of(server)
    copy.catch_up()
    before = server.sessions
    server.most = 9
    copy.catch_up()
    assert server.sessions == before + 1


def test_one_transaction_larger_than_what_is_read_again(
    server: SealedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log._MOST_AGAIN", 100)
    server.commit(5000)
    copy_of(server).catch_up()
    for copy in (copy_of(server), copy_of(server)):
        server.most = 5
        copy.catch_up()
        copy.catch_up()
        server.most = None
        server.commit(5000)
        copy.catch_up()
        require_same(server)


def test_a_log_of_the_same_names_is_another(server: SealedServer) -> None:
    """RESET, and as much was written since as was there before, or more."""
    for more in (0, 3):
        for _ in range(4):
            server.commit()
        copy_of(server).catch_up()
        server.reset()
        for _ in range(4 + more):
            server.commit()
        copy_of(server).catch_up()
        require_same(server)


def test_what_a_crash_took_from_the_server_goes_from_the_copy(server: SealedServer) -> None:
    for _ in range(6):
        server.commit()
    server.rotate()
    for _ in range(3):
        server.commit()
    copy_of(server).catch_up()
    before = held(server)
    server.crash(2)
    server.commit()
    copy_of(server).catch_up()
    require_same(server)
    after = held(server)
    assert before["binlog.000002"].startswith(after["binlog.000002"]) and list(after) == [
        "binlog.000002",
        "binlog.000003",
    ]


def test_what_was_purged_goes_from_the_copy_and_a_gap_shows(server: SealedServer) -> None:
    server.commit()
    copy_of(server).catch_up()
    for _ in range(3):
        server.commit()
        server.rotate()
    server.purge()
    copy_of(server).catch_up()
    assert list(held(server)) == ["binlog.000004"]
    require_same(server)


def test_it_reads_no_farther_than_it_is_told(server: SealedServer) -> None:
    """So it ends while others write faster than it reads."""
    server.commit()
    copy = copy_of(server)
    end = copy.catch_up()
    server.commit()
    with copy.locked():
        assert copy.read_on(end) == end
        assert copy.read_on() > end


def test_two_at_once(server: SealedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log._LOCKED_WITHIN_S", 0.0)
    server.commit()
    copy = copy_of(server)
    with exclusive(copy.lock, "another one"), pytest.raises(Taken, match="another one"):
        copy.catch_up()
    assert not held(server)
    copy.catch_up()
    require_same(server)


def test_a_file_that_was_damaged_is_read_anew(server: SealedServer) -> None:
    for _ in range(4):
        server.commit()
    copy_of(server).catch_up()
    path = server.copy / "binlog.000001"
    content = bytearray(path.read_bytes())
    content[server.files[1].written[2].start + 9] ^= 1
    path.write_bytes(content)
    copy_of(server).catch_up()
    require_same(server)


def test_a_hole_in_what_is_sent_is_refused(server: SealedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.commit()
    copy = copy_of(server)
    copy.catch_up()
    before = held(server)
    server.commit()
    server.commit()
    plain = server.plain()
    start = server.files[1].written[-1].start
    skipped = len(before["binlog.000001"])
    monkeypatch.setattr(
        SealedServer,
        "plain",
        lambda _: {"binlog.000001": plain["binlog.000001"][:skipped] + plain["binlog.000001"][start:]},
    )
    with pytest.raises(VerificationFailed, match=f"behind binlog.000001:{skipped} does not follow it"):
        copy.catch_up()
    assert held(server) == before


@pytest.mark.parametrize("names", [[], ["../../etc/passwd.000001"], ["binlog.000001", "x y.000002"]])
def test_names_that_are_no_names_are_refused(
    server: SealedServer, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.unit.engines.mysql.sent.Session.files", lambda _: names)
    with pytest.raises(VerificationFailed, match="cannot be called so"):
        copy_of(server).catch_up()
    assert not held(server)


def test_a_backup_whose_log_is_elsewhere_is_told_apart(server: SealedServer) -> None:
    """Else what was copied last year would pass for what the server writes now."""
    record, where = server.live()
    files = replace(record, server={k: v for k, v in record.server.items() if k != PLAIN_LOG})
    for plain, held_in in ((None, record), (copy_of(server), files)):
        with pytest.raises(Refused, match="plain_log"):
            MysqlLogReader(flavor="mysql", plain=plain).bring_up_to_date(BackupFiles(held_in, where))
    MysqlLogReader(flavor="mysql").bring_up_to_date(BackupFiles(files, where))


def test_a_directory_on_no_dataset_of_the_instance_is_not_written_to(server: SealedServer) -> None:
    """As while that dataset is not mounted."""
    record, where = server.live()
    away = replace(where, moves=where.moves[:1])
    with pytest.raises(Refused, match="is not part of"):
        MysqlLogReader(flavor="mysql", plain=copy_of(server)).bring_up_to_date(BackupFiles(record, away))
    assert not server.copy.exists()


def test_a_server_that_is_down_is_one_error(server: SealedServer) -> None:
    def down() -> None:
        raise DatabaseError("cannot reach the server")

    copy = PlainLog(directory=server.copy, lock=server.directory / "run" / "lock", sent=down)  # type: ignore[arg-type]
    with pytest.raises(DatabaseError, match="cannot reach"):
        copy.catch_up()


def test_where_it_ends(server: SealedServer) -> None:
    server.commit()
    server.rotate()
    server.commit()
    content = server.plain()["binlog.000002"]
    assert copy_of(server).catch_up() == LogPosition.of("binlog.000002", len(content))


def test_a_directory_that_others_may_enter_is_refused(server: SealedServer) -> None:
    server.copy.mkdir(mode=0o750)
    with pytest.raises(Refused, match="mode 700"):
        copy_of(server).catch_up()
    assert not held(server)


def test_who_may_not_write_there_is_told_whose_it_is(
    server: SealedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the daemon's user where root made it; check says so, and makes nothing itself."""
    copy_of(server).require_usable()
    assert not server.copy.exists()
    server.copy.mkdir(mode=0o700)
    owner, us = server.copy.stat().st_uid, os.geteuid() + 1
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log.os.geteuid", lambda: us)
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log.daemon_user", lambda: (owner, owner))
    with pytest.raises(Refused, match=f"this is {us}: run this as that user, or as root"):
        copy_of(server).require_usable()


def test_a_link_in_its_place_is_not_followed(server: SealedServer, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    server.copy.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused):
        copy_of(server).catch_up()
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_directory_of_somebody_elses_is_refused_and_the_daemons_is_not(
    server: SealedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.commit()
    server.copy.mkdir(mode=0o700)
    os.chown(server.copy, 4711, 4711)
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log.daemon_user", lambda: None)
    with pytest.raises(Refused, match="belongs to user id 4711"):
        copy_of(server).catch_up()
    monkeypatch.setattr("zbackup.engines.mysql.plain_log.plain_log.daemon_user", lambda: (4711, 4711))
    copy_of(server).catch_up()
    require_same(server)
    assert {path.stat().st_uid for path in server.copy.iterdir()} == {4711}
