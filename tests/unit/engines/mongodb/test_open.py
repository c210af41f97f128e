"""A member's backup as it is: its oplog is replayed up to where that has no holes, or it is not trusted."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from bson.timestamp import Timestamp

from tests.unit.engines.mongodb.archived_set import FIRST
from tests.unit.engines.mongodb.recovered import SERVING, Story, at, ts, written
from zbackup.engines.mongodb.server.assess import NO_OPLOG
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed
from zbackup.model.record import Record


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
    assert at(1) < story.base_record.taken
