"""Whatever a transaction did to rows, in whatever order: taking it back leaves what was there before."""

from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.undo.changes import Change, Row, Unknown
from zbackup.engines.mysql.undo.net_change import NetChange, Step, in_turn
from zbackup.model.copying import TableName

TABLE, OTHER = TableName("shop", "orders"), TableName("shop", "lines")
State = dict[bytes, tuple[bytes, bytes, bytes]]
KEYS = st.sampled_from([b"1", b"2", b"3", b"4", b"5"])
VALUES = st.sampled_from([b"a", b"b", b"c"])
STATES = st.dictionaries(KEYS, st.tuples(VALUES, VALUES)).map(
    lambda rows: {key: (key, *values) for key, values in rows.items()}
)
ACTIONS = st.lists(
    st.tuples(st.sampled_from(["insert", "update", "move", "delete"]), KEYS, KEYS, VALUES), max_size=12
)


@given(STATES, ACTIONS)
def test_the_reverse_of_all_changes_leaves_what_was_there(
    first: State, actions: list[tuple[str, bytes, bytes, bytes]]
) -> None:
    state, changes = dict(first), []
    for what, key, other, value in actions:
        change = _done(state, what, (key, other), value)
        if change:
            changes.append(change)
    net = NetChange({TABLE: (0,)})
    for change in changes:
        net.saw(change)
    steps = net.steps()
    assert not any(step.lacks for step in steps)
    for step in steps:
        _take_back(state, step)
    assert state == first


def _done(state: State, what: str, keys: tuple[bytes, bytes], value: bytes) -> Change | None:
    """Do it if it can be done, as a server would; what the log says of it."""
    key, other = keys
    before = state.get(key)
    if what == "insert" and before is None:
        state[key] = after = (key, value, b"z")
        return Change(TABLE, None, after)
    if before is None or (what == "move" and other in state):
        return None
    del state[key]
    if what == "delete":
        return Change(TABLE, before, None)
    after = (other if what == "move" else key, value, before[2])
    state[after[0]] = after
    return Change(TABLE, before, after)


def _take_back(state: State, step: Step) -> None:
    """As the writer does it: only where what is there is what the transaction left."""
    key, key_before = _bytes(step.key[0]), _bytes(step.key_before[0])
    if step.after is None:
        assert key not in state
    else:
        there = state.pop(key)
        assert all(isinstance(a, Unknown) or a == t for a, t in zip(step.after, there, strict=True))
    if step.before is not None:
        assert key_before not in state
        old = step.before if step.after is None else _filled(step, there)
        state[key_before] = (key_before, _bytes(old[1]), _bytes(old[2]))


def _filled(step: Step, there: tuple[bytes, ...]) -> Row:
    assert step.before is not None
    return tuple(t if isinstance(b, Unknown) else b for b, t in zip(step.before, there, strict=True))


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


def test_the_last_change_is_taken_back_first_and_tables_with_triggers_before_all_others() -> None:
    net = NetChange({TABLE: (0,), OTHER: (0,)})
    net.saw(Change(TABLE, None, (b"1", b"a")))
    net.saw(Change(OTHER, None, (b"7", b"a")))
    assert [step.table for step in net.steps()] == [OTHER, TABLE]
    assert [step.table for step in in_turn(net.steps(), [TABLE])] == [TABLE, OTHER]
