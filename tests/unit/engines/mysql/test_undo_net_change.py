"""Taking a transaction back leaves what was there before, whatever it did to rows, in whatever order, and
however little of it the log holds."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from zbackup.features.undo.mysql.changes import UNKNOWN, Change, Row
from zbackup.features.undo.mysql.net_change import Key, NetChange, RowStep, in_turn
from zbackup.features.undo.undoing import ImagesIncomplete
from zbackup.model.table_name import TableName

TABLE, OTHER = TableName("shop", "orders"), TableName("shop", "lines")
State = dict[bytes, tuple[bytes, bytes, bytes]]
DEFAULT = (b"0", b"a", b"z")
KEYS = st.sampled_from([b"1", b"2", b"3", b"4", b"5"])
VALUES = st.sampled_from([b"a", b"b", b"c"])
STATES = st.dictionaries(KEYS, st.tuples(VALUES, VALUES)).map(
    lambda rows: {key: (key, *values) for key, values in rows.items()}
)
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["insert", "bare", "update", "move", "delete"]),
        KEYS,
        KEYS,
        VALUES,
        st.sampled_from(["FULL", "MINIMAL", "NOBLOB"]),
    ),
    max_size=14,
)


@settings(max_examples=examples(500))
@given(STATES, ACTIONS)
def test_the_reverse_of_all_changes_leaves_what_was_there(
    first: State, actions: list[tuple[str, bytes, bytes, bytes, str]]
) -> None:
    state, changes = dict(first), []
    for what, key, other, value, image in actions:
        change = _done(state, what, (key, other), value)
        if change:
            changes.append(_logged(change, image, bare=what == "bare"))

    def row_before(_: TableName, key: Key) -> Row:
        return first[_bytes(key[0])]

    net = NetChange({TABLE: (0,)}, row_before, {TABLE: DEFAULT})
    for change in changes:
        net.saw(change)
    steps = net.steps()
    after = dict(state)
    for step in steps:
        _require_known(step, first, after)
    for step in steps:
        _take_back(state, step)
    assert state == first
    touched = {_bytes(key[0]) for step in steps for key in (step.key, step.key_before)}
    assert touched == {k for k in {*first, *after} if first.get(k) != after.get(k)}, "more than what differs"


def _done(state: State, what: str, keys: tuple[bytes, bytes], value: bytes) -> Change | None:
    """Do it if it can be done, as a server would; what a log says of it that holds all."""
    key, other = keys
    before = state.get(key)
    if what in ("insert", "bare") and before is None:
        state[key] = after = (key, value, b"y") if what == "insert" else (key, *DEFAULT[1:])
        return Change(TABLE, None, after)
    if before is None or what in ("insert", "bare") or (what == "move" and other in state):
        return None
    del state[key]
    if what == "delete":
        return Change(TABLE, before, None)
    after = (other if what == "move" else key, value, before[2])
    state[after[0]] = after
    return Change(TABLE, before, after)


def _logged(change: Change, image: str, *, bare: bool) -> Change:
    """What the log holds of it: of the third column, a BLOB, and all that an image leaves out, nothing."""
    before, after = change.before, change.after
    if image == "FULL":
        return change
    if before is not None:
        before = (before[0], before[1] if image == "NOBLOB" else UNKNOWN, UNKNOWN)
    if after is not None and change.before is not None:
        moved = change.before[0] != after[0]
        after = (after[0] if image == "NOBLOB" or moved else UNKNOWN, after[1], UNKNOWN)
    elif after is not None and bare:
        after = (after[0], UNKNOWN if image == "MINIMAL" else after[1], UNKNOWN)
    return Change(TABLE, before, after)


def _require_known(step: RowStep, first: State, after: State) -> None:
    """It holds whole rows, and the right ones."""
    assert step.before == first.get(_bytes(step.key_before[0]))
    assert step.after == after.get(_bytes(step.key[0]))
    if step.key != step.key_before:
        assert _bytes(step.key[0]) not in first and _bytes(step.key_before[0]) not in after


def _take_back(state: State, step: RowStep) -> None:
    """As the writer does it: only where what is there is what the transaction left."""
    assert state.pop(_bytes(step.key[0]), None) == step.after
    if step.before is not None:
        assert _bytes(step.key_before[0]) not in state
        key, one, other = map(_bytes, step.before)
        state[key] = (key, one, other)


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value


def test_nothing_is_left_to_do_where_rows_are_as_they_were() -> None:
    net = NetChange({TABLE: (0,)})
    net.saw(Change(TABLE, None, (b"1", b"a")))
    net.saw(Change(TABLE, (b"1", b"a"), None))
    assert net.steps() == []


def test_a_row_that_got_another_key_is_one_step_and_two_when_its_old_key_is_used_again() -> None:
    net = NetChange({TABLE: (0,)})
    net.saw(Change(TABLE, (b"1", b"a"), (b"2", b"a")))
    (step,) = net.steps()
    assert (step.kind, step.key, step.key_before) == ("update", (b"2",), (b"1",))
    net.saw(Change(TABLE, None, (b"1", b"other")))
    assert [(s.kind, s.key) for s in net.steps()] == [("update", (b"1",)), ("delete", (b"2",))]


def test_a_key_that_went_from_one_to_the_next_is_one_step_from_the_last_to_the_first() -> None:
    net = NetChange({TABLE: (0,)}, lambda _, __: (b"1", b"a", b"b"))
    net.saw(Change(TABLE, (b"1", UNKNOWN, UNKNOWN), (b"2", UNKNOWN, UNKNOWN)))
    net.saw(Change(TABLE, (b"2", UNKNOWN, UNKNOWN), (b"3", b"x", UNKNOWN)))
    (step,) = net.steps()
    assert (step.kind, step.key, step.key_before) == ("update", (b"3",), (b"1",))
    assert (step.before, step.after) == ((b"1", b"a", b"b"), (b"3", b"x", b"b"))


def test_keys_that_each_went_on_by_one_are_taken_back_row_by_row() -> None:
    net = NetChange({TABLE: (0,)})
    net.saw(Change(TABLE, (b"2", b"b"), (b"3", b"b")))
    net.saw(Change(TABLE, (b"1", b"a"), (b"2", b"a")))
    assert {(s.kind, s.key, s.before) for s in net.steps()} == {
        ("insert", (b"1",), (b"1", b"a")),
        ("update", (b"2",), (b"2", b"b")),
        ("delete", (b"3",), None),
    }


def test_a_change_of_a_row_that_was_removed_makes_no_sense() -> None:
    net = NetChange({TABLE: (0,)})
    net.saw(Change(TABLE, (b"1", b"a"), None))
    with pytest.raises(ValueError, match="an earlier change has removed"):
        net.saw(Change(TABLE, (b"1", b"a"), (b"1", b"b")))


def test_a_key_that_is_not_in_the_log_cannot_be_completed() -> None:
    with pytest.raises(ImagesIncomplete, match=r"keys of shop\.orders") as caught:
        NetChange({TABLE: (0,)}).saw(Change(TABLE, (UNKNOWN, b"a"), None))
    assert not caught.value.by_clone


def test_the_last_change_is_taken_back_first_and_tables_with_triggers_before_all_others() -> None:
    net = NetChange({TABLE: (0,), OTHER: (0,)})
    net.saw(Change(TABLE, None, (b"1", b"a")))
    net.saw(Change(OTHER, None, (b"7", b"a")))
    assert [step.table for step in net.steps()] == [OTHER, TABLE]
    assert [step.table for step in in_turn(net.steps(), [TABLE])] == [TABLE, OTHER]
