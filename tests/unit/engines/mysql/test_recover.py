"""A recovery from a base to a target: what the server has in the end, and who has it then."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.engines.mysql.recovered import SERVING, Flavor, Story, until
from zbackup.engines.mysql.binlog.events import IGNORABLE
from zbackup.engines.mysql.recovery import recover, replay_mysql
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.model.proof import NEXT, ProofSubject, Sight

TORN = b"\x00\x11\x22\x33\xa2\x01\x00\x00\x00\xff\x00\x00\x00"


def told(story: Story) -> Story:
    """1 and 2 are in the base; 3 to 8 behind it, in three files. The second file is the base's newest."""
    story.rotate()
    story.commit(10, 20)
    story.begin()
    story.commit(30, 40)
    story.rotate()
    story.commit(50, 60)
    story.rotate()
    story.commit(70, 80)
    return story


@pytest.fixture(params=["mysql", "mariadb"])
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Story:
    return told(Story(tmp_path, monkeypatch, request.param))


@pytest.fixture
def mysql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    return told(Story(tmp_path, monkeypatch))


@pytest.mark.parametrize(
    ("second", "numbers"),
    [
        (25, []),
        (30, []),
        (31, [3]),
        (45, [3, 4]),
        (50, [3, 4]),
        (55, [3, 4, 5]),
        (65, [3, 4, 5, 6]),
        (80, [3, 4, 5, 6, 7]),
        (99, [3, 4, 5, 6, 7, 8]),
    ],
)
@pytest.mark.parametrize("beside", [False, True])
def test_what_was_committed_before_the_target_is_applied_once_and_nothing_else(
    story: Story, monkeypatch: pytest.MonkeyPatch, second: int, numbers: list[int], *, beside: bool
) -> None:
    """From copies of the log, and from a large one where it lies."""
    if beside:
        monkeypatch.setattr(replay_mysql, "SMALL", 0)
    story.beside = beside
    recovered = story.recover(until(second))
    assert story.server.has == story.gtids(*numbers)
    assert recovered.gtid.split(",")[-1:] == story.gtids(1, 2, *numbers)[-1:]
    assert recovered.first_skipped == (
        story.transaction(3 + len(numbers)) if numbers != [3, 4, 5, 6, 7, 8] else None
    )
    log = story.source.where.path("/srv/log")
    assert all(file.is_relative_to(log) is beside for file in story.server.files_read)
    assert story.server.channels == []


@pytest.mark.parametrize("number", [3, 4, 5, 6, 7])
def test_one_transaction_is_left_out_and_what_is_around_it_is_applied(story: Story, number: int) -> None:
    story.recover(skip=story.transaction(number))
    assert story.server.has == story.gtids(*(n for n in range(3, 9) if n != number))
    assert story.server.empty == (story.gtids(number) if story.flavor == "mysql" else [])


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_what_a_crash_has_cut_off_is_left_out_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flavor: Flavor, *, beside: bool
) -> None:
    if beside:
        monkeypatch.setattr(replay_mysql, "SMALL", 0)
    story = Story(tmp_path, monkeypatch, flavor)
    story.beside = beside
    story.commit(10)
    story.begin()
    story.commit(20)
    whole = len(story.log.files[1].data)
    story.log.files[1].data += TORN
    story.begin_file()
    story.commit(30)
    story.recover()
    assert story.server.has == story.gtids(2, 3)
    assert story.progress.notes == [
        f"binlog.000001 ends within an event, at {whole}: what is behind it is left out"
    ]
    size = (story.source.where.path("/srv/log") / "binlog.000001").stat().st_size
    cut = beside and flavor == "mysql"
    assert size == whole + (0 if cut else len(TORN)), "what is no clone is never written to"


def test_a_base_that_is_not_what_was_recorded_is_not_replayed_to(story: Story) -> None:
    moved = replace(story.base.record, position="binlog.000002:4711")
    story.base = replace(story.base, record=moved)
    with pytest.raises(VerificationFailed, match="do not trust it"):
        story.recover()
    assert not story.server.has and story.server.serving is None


def test_a_log_of_another_server_is_not_replayed(story: Story) -> None:
    story.log.files[2].data[60] ^= 1
    with pytest.raises(NotRecoverable, match="belongs to another server"):
        story.recover()
    assert not story.server.has and story.server.serving is None


