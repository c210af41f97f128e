"""A place in an oplog is a file's name, a chunk's tail, and a word for people, and is read back from each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model.test_archive import chunk, file
from zbackup.model.oplog_position import OplogPosition, begin_of, end_of

WORDS = st.integers(0, 2**32 - 1)
PLACES = st.builds(OplogPosition, WORDS, WORDS, st.integers(-1, 2**63 - 1))


@given(PLACES)
def test_each_way_there_and_back(place: OplogPosition) -> None:
    assert begin_of(place.name) == place
    assert end_of(place.tail) == place and len(place.tail) == 32
    assert OplogPosition.parse(str(place)) == place


@given(st.text(max_size=60))
def test_other_names_begin_nowhere(name: str) -> None:
    found = begin_of(name)
    assert found is None or found.name == name


@pytest.mark.parametrize(
    "name",
    ["binlog.000001", "1-2-3.oplo", "4294967296-1-1.oplog", "1-2--2.oplog", "a-2-3.oplog", "01-2-3.oplog"],
)
def test_no_log_of_another_server_is_called_so(name: str) -> None:
    assert begin_of(name) is None


@pytest.mark.parametrize("text", ["", "1,2", "1,2@-2", "4294967296,1@1", "1,2@9223372036854775808"])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        OplogPosition.parse(text)


def test_a_tail_that_no_oplog_has_is_refused() -> None:
    with pytest.raises(ValueError):
        end_of("0" * 16 + "f" * 15 + "e")


def test_a_file_of_another_server_ends_at_its_offset() -> None:
    from zbackup.model.archive import ArchivedFile

    found = ArchivedFile(file=file(), last=chunk(0, 5000))
    assert found.end_position is None and found.end == f"{file().name}:5000"
