"""The oplog is archived as the majority has it, whatever happens to it, and what is archived is an oplog."""

from contextlib import suppress
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.mongodb.archived_set import (
    FIRST,
    NOON,
    RECORD,
    Archive,
    Member,
    place_of,
)
from tests.unit.examples import examples
from zbackup.engines.mongodb.archive import follow
from zbackup.engines.mongodb.archive import follow as in_files
from zbackup.engines.mongodb.oplog.stored import documents
from zbackup.engines.mongodb.server.connection import ConnectionLost
from zbackup.model.archive import ArchivedFile
from zbackup.model.errors import NotRecoverable
from zbackup.plan.recovery.archived import chains_from


def held(made: Archive, file: ArchivedFile) -> list[bytes]:
    return list(documents([made.bytes_of[file.file.key]]))


def test_what_was_written_is_archived_once_and_nothing_twice() -> None:
    made = Archive(Member())
    made.member.write(3)
    made.all()
    made.member.write(2)
    made.all()
    assert made.round().appends == ()
    (file,) = made.inventory.files
    assert held(made, file) == made.member.oplog
    assert file.end_position == place_of(made.member.oplog[-1])
    assert file.file.name == f"{FIRST}-1-1.oplog" and file.end == f"{FIRST},5@1"


def test_what_a_majority_has_not_is_not_archived() -> None:
    made = Archive(Member())
    made.member.write(5)
    made.member.committed = 3
    made.all()
    assert held(made, made.inventory.files[0]) == made.member.oplog[:3]


def test_a_member_alone_vouches_for_the_clock_and_one_of_several_for_its_last_entry() -> None:
    made = Archive(Member())
    made.member.write(2)
    (alone,) = made.look()
    assert (alone.complete_to, alone.acknowledged) == (made.now, made.now)
    made.member.voting = 3
    (one,) = made.look()
    wall = NOON + timedelta(milliseconds=2)
    assert (one.complete_to, one.acknowledged) == (wall, wall)
    made.member.voting, made.member.committed = 1, 1
    (behind,) = made.look()
    assert (behind.complete_to, behind.acknowledged) == (NOON + timedelta(milliseconds=1), made.now)


def test_a_clock_ahead_of_ours_is_not_believed() -> None:
    made = Archive(Member(voting=3))
    made.member.write(1)
    made.now = NOON - timedelta(hours=1)
    (file,) = made.look()
    assert file.complete_to == made.now


def test_another_replica_set_is_refused() -> None:
    made = Archive(Member(set_id="other"))
    made.member.write(1)
    with pytest.raises(NotRecoverable, match="another replica set"):
        made.look()


def test_it_begins_where_the_backups_at_the_destination_end() -> None:
    made = Archive(Member())
    made.member.write(5)
    made.since = f"{FIRST},4@-1"
    made.all()
    assert held(made, made.inventory.files[0]) == made.member.oplog[3:]


def test_files_are_closed_by_size_and_age_and_overlap_by_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_files, "MOST_FILE", 1000)
    made = Archive(Member())
    made.member.write(20)
    made.all()
    made.member.pass_time(in_files.MOST_FILE_S)
    made.member.write(1)
    made.all()
    files = made.inventory.files
    assert len(files) > 2 and all(f.closed for f in files[:-1]) and not files[-1].closed
    for one, other in pairwise(files):
        assert other.continues(one) and other.file.begin == one.end_position
    whole = [data for n, file in enumerate(files) for data in held(made, file)[n > 0 :]]
    assert whole == made.member.oplog


def test_appends_end_between_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_files, "MOST_CHUNK", 400)
    made = Archive(Member())
    made.member.write(10, size=50)
    plan = made.round(most=2)
    assert len(plan.appends) > 3
    made.restart()
    made.all()
    assert held(made, made.inventory.files[0]) == made.member.oplog


def test_a_rollback_begins_an_epoch_that_goes_on_from_what_is_still_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_files, "MOST_FILE", 500)
    made = Archive(Member())
    made.member.write(10)
    made.all()
    made.member.roll_back(2)
    # Until the majority is as far again nobody knows.
    assert made.round().appends == ()
    made.member.write(3)
    plan = made.round()
    assert "is not what was archived" in plan.new_epoch
    assert {append.file.epoch for append in plan.appends} == {1}
    chain = chains_from(RECORD, made.inventory.files)[0]
    assert chain.files[-1].file.epoch == 1 and chain.forks
    assert chain.end == str(place_of(made.member.oplog[-1]))