def test_a_replay_that_does_not_end_where_it_must_is_not_handed_over(mysql: Story) -> None:
    """It has a transaction that the log holds behind the target, from wherever."""
    mysql.held = mysql.gtids(1, 2, 5)
    with pytest.raises(VerificationFailed, match="is there already"):
        mysql.recover(until(50))
    assert mysql.server.serving is None


def test_an_applier_that_fails_is_not_handed_over(story: Story) -> None:
    with pytest.raises(VerificationFailed, match="replay failed: Duplicate entry '1'"):
        story.recover(error="Duplicate entry '1'")
    assert story.server.serving is None


def test_a_clone_forgets_who_it_was_and_whom_it_followed_before_anything_is_applied(story: Story) -> None:
    story.recover(channels=["", "other"])
    did, words = story.server.did, "RESET REPLICA ALL FOR CHANNEL '{}'"
    if story.flavor == "mariadb":
        words = "RESET SLAVE '{}' ALL"
    order = [
        "make room",
        "forget identity",
        "name log files",
        "start",
        words.format(""),
        words.format("other"),
    ]
    at = [did.index(what) for what in order]
    assert at == sorted(at)
    assert at[-1] < next(number for number, what in enumerate(did) if what.startswith("CHANGE"))
    assert story.server.channels == []
    assert did[-1] == "hand over" and story.server.serving is SERVING


def test_where_there_is_nothing_to_replay_no_applier_is_started(story: Story) -> None:
    recovered = story.recover(until(25))
    assert not [what for what in story.server.did if "REPLICA" in what or "SLAVE" in what]
    assert recovered.position == story.base.record.position
    assert "replaying" not in [name for name, _ in story.progress.phases]


def test_what_the_replay_left_in_doubt_is_rolled_back_and_what_the_base_held_is_told(mysql: Story) -> None:
    mysql.recover(prepared=lambda server: ["old", "new"] if server.has else ["old"])
    undone = [what for what in mysql.server.did if what.startswith("XA ROLLBACK")]
    assert undone == ["XA ROLLBACK X'6e6577', X'', 1"]
    gone, left = mysql.progress.notes
    assert gone.endswith("rolled back: new") and left.endswith("see XA RECOVER: old")


def test_events_that_an_applier_has_disabled_are_told(story: Story) -> None:
    story.recover(events=[f"e{number}" for number in range(22)])
    (note,) = story.progress.notes
    assert note.startswith("events disabled as on a replica") and note.endswith("shop.e19 and 2 more")
    story.progress.notes.clear()
    recover.tell(story.server, story.flavor, story.progress)
    story.server.events.pop()
    story.server.events.pop()
    recover.tell(story.server, story.flavor, story.progress)
    assert story.progress.notes == [note, note.removesuffix(" and 2 more")]


