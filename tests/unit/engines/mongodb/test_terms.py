"""Oplogs of one history or of two, by the terms of their primaries."""

from bisect import bisect_left
from dataclasses import replace

import pytest
from bson.timestamp import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import PLAIN
from zbackup.engines.mongodb.oplog.covered_log import is_same_log, live_span, span_of
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.terms import begin_of_term, covers
from zbackup.model.errors import VerificationFailed
from zbackup.model.log import LogSpan
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import Record

entries = st.lists(
    st.tuples(st.integers(1, 2**32 - 1), st.integers(0, 5), st.integers(0, 2)), min_size=1, max_size=40
)


@given(entries)
def test_where_the_last_term_begins(drawn: list[tuple[int, int, int]]) -> None:
    places = sorted({(seconds, increment) for seconds, increment, _ in drawn})
    steps = [step for _, _, step in drawn]
    oplog = [OplogPosition(s, i, 1 + sum(steps[:n])) for n, (s, i) in enumerate(places)]
    asked = []

    def from_there_on(place: Timestamp) -> OplogPosition:
        asked.append(place)
        return oplog[bisect_left(places, (place.time, place.inc))]

    wanted = next(entry for entry in oplog if entry.term == oplog[-1].term)
    begin = begin_of_term(oplog[0], oplog[-1], from_there_on)
    assert len(asked) <= 64
    assert from_there_on(begin) == wanted


@pytest.mark.parametrize(
    ("wanted", "there"),
    [
        (OplogPosition(100, 1, 7), True),
        (OplogPosition(100, 2, 7), True),
        (OplogPosition(100, 3, 7), False),  # not yet
        (OplogPosition(70, 9, 5), True),
        (OplogPosition(71, 1, 5), False),  # rolled back when term 7 began
        (OplogPosition(60, 1, 6), False),  # of a primary that this oplog never heard of
    ],
)
def test_an_oplog_holds_what_it_passed_in_the_entrys_own_term(wanted: OplogPosition, there: bool) -> None:
    assert (
        covers(OplogPosition(100, 2, 7), (OplogPosition(70, 9, 5), OplogPosition(10, 1, 2)), wanted) == there
    )


def backup(position: str, **server: str) -> Record:
    return replace(PLAIN, engine="mongodb", position=position, server={"set_id": "6b01", **server})


def test_a_restart_or_another_primary_begins_no_other_log() -> None:
    older = backup("90,1@1", oplog_after="95,1@1")
    assert is_same_log(older, backup("99,1@1"))
    assert is_same_log(older, backup("120,1@3", oplog_terms="110,1@2 100,1@1"))
    assert not is_same_log(older, backup("120,1@3", oplog_terms="110,1@2 94,9@1")), "rolled back"
    assert not is_same_log(older, backup("120,1@3", oplog_terms="110,1@2")), "not known"
    assert not is_same_log(older, backup("99,1@1", set_id="other"))
    assert not is_same_log(backup(""), backup("99,1@1"))
    with pytest.raises(VerificationFailed, match="oplog_terms cannot be understood"):
        is_same_log(older, backup("120,1@3", oplog_terms="yesterday"))


def test_a_span_begins_with_what_is_certainly_inside() -> None:
    assert span_of(backup("90,1@1")) is None
    assert span_of(backup("90,1@1", oplog_first="10,1@1")) == LogSpan("10,1@1", "90,1@1")
    stable = backup("90,1@1", oplog_first="10,1@1", stable_checkpoint="80,1@-1")
    assert span_of(stable) == LogSpan("10,1@1", "80,1@-1")


def test_without_an_oplog_nobody_is_asked() -> None:
    assert live_span(ConnectOptions(socket="/nowhere"), backup("")) is None
