"""A member's backup as it is: its oplog is replayed up to where that has no holes, or it is not trusted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bson.timestamp import Timestamp

from tests.unit.engines.mongodb.archived_set import FIRST, RECORD
from tests.unit.engines.mongodb.recovered import SERVING, Story, ts, written
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.engines.mongodb.server.assess import NO_OPLOG
from zbackup.model.cluster import Addresses
from zbackup.model.errors import NotRecoverable, Refused, UsageError, VerificationFailed
from zbackup.model.record import Record
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.model.relocation import Relocation


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, monkeypatch)


def optime(number: int, term: int = 1) -> str:
    return f"{FIRST + number},1@{term}"


def facts(record: Record, **more: str) -> Record:
    return replace(record, server=record.server | more)


def test_under_a_lock_all_of_its_oplog_is_applied(story: Story) -> None:
    story.base.sure = ts(3)  # which is not noted while it is locked
    recovered = story.open()
    assert story.numbers == [1, 2, 3, 4]
    assert recovered.position == optime(4) and recovered.last_applied and recovered.base_exact
    assert story.server.serving == [SERVING] and story.server.disk.replica_set == ""
    assert story.server.did == [
        *("make room", "start to open", "shut down", "start to replay", "shut down"),
        *("start to open", "shut down", "serve", "close"),
    ]


def test_without_one_what_it_is_sure_of(story: Story) -> None:
    story.base.sure = ts(3)
    story.base_record = story.unlocked(3)
    recovered = story.open()
    assert story.numbers == [1, 2, 3]
    assert recovered.position == optime(3) and not recovered.base_exact


def test_a_server_alone_has_nothing_to_replay(story: Story) -> None:
    story.base.oplog, story.base.replica_set = [], ""
    story.base_record = replace(story.base_record, server={"dbpath": "/srv/data"}, position="")
    recovered = story.open()
    assert (recovered.last_applied, recovered.position) == (None, "")
    assert story.server.did == ["make room", "start to open", "shut down", "serve", "close"]


def test_one_whose_tables_are_nowhere_is_refused(story: Story) -> None:
    story.base.checkpoint = None
    with pytest.raises(NotRecoverable, match="no stable checkpoint"):
        story.open()
    story.require_not_served()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda r: facts(r, stable_checkpoint=optime(5)), r"before the recorded checkpoint \d+,1"),
        (lambda r: replace(r, position=optime(3)), r"behind its recorded end"),
        (lambda r: replace(r, position=optime(5)), r"was recorded: do not trust it"),
        (lambda r: replace(r, position=optime(4, 2)), r"was recorded: do not trust it"),
        (lambda r: facts(r, oplog_after=optime(3)), r"behind its recorded end"),
        (lambda r: facts(r, stable_checkpoint="now"), "the recorded stable_checkpoint cannot be understood"),
    ],
)
def test_one_whose_oplog_contradicts_its_record_is_not_trusted(
    story: Story, change: Callable[[Record], Record], why: str
) -> None:
    story.base_record = change(story.base_record)
    with pytest.raises(VerificationFailed, match=why):
        story.open()
    story.require_not_served()


@pytest.mark.parametrize(
    "change",
    [
        lambda r: facts(r, stable_checkpoint=optime(4), oplog_after=optime(4)),
        lambda r: replace(r, position=""),
    ],
)
def test_one_that_ends_just_there_is(story: Story, change: Callable[[Record], Record]) -> None:
    story.base_record = change(story.base_record)
    story.open()
    assert story.server.serving == [SERVING]


@pytest.mark.parametrize(("after", "trusted"), [(None, True), (optime(6), True), (optime(3), False)])
def test_without_a_lock_it_may_end_between_its_two_looks(
    story: Story, after: str | None, *, trusted: bool
) -> None:
    record = story.unlocked(2)
    story.base_record = facts(record, oplog_after=after) if after else record
    if trusted:
        story.open()
        assert story.numbers == [1, 2, 3, 4]
        return
    with pytest.raises(VerificationFailed, match="behind its recorded end"):
        story.open()


@pytest.mark.parametrize(
    ("option", "where", "why"), [("ends_replay_at", 3, "ended at"), ("begins_replay_at", 1, "began at")]
)
def test_a_replay_that_did_not_do_what_it_had_to_is_not_handed_over(
    story: Story, option: str, where: int, why: str
) -> None:
    story.options = {option: Timestamp(FIRST + where, 1)}
    with pytest.raises(VerificationFailed, match=f"the replay {why}"):
        story.open()
    story.require_not_served()


def test_who_ran_alone_can_be_opened_and_what_is_torn_cannot(story: Story) -> None:
    story.recovery.check_openable(facts(story.base_record, blockers=NO_OPLOG))
    with pytest.raises(Refused, match=r"cannot be opened: a file lies elsewhere$"):
        story.recovery.check_openable(facts(story.base_record, blockers=f"{NO_OPLOG}\na file lies elsewhere"))


def test_an_oplog_that_ends_where_another_began_is_told_by_its_term(story: Story) -> None:
    story.base.oplog[3] = written(4, 2)
    with pytest.raises(VerificationFailed, match="do not trust it"):
        story.open()


def test_people_are_told_what_is_done(story: Story) -> None:
    story.open()
    assert story.progress.phases == [("opening the backup", story.base_record.called), ("handing over", "")]


def test_a_server_alone_is_told_apart_by_its_files_and_keeps_what_it_has_in_local(story: Story) -> None:
    story.base.oplog, story.base.replica_set = [written(1)], ""
    story.base_record = replace(story.base_record, server={"dbpath": "/srv/data"}, position="")
    story.open()
    assert story.server.disk.oplog == [written(1)]


@pytest.mark.parametrize("asks", [False, True])
def test_who_enters_a_clone_gets_the_way_in_and_no_connection_of_ours_is_left(
    story: Story, *, asks: bool
) -> None:
    story.options = {"key": "the key" if asks else ""}
    with story.recovery.entered(story.files("base", story.base_record), story.progress) as way:
        assert story.server.did == ["make room", "start to open", "leave"]
        assert (way.socket, way.password) == ("/run/mongod.sock", "the key" if asks else "")
    assert story.progress.phases == [("starting the clone's server", "for zbackup alone")]


def test_a_clone_s_server_is_started_again_with_the_directory_it_needs(story: Story) -> None:
    story.recovery.serve(story.files("base", story.base_record), SERVING)
    assert story.server.did == ["make room", "serve", "close"]


def test_what_is_damaged_is_found_by_a_server_whose_files_are_thrown_away(story: Story) -> None:
    story.base.indexes = {"shop.orders": ["_id_"], "shop.items": ["_id_"]}
    story.base.damaged = {"shop.items"}
    found = story.recovery.check_tables(story.files("base", story.base_record), story.progress)
    assert (found.tables, found.damaged) == (2, ("shop.items: it is not valid",))
    assert story.server.did == ["make room", "start to open, and throw away"]
    assert story.progress.phases == [("checking collections", story.base_record.called)]


def test_who_may_not_open_it_is_told_before(story: Story) -> None:
    recovery = MongoRecovery(table=RecoveryTable(workers=1, login="never"))
    asks = facts(story.base_record, authorization="enabled")
    recovery.check_serving(asks, Serving())
    with pytest.raises(Refused, match="leave out --port"):
        recovery.check_serving(asks, SERVING)
    with pytest.raises(UsageError, match="--cluster-key"):
        story.recovery.check_serving(asks, Serving(addresses=Addresses(config="c", hosts={})))
    with pytest.raises(Refused, match="/srv/data belongs to root"):
        story.recovery.check_program(facts(story.base_record, uid="0"))
    with pytest.raises(Refused, match="encrypted by mongod"):
        story.recovery.check_program(facts(story.base_record, encryption="yes"))


def test_a_client_is_told_how_to_connect(story: Story) -> None:
    assert story.recovery.connection(Path("/run/r1"), 27117)[1] == (
        "mongosh 'mongodb://127.0.0.1:27117/?directConnection=true'"
    )
    line = story.recovery.connection(Path("/run/r1"), 0, "dev")[1]
    assert "%2Frun%2Fr1" in line and line.endswith("--username dev --authenticationDatabase admin")


@pytest.mark.parametrize(("configured", "cpus", "workers"), [(3, 2, 3), (0, 2, 2), (0, 64, 8), (0, None, 1)])
def test_as_many_appliers_as_are_configured_or_as_there_are_cpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: int, cpus: int | None, workers: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    monkeypatch.setattr(MongoRecovery, "_program", lambda *_: ("/usr/bin/mongod",))
    recovery = MongoRecovery(table=RecoveryTable(workers=configured))
    files = RecoveryFiles(record=RECORD, where=Relocation(()), home=tmp_path, run=tmp_path, hide=())
    assert recovery.server_on(files).workers == workers