def test_a_mariadb_waits_for_its_source_as_long_as_it_takes_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While what was sent is applied, nothing comes: a replica would call the source again after a minute."""
    story = told(Story(tmp_path, monkeypatch, "mariadb"))
    story.recover()
    assert story.server.followed >= 24 * 3600 and story.server.timeout == "DEFAULT"


def test_a_mariadb_whose_events_have_no_checksums_reads_the_names_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = told(Story(tmp_path, monkeypatch, "mariadb", checksum=False))
    story.recover(until(75))
    assert story.server.has == story.gtids(3, 4, 5, 6, 7)


def test_nobody_gives_out_the_log_when_the_replay_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(Story(tmp_path, monkeypatch, "mariadb")).recover()
    assert "log-source" not in [thread.name for thread in threading.enumerate()]


def test_an_applier_that_does_not_stop_where_it_must_finds_nothing_behind_it(mysql: Story) -> None:
    mysql.recover(until(65), beyond=True)
    assert mysql.server.has == mysql.gtids(3, 4, 5, 6)


@pytest.mark.parametrize("second", [65, 75])
def test_one_that_says_it_is_in_the_next_file_has_gone_too_far(story: Story, second: int) -> None:
    """Unless nothing is left in the one before: in the third file something is at the one target."""
    number = 4 if second == 65 else 5
    says = LogPosition.of(f"binlog.{number:06}", 4)
    if second == 65:
        story.recover(until(second), says=says)
        return
    with pytest.raises(
        VerificationFailed, match=r"replay stopped at binlog\.000005:4, not at binlog\.000004"
    ):
        story.recover(until(second), says=says)


def test_a_transaction_without_which_what_follows_cannot_be_applied_is_named(story: Story) -> None:
    with pytest.raises(VerificationFailed, match=r"cannot be applied without it .*no row.*zbackup copy"):
        story.recover(skip=story.transaction(4), error="no row")


def test_a_directory_in_which_the_log_makes_tables_is_there_before_the_server_starts(story: Story) -> None:
    text = b"CREATE TABLE t (a INT) DATA DIRECTORY = '/far/x'"
    story.log.files[4].event(IGNORABLE, text, flags=0x80)
    story.recover()
    assert story.server.did.index("make room outside /far/x") < story.server.did.index("start")


def test_people_are_told_what_is_done(story: Story) -> None:
    story.recover()
    name = story.base.record.called
    assert story.progress.phases == [
        ("starting the temporary server", f"crash recovery of {name}"),
        ("replaying", "6 transactions"),
        ("verifying", f"that it ends at {story.transaction(8).end}"),
        ("handing over", ""),
    ]


def test_a_plugin_that_is_not_on_this_host_is_named(mysql: Story) -> None:
    facts = {"plugin_dir": str(mysql.room), "plugins": "gone.so"}
    held = mysql.base.record
    mysql.base = replace(mysql.base, record=replace(held, server=held.server | facts))
    mysql.recover()
    first = mysql.progress.notes[0]
    assert first.startswith("the plugin gone.so, which the original had loaded, is not in ")
    mysql.progress.notes.clear()
    mysql.recovery.open(mysql.base, SERVING, mysql.progress)
    assert mysql.progress.notes[0] == first


@pytest.mark.parametrize(("second", "other"), [(99, True), (25, False)])
@pytest.mark.parametrize("offset", [3600, 19_800])
def test_a_zone_that_is_not_the_original_one_is_told_where_something_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: int, offset: int, *, other: bool
) -> None:
    """The server in memory is one hour ahead."""
    story = Story(tmp_path, monkeypatch)
    story.commit(10, 20)
    story.begin(system_zone=f"2024,2026 2024-01-01={offset}")
    story.commit(30)
    recovered = story.recover(until(second))
    told = other and offset != 3600
    assert [note for note in story.progress.notes if "time zone" in note] == [
        f"warning: {recovered.other_zone}" for _ in range(told)
    ]
    assert ("UTC+05:30" in recovered.other_zone) is told and bool(recovered.other_zone) is told


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize(("second", "number"), [(25, 3), (35, 4), (45, 5), (65, 7), (75, 8)])
def test_one_transaction_more_is_applied_to_a_clone_of_it(
    story: Story, monkeypatch: pytest.MonkeyPatch, second: int, number: int, *, beside: bool
) -> None:
    """Also where the log was cut off before it. MySQL's applier reads its file from the beginning."""
    if beside:
        monkeypatch.setattr(replay_mysql, "SMALL", 0)
    story.beside = beside
    recovered = story.recover(until(second), proves=ProofSubject())
    following, home = recovered.first_skipped, story.base.home
    assert following == story.transaction(number) and recovered.sights == (Sight(),)
    second_clone = replace(story.base, home=story.room / "second", beside=())
    log = story.source.record
    seen = story.recovery.step_on(second_clone, home, log, following, ProofSubject(), story.progress)
    assert story.server.has == story.gtids(number)
    assert seen.holds == (story.flavor == "mariadb" or story.server.has == [following.gtid])
    assert story.server.did[-2:] == ["discard", "stop"]
    assert all(file.stat().st_blocks < 64 for file in (home / NEXT).iterdir())


def test_a_transaction_that_is_too_large_is_not_kept(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recover, "LARGEST", 10)
    recovered = story.recover(until(45), proves=ProofSubject())
    assert recovered.first_skipped and not (story.base.home / NEXT).exists()
    with pytest.raises(Refused, match="the transaction is larger than"):
        recover.taken_out(recovered.first_skipped, story.base.home)
