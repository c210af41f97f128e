"""Steps that take a transaction back lead to what was there, whatever it did to documents in whatever
order."""

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.examples import examples
from zbackup.features.undo.mongodb.images import DocumentStep, steps
from zbackup.features.undo.mongodb.session import command, judge, portions, statement
from zbackup.model.table_name import TableName

DOCS = TableName("shop", "docs")
KEYS = st.sampled_from([1, 2, 3])
WRITES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.sampled_from(["a", "b"]))), max_size=8)


def document(key: int, value: str | None) -> RawBSONDocument | None:
    return None if value is None else RawBSONDocument(bson.encode({"_id": key, "v": value}))


def place(key: int) -> tuple[TableName, bytes]:
    return DOCS, bson.encode({"_id": key})


@settings(max_examples=examples(300))
@given(st.dictionaries(KEYS, st.sampled_from(["a", "b"])), WRITES)
def test_the_steps_are_what_differs_and_lead_back(
    first: dict[int, str], writes: list[tuple[int, str | None]]
) -> None:
    now: dict[int, str | None] = dict(first)
    seen = []
    for key, value in writes:
        seen.append((place(key), document(key, now.get(key)), document(key, value)))
        now[key] = value
    found = steps(seen)
    for step in found:
        there = document(step.id, now.get(step.id))
        assert judge(step, there) == ("open", "")
        assert judge(step, step.before) == ("already", "")
        now[step.id] = None if step.before is None else step.before["v"]
    assert {key: value for key, value in now.items() if value is not None} == first
    last = {key: number for number, (key, _) in enumerate(writes)}
    assert [step.id for step in found] == sorted((s.id for s in found), key=lambda key: -last[key])


@pytest.mark.parametrize(
    ("before", "after", "there", "why"),
    [
        ("a", None, "c", "inserted again since"),
        ("a", "b", None, "deleted since"),
        ("a", "b", "c", "changed since"),
        (None, "b", "c", "changed since"),
    ],
)
def test_what_others_wrote_is_a_conflict(
    before: str | None, after: str | None, there: str | None, why: str
) -> None:
    step = DocumentStep(*place(1), document(1, before), document(1, after))
    assert judge(step, document(1, there)) == ("conflict", why)


def test_the_reverse_is_a_command_that_mongosh_takes() -> None:
    insert = DocumentStep(*place(1), document(1, "a"), None)
    assert list(command(insert)) == ["insert", "documents"]
    assert command(DocumentStep(*place(1), None, document(1, "a")))["deletes"][0]["limit"] == 1
    update = command(DocumentStep(*place(1), document(1, "a"), document(1, "b")))
    assert update["updates"][0]["u"][0]["$replaceWith"]["$literal"]["v"] == "a"
    assert statement(insert) == (
        'db.getSiblingDB("shop").runCommand(EJSON.parse("{\\"insert\\": \\"docs\\", \\"documents\\": '
        '[{\\"_id\\": {\\"$numberInt\\": \\"1\\"}, \\"v\\": \\"a\\"}]}"));'
    )


def test_an_insert_that_the_server_would_alter_is_written_another_way() -> None:
    stamped = RawBSONDocument(bson.encode({"_id": 1, "t": bson.Timestamp(0, 0)}))
    (update,) = command(DocumentStep(*place(1), stamped, None))["updates"]
    assert update["upsert"]


def test_portions_are_bounded() -> None:
    many = [DocumentStep(*place(n), document(n, "a"), None) for n in range(2500)]
    assert [len(portion) for portion in portions(many)] == [1000, 1000, 500]
    large = [DocumentStep(*place(n), document(n, "a" * (3 << 20)), None) for n in range(3)]
    assert [len(portion) for portion in portions(large)] == [1, 1, 1]
