"""A backup that is opened as it is, a clone that is entered or started again, and who may write where."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.mysql.recovered import ALL, SERVING, Flavor, Story
from tests.unit.engines.mysql.test_recovery_of_files import record
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mysql.plain_log.plain_log import PLAIN_LOG
from zbackup.engines.mysql.recovery import recover, replay_mysql
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.model.backup import BackupFiles
from zbackup.model.cloning import Adoption
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.recovery import CheckedTables, RecoveryFiles
from zbackup.model.relocation import Relocation


@pytest.fixture(params=["mysql", "mariadb"])
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Story:
    flavor: Flavor = request.param
    made = Story(tmp_path, monkeypatch, flavor)
    made.commit(10, 20)
    made.begin()
    return made


def test_a_backup_as_it_is_has_what_its_log_ends_with_and_forgets_whom_it_followed(story: Story) -> None:
    story.given = {"channels": ["", "other"], "prepared": lambda _: ["old"], "events": ["e"]}
    recovered = story.recovery.open(story.base, SERVING, story.progress)
    did = story.server.did
    assert did[:4] == ["make room", "forget identity", "name log files", "start"]
    assert did[-1] == "hand over" and story.server.serving is SERVING and story.server.channels == []
    assert recovered.position == story.base.record.position and recovered.last_applied == story.transaction(2)
    assert not [what for what in did if "XA ROLLBACK" in what], "nothing was replayed that would be left over"
    events, doubtful = story.progress.notes
    assert events.endswith("shop.e") and doubtful.endswith((": old", ": 'old'"))


def test_one_that_is_not_what_was_recorded_is_not_opened(story: Story) -> None:
    moved = replace(story.base.record, position=story.transaction(1).end)
    with pytest.raises(VerificationFailed, match="do not trust it"):
        story.recovery.open(replace(story.base, record=moved), SERVING, story.progress)
    assert story.server.serving is None


@pytest.mark.parametrize(
    "blocker", ["the binlog is off: set log_bin", "the binlog is encrypted (x): zbackup"]
)
def test_one_whose_log_cannot_be_read_is_opened_all_the_same(story: Story, blocker: str) -> None:
    held = replace(story.base.record, server={"blockers": blocker}, position="")
    recovered = story.recovery.open(replace(story.base, record=held), SERVING, story.progress)
    assert (recovered.last_applied, recovered.position) == (None, "") and story.server.serving is SERVING


def test_who_enters_a_clone_finds_no_other_account_of_ours_and_leaves_none(story: Story) -> None:
    with story.recovery.entered(story.base, story.progress) as way:
        assert story.server.did == ["make room", "start", "drop left accounts"]
        assert (way.user, way.password) == ("u", "p") and way.socket.endswith("mysqld.sock")
    assert story.server.did[3:] == ["hand over", "stop"]


def test_nor_where_what_is_done_there_fails(story: Story) -> None:
    with pytest.raises(KeyboardInterrupt), story.recovery.entered(story.base, story.progress):
        raise KeyboardInterrupt
    assert story.server.did[3:] == ["hand over", "stop"]


def test_a_clone_s_server_is_started_again_with_the_directories_it_needs(story: Story) -> None:
    story.recovery.serve(story.base, SERVING)
    assert story.server.did == ["make room", "serve"]


def large(story: Story, monkeypatch: pytest.MonkeyPatch) -> RecoveryFiles:
    """A log that does not fit where it would be copied, by one byte; its first file is not replayed."""
    story.rotate()
    story.begin()
    story.commit(30)
    files = story.files("log")
    size = (files.where.path("/srv/log") / "binlog.000002").stat().st_size
    monkeypatch.setattr(replay_mysql, "SMALL", size - 1)
    return files


@pytest.mark.parametrize("fits", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_who_may_write_to_the_clone_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fits: bool, plain: bool
) -> None:
    """A MySQL, where its log is large, and neither a copy that root keeps nor what is given by a network."""
    story = Story(tmp_path, monkeypatch)
    story.commit(10)
    log = large(story, monkeypatch)
    base = story.base
    if fits:
        monkeypatch.setattr(replay_mysql, "SMALL", replay_mysql.SMALL + 1)
    if plain:
        kept = {**base.record.server, PLAIN_LOG: "/srv/log"}
        base = replace(base, record=replace(base.record, server=kept))
    beside = replace(base, beside=(base.home, log.home))
    given = fits or plain
    assert story.recovery.only_reads(base, BackupFiles(log.record, log.where)) is given
    story.recovery.recover(beside, log, ALL, SERVING, story.progress)
    seen: RecoveryFiles = story.server.files
    assert (seen.beside, seen.hide) == (
        ((), ("/hidden", str(log.home))) if given else (beside.beside, ("/hidden",))
    )


def test_a_mariadb_never_sees_the_clone_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, monkeypatch, "mariadb")
    story.commit(10)
    log = large(story, monkeypatch)
    assert story.recovery.only_reads(story.base, BackupFiles(log.record, log.where))


def test_what_is_damaged_is_found_by_a_server_that_only_we_use(
    story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        recover, "check_tables", lambda connection, _: CheckedTables(tables=len(connection.did))
    )
    assert story.recovery.check_tables(story.base, story.progress).tables == 2
    assert story.server.did == ["make room", "start", "stop"]
    assert story.progress.phases == [("checking tables", story.base.record.called)]


def test_a_clone_is_adopted_by_its_own_server(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(recover, "adopt", lambda *words: asked.append(words))
    adoption = Adoption(serving=SERVING)
    story.recovery.adopt(story.base, adoption, story.progress)
    assert asked == [(story.server, adoption, story.progress)]


def test_people_are_told_what_is_done(story: Story) -> None:
    story.recovery.open(story.base, SERVING, story.progress)
    with story.recovery.entered(story.base, story.progress):
        pass
    assert [name for name, _ in story.progress.phases] == [
        "starting the temporary server",
        "handing over",
        "starting the clone's server",
    ]


def test_a_client_is_called_by_its_own_name(story: Story) -> None:
    assert story.recovery.connection(Path("/run/r1"), 3307)[1].startswith(f"{story.flavor} --host")


def test_what_is_torn_and_what_is_roots_is_refused_before(story: Story) -> None:
    torn = replace(story.base.record, server=story.base.record.server | {"blockers": "tables lie elsewhere"})
    with pytest.raises(Refused, match="cannot be opened: tables lie elsewhere"):
        story.recovery.check_openable(torn)
    roots = replace(story.base.record, server=story.base.record.server | {"uid": "0", "datadir": "/srv/data"})
    with pytest.raises(Refused, match="/srv/data belongs to root"):
        story.recovery.check_program(roots)


@pytest.mark.parametrize(
    ("flavor", "configured", "cpus", "workers"),
    [
        ("mysql", 3, 2, 3),
        ("mariadb", 3, 2, 3),
        ("mysql", 0, 2, 8),
        ("mysql", 0, 64, 16),
        ("mariadb", 0, 2, 2),
        ("mariadb", 0, 64, 8),
        ("mysql", 0, None, 4),
    ],
)
def test_as_many_appliers_as_are_configured_or_as_are_best(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flavor: Flavor,
    configured: int,
    cpus: int | None,
    workers: int,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    monkeypatch.setattr(MysqlRecovery, "_program", lambda *_: ("/usr/sbin/mysqld",))
    held = record(None, engine=flavor)
    files = RecoveryFiles(record=held, where=Relocation(()), home=tmp_path, run=tmp_path, hide=())
    made = MysqlRecovery(flavor=flavor, table=RecoveryTable(workers=configured))
    assert made._server(files).workers == workers
