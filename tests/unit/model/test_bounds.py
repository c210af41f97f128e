"""Values that somebody else may have written are read within bounds."""

import json

import pytest

from zbackup.model.bounds import strings

FIELDS = frozenset({"name", "why"})


def test_an_object_of_these_fields_is_read() -> None:
    assert strings('{"name": "a", "why": ""}', FIELDS) == {"name": "a", "why": ""}


@pytest.mark.parametrize(
    "line",
    [
        "",
        "[]",
        '"name"',
        '{"name": "a"}',
        '{"name": "a", "why": "b", "more": "c"}',
        '{"name": "a", "why": 1}',
        '{"name": "a", "why": null}',
        '{"name": "a", "why": ["b"]}',
        "[" * 100_000,
        json.dumps({"name": "a", "why": {"name": "a"}}),
    ],
)
def test_anything_else_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        strings(line, FIELDS)
