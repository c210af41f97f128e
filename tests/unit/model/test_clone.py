"""A clone's description survives its property; anything else is refused as such."""

import json
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import get_args
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import NOON, moments, words
from zbackup.model.clone import Clone, State, from_property
from zbackup.model.moment import local_text
from zbackup.model.switch import Coming, SteppedAside, Switch
from zbackup.plan.clones.lease import judge

PLAIN = Clone(
    id="1",
    name="shop-1",
    instance="shop",
    engine="mysql",
    kind="restore",
    state="ready",
    created=NOON,
    backup="zbackup-1",
    port=3307,
)

numbers = st.integers(0, 2**64 - 1)
switches = st.builds(
    Switch,
    at=moments,
    suffix=words,
    roots=st.lists(words).map(tuple),
    leaving=st.lists(
        st.builds(
            SteppedAside,
            name=words,
            guid=numbers,
            mountpoint=words,
            own=st.lists(st.tuples(words, words)).map(tuple),
        ),
        max_size=3,
    ).map(tuple),
    coming=st.lists(
        st.builds(
            Coming, number=numbers, name=words, guid=numbers, mountpoint=words, origin=numbers, owner=numbers
        ),
        max_size=3,
    ).map(tuple),
)

clones = st.builds(
    Clone,
    id=words,
    name=words,
    instance=words,
    engine=words,
    kind=st.sampled_from(["restore", "log", "dev"]),
    state=st.sampled_from(get_args(State)),
    created=moments,
    backup=words,
    target=words,
    reached=words,
    port=st.integers(0, 65535),
    host=st.sampled_from(["", "db1.example", "127.0.0.2"]),
    read_only=st.booleans(),
    login=words,
    memory=st.integers(0, 2**40),
    until=st.just("") | moments.map(lambda m: m.isoformat()),
    warned=st.booleans(),
    masked=st.booleans(),
    switch=st.none() | switches,
)


@given(clones)
def test_what_was_written_is_read_back(clone: Clone) -> None:
    text = clone.to_property()
    assert from_property(text) == clone
    assert text.isascii() and "\n" not in text


@pytest.mark.parametrize("name", ["until", "protected"])
@pytest.mark.parametrize(
    ("written", "year"),
    [
        ("9999-12-30T23:00:00+00:00", 2200),
        ("9999-12-31T23:59:59-23:59", 2200),
        ("2200-01-01T00:00:00+00:00", 2200),
        ("0001-01-01T00:00:00+23:59", 1980),
        ("2199-12-31T00:00:00+00:00", 2199),
    ],
)
def test_an_end_far_away_blocks_nothing_and_can_be_calculated_with(
    name: str, written: str, year: int
) -> None:
    """Such were written by "for ever"."""
    asked = replace(PLAIN, kind="dev", until="2024-05-01T12:00:00+00:00")
    clone = from_property(replace(asked, **{name: written}).to_property())
    end = datetime.fromisoformat(getattr(clone, name))
    assert end.year == year and local_text(end, ZoneInfo("Asia/Tokyo"))
    assert judge(clone, NOON, timedelta(days=3)) in ("protected", "runs", "over", "ends soon")
    assert from_property(clone.to_property()) == clone


VALUES = {k: v for k, v in asdict(PLAIN).items() if k != "switch"} | {"created": NOON.isoformat()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ready",
        "5",
        "null",
        "[]",
        "{}",
        json.dumps(VALUES | {"created": "yesterday"}),
        json.dumps(VALUES | {"created": "2024-05-01T12:00:00"}),
        json.dumps(VALUES | {"created": 5}),
        json.dumps(VALUES | {"until": "2024-05-01T12:00:00"}),
        json.dumps(VALUES | {"protected": "for ever"}),
        json.dumps(VALUES | {"protected": "2024-05-01T12:00:00." + "0" * 100 + "+00:00"}),
        json.dumps(VALUES | {"state": "half"}),
        json.dumps(VALUES | {"kind": "toy"}),
        json.dumps(VALUES | {"host": "db1,0.0.0.0"}),
        json.dumps(VALUES | {"host": "/tmp/socket"}),
        json.dumps(VALUES | {"host": 7}),
        json.dumps(VALUES | {"lease": "1h"}),
        json.dumps(VALUES | {"switch": {"at": "now"}}),
        json.dumps(VALUES | {"switch": {"at": "2024-05-01T12:00:00", "suffix": "", "roots": []}}),
        json.dumps({k: v for k, v in VALUES.items() if k != "id"}),
    ],
)
def test_anything_else_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        from_property(text)
