"""A recovery of a member to a target: which writes are in its tables, and what it is then."""

from pathlib import Path

import pytest

from tests.unit.engines.mongodb.recovered import (
    SERVING,
    Story,
    at,
    cluster_time,
    ts,
    until,
    written,
)
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed
from zbackup.model.log import Transaction
from zbackup.model.recovery import Serving
from zbackup.model.target import Stop, WholeLog


@pytest.fixture
def story(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Story:
    return Story(tmp_path, monkeypatch)


ENDS: list[tuple[Stop, int]] = [
    (until(2.1), 2),
    (until(3), 2),
    (until(3.5), 3),
    (until(4.5), 4),
    (until(5), 4),
    (until(5.5), 5),
    (until(8), 7),
    (until(8.5), 8),
    (cluster_time(3), 2),
    (cluster_time(5), 4),
    (cluster_time(8), 7),
    (WholeLog(at(20)), 8),
]


@pytest.mark.parametrize(("stop", "last"), ENDS)
def test_what_was_written_before_the_target_is_applied_once_and_nothing_else(
    story: Story, stop: Stop, last: int
) -> None:
    recovered = story.recover(stop)
    assert story.numbers == list(range(1, last + 1))
    assert recovered.base_exact and recovered.last_applied
    assert recovered.last_applied.end == recovered.position == f"{ts(last).time},1@1"
    skipped = recovered.first_skipped.start if recovered.first_skipped else None
    assert skipped == (f"{ts(last + 1).time},1@1" if last < 8 else None)
    assert recovered.replay and recovered.replay.transactions == max(0, last - 4)


@pytest.mark.parametrize("stop", [until(1), until(2), cluster_time(2)])
def test_a_base_that_holds_more_is_refused(story: Story, stop: Stop) -> None:
    with pytest.raises(NotRecoverable, match="start from an older backup"):
        story.recover(stop)
    story.require_not_served()


def test_what_a_base_without_a_lock_lacks_between_its_last_writes_comes_from_the_log(story: Story) -> None:
    """Its writers write in parallel: it says up to where it has no holes."""
    del story.base.oplog[2]
    story.base.sure = ts(2)
    story.base_record = story.unlocked(2)
    assert not story.recover(until(6.5)).base_exact
    assert story.numbers == [1, 2, 3, 4, 5, 6]


def test_what_a_log_source_without_a_lock_is_not_sure_of_is_not_applied(story: Story) -> None:
    story.source.sure = ts(6)
    assert story.recover(WholeLog(at(20))).position == f"{ts(8).time},1@1", "nobody wrote under the lock"
    story.servers.clear()
    story.source_record = story.unlocked(8)
    assert story.recover(WholeLog(at(20))).position == f"{ts(6).time},1@1"
    assert story.numbers == [1, 2, 3, 4, 5, 6]


def test_another_history_is_not_replayed(story: Story) -> None:
    """The base's last write was rolled back: another primary wrote another one at the same time."""
    story.source.oplog[3:] = [written(number, 2) for number in range(4, 9)]
    with pytest.raises(NotRecoverable, match="rolled back"):
        story.recover(until(6.5))
    story.require_not_served()


def test_nor_one_that_lacks_what_was_recorded_as_the_bases_end(story: Story) -> None:
    """A base without a lock had not all of it on disk yet: its files do not tell that it was rolled back."""
    del story.base.oplog[3]
    story.source.oplog[3:] = [written(number, 2) for number in range(4, 9)]
    with pytest.raises(NotRecoverable, match=r"recorded as the end .* was rolled back"):
        story.recover(until(6.5))
    story.source.oplog[3] = written(4)
    story.servers.clear()
    story.recover(until(6.5))


def test_nor_that_of_another_set(story: Story) -> None:
    story.source.set_id = "another"
    with pytest.raises(NotRecoverable, match="of another replica set"):
        story.recover(until(6.5))


def test_a_base_whose_oplog_goes_on_behind_its_recorded_end_was_not_exact(story: Story) -> None:
    story.base_record = story.record(3)
    assert not story.recover(until(6.5)).base_exact
    story.servers.clear()
    story.base_record = story.record(4, position="")
    assert not story.recover(until(6.5)).base_exact


def test_a_base_whose_tables_are_nowhere_is_refused(story: Story) -> None:
    story.base.checkpoint = None
    with pytest.raises(NotRecoverable, match="has no stable checkpoint to replay from"):
        story.recover(until(6.5))
    story.require_not_served()


@pytest.mark.parametrize(
    ("option", "where", "why"),
    [
        ("ends_replay_at", 5, "the replay ended at"),
        ("begins_replay_at", 1, "the replay began at"),
    ],
)
def test_a_replay_that_did_not_do_what_it_had_to_is_not_handed_over(
    story: Story, option: str, where: int, why: str
) -> None:
    story.options = {option: ts(where)}
    with pytest.raises(VerificationFailed, match=why):
        story.recover(until(6.5))
    story.require_not_served()


def test_nothing_can_be_left_out(story: Story) -> None:
    with pytest.raises(Refused, match="nothing can be left out of an oplog"):
        story.recover(until(6.5), skip=Transaction(start="1,1@1", end="1,1@1", committed=at(1)))
    assert not story.servers


def test_a_log_that_ends_long_before_the_target_is_told(story: Story) -> None:
    story.recover(until(8 + 20))
    assert not story.progress.notes
    story.servers.clear()
    story.recover(until(8 + 21))
    assert len(story.progress.notes) == 1 and "its server was down or lagged then" in story.progress.notes[0]


def test_it_is_nobodys_member_and_has_no_index_that_was_not_finished(story: Story) -> None:
    story.base.indexes = {"shop.orders": ["_id_", "n_1"], "shop.items": ["_id_", "m_1", "o_1"]}
    story.base.unfinished = {"n_1", "o_1"}
    story.recover(until(6.5))
    disk, server = story.server.disk, story.server
    assert (disk.replica_set, disk.oplog) == ("", [])
    assert disk.indexes == {"shop.orders": ["_id_"], "shop.items": ["_id_", "m_1"]}
    assert story.progress.notes == [
        f"the index {name} was still being built then: it is not there"
        for name in ("n_1 of shop.orders", "o_1 of shop.items")
    ]
    assert server.did == [
        *("make room", "start to open", "shut down", "start to replay", "shut down"),
        *("start to open", "shut down", "serve", "close"),
    ]
    assert server.serving == [SERVING] and not story.sets
    assert story.servers["log"].did == ["make room", "start to open, and throw away"]


def test_without_users_there_is_no_server_at_the_end(story: Story) -> None:
    story.recover(until(6.5), None)
    assert story.server.did[-1] == "shut down" and not story.sets
    story.require_not_served()


@pytest.mark.parametrize(("asks", "login"), [(False, "by the socket"), (True, "by the key ")])
def test_a_new_set_is_made_of_it_once_it_runs(story: Story, asks: bool, login: str) -> None:
    story.options = {"asks_for_login": asks}
    story.recover(until(6.5), Serving(port=27117, replica_set="new"))
    assert story.sets == [(login, "new", "127.0.0.1:27117")]
    assert story.server.did[-2:] == ["serve", "close"]


def test_people_are_told_what_is_done(story: Story) -> None:
    story.recover(until(6.5))
    base, log = story.base_record.called, story.source_record.called
    assert story.progress.phases == [
        ("merging the oplogs", f"{base} and {log}"),
        ("replaying", "2 oplog entries"),
        ("handing over", ""),
    ]