@pytest.mark.parametrize("count", range(1, 13))
def test_however_far_it_is_rolled_back_there_is_a_way(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(in_files, "MOST_FILE", 250)
    made = Archive(Member())
    made.member.write(12)
    made.all()
    assert len(made.inventory.files) > 3
    made.member.roll_back(count)
    made.member.write(12)
    made.all()
    _require_true(made)
    _require_a_way(made)


@pytest.mark.parametrize("one", range(1, 6))
@pytest.mark.parametrize("other", range(1, 6))
def test_rolled_back_again_in_the_same_file_there_is_a_way(
    monkeypatch: pytest.MonkeyPatch, one: int, other: int
) -> None:
    monkeypatch.setattr(in_files, "MOST_FILE", 250)
    made = Archive(Member())
    made.member.write(12)
    made.all()
    for count in (one, other):
        made.member.roll_back(count)
        made.member.write(count + 1)
        made.all()
    _require_true(made)
    _require_a_way(made)


def test_a_member_that_fell_off_is_a_gap_with_two_ends() -> None:
    made = Archive(Member())
    made.member.write(3)
    made.all()
    made.member.write(5)
    made.member.drop_oldest(6)
    plan = made.round()
    assert plan.gap == f"of the log nothing is left from {FIRST},3@1 to {FIRST},7@1"
    before, behind = made.inventory.files
    assert behind.file.epoch == before.file.epoch and behind.file.follows is None
    (chain,) = chains_from(RECORD, made.inventory.files)
    assert chain.why == f"nothing was archived from {FIRST},3@1 to {FIRST},7@1"


@pytest.mark.parametrize("giants", [1, 2, 5])
@pytest.mark.parametrize("most", [2500, 1 << 30])
def test_entries_that_no_append_can_hold_are_a_gap(
    monkeypatch: pytest.MonkeyPatch, giants: int, most: int
) -> None:
    for module in (follow, in_files):
        monkeypatch.setattr(module, "MOST_CHUNK", 1000)
    made = Archive(Member(most=most))
    made.member.write(2)
    made.member.write(giants, size=2000)
    made.all()
    made.member.write(2)
    made.all()
    made.all()
    assert [held(made, f) for f in made.inventory.files] == [made.member.oplog[:2], made.member.oplog[-2:]]
    assert [f.file.follows for f in made.inventory.files] == [None, None]
    assert made.round().appends == ()


def test_a_member_that_lags_behind_the_archive_is_waited_for() -> None:
    made = Archive(Member())
    made.member.write(5)
    made.all()
    whole, made.member.oplog = made.member.oplog, made.member.oplog[:2]
    made.member.committed = 2
    (file,) = made.look()
    assert file.same and file.acknowledged == made.inventory.files[0].complete_to
    made.member.oplog, made.member.committed = whole, 5
    assert not made.round().new_epoch


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 6)),
    st.tuples(st.just("uncommitted"), st.integers(1, 3)),
    st.tuples(st.just("time"), st.integers(1, 3000)),
    st.tuples(st.just("elect"), st.just(0)),
    st.tuples(st.just("roll_back"), st.integers(1, 8)),
    st.tuples(st.just("drop"), st.integers(1, 8)),
    st.tuples(st.just("archive"), st.integers(0, 3)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("cut"), st.integers(0, 8)),
)


@settings(max_examples=examples(150), deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=40))
def test_whatever_happens_what_is_archived_was_once_the_oplog(operations: list[tuple[str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_files, "MOST_FILE", 600)
        patch.setattr(in_files, "MOST_CHUNK", 350)
        made = Archive(Member(most=1500))
        made.member.write(1)
        for what, count in operations:
            _happen(made, what, count)
        made.member.write(1)
        made.all()
        made.all()
        _require_true(made)
        if all(what != "drop" for what, _ in operations):
            _require_a_way(made)


def _happen(made: Archive, what: str, count: int) -> None:
    member = made.member
    if what == "write":
        member.write(count)
    elif what == "uncommitted":
        before = member.committed
        member.write(count)
        member.committed = before
    elif what == "time":
        member.pass_time(count)
    elif what == "elect":
        member.elect()
        member.pass_time(1)
        member.write(1)
    elif what == "roll_back":
        member.roll_back(count)
    elif what == "drop":
        member.drop_oldest(count)
    elif what == "archive":
        made.round(most=count or 1 << 30)
    elif what == "cut":
        # Whatever is asked or appended as the Nth is the last that comes to its end.
        member.calls_left = count
        with suppress(ConnectionLost):
            made.round()
        member.calls_left = None
        made.follower.forget()
    else:
        made.restart()


def _require_true(made: Archive) -> None:
    """Each chain is a part of a history without a hole, and one of them ends where the oplog does."""
    member = made.member
    histories = [*member.histories, member.oplog]
    files = {(f.file.epoch, f.file.number): f for f in made.inventory.files}
    for file in made.inventory.files:
        row = [file]
        while (front := _in_front(row[0], files)) is not None:
            row.insert(0, front)
        whole = [d for n, f in enumerate(row) for d in held(made, f)[n > 0 :]]
        assert len({place_of(d).cluster_time for d in whole}) == len(whole)
        known = _ever(histories)
        for one, other in pairwise(whole):
            assert other in known.get(one, ()), "an entry is missing"
    newest = max(made.inventory.files, key=lambda f: f.file)
    assert newest.end_position == place_of(member.oplog[-1])


def _require_a_way(made: Archive) -> None:
    """From the first entry, which was never rolled back, archived log leads to the end."""
    ends = [chain.end for chain in chains_from(RECORD, made.inventory.files)]
    assert str(place_of(made.member.oplog[-1])) in ends[:1]


def _in_front(file: ArchivedFile, files: dict[tuple[int, int], ArchivedFile]) -> ArchivedFile | None:
    if file.file.follows is None:
        return None
    found = files.get((file.file.follows, file.file.number - 1))
    return found if found and file.continues(found) else None


def _ever(histories: list[list[bytes]]) -> dict[bytes, set[bytes]]:
    """What ever stood behind what."""
    found: dict[bytes, set[bytes]] = {}
    for history in histories:
        for one, other in pairwise(history):
            found.setdefault(one, set()).add(other)
    return found
