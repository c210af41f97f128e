"""The end of a file that was not written to its end."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import Builder
from tests.unit.examples import examples
from zbackup.engines.mysql.binlog import events, torn_end
from zbackup.engines.mysql.binlog.torn_end import torn_at

NOW = 1_700_000_000


def built(mariadb: bool, checksum: bool, transactions: int) -> Builder:
    builder = Builder(mariadb=mariadb, checksum=checksum)
    for number in range(1, transactions + 1):
        if mariadb:
            builder.maria(NOW + number, number, standalone=number % 3 == 0)
        else:
            builder.mysql((NOW + number) * 1_000_000, number)
    return builder


@settings(max_examples=examples(400))
@given(
    mariadb=st.booleans(),
    checksum=st.booleans(),
    transactions=st.integers(0, 4),
    left=st.floats(0, 1, exclude_max=True),
    zeros=st.integers(0, 40),
)
def test_a_file_cut_off_anywhere_ends_behind_its_last_whole_transaction(
    tmp_path_factory: pytest.TempPathFactory,
    mariadb: bool,
    checksum: bool,
    transactions: int,
    left: float,
    zeros: int,
) -> None:
    """In the middle of an event, between two events of a transaction, or in zeros of a crash."""
    builder = built(mariadb, checksum, transactions)
    head = len(Builder(mariadb=mariadb, checksum=checksum).data)
    size = head + int((len(builder.data) - head) * left)
    # The last byte before the cut is none that zeros would bring back.
    while size > head and builder.data[size : size + 1] == b"\0":
        size -= 1
    path = tmp_path_factory.mktemp("log") / "binlog.000001"
    # Without checksums nobody can tell zeros from what was written.
    content = bytes(builder.data[:size]) + b"\0" * (zeros if checksum else 0)
    path.write_bytes(content)
    whole = max((w.end for w in builder.written if w.end <= size), default=head)
    assert torn_at(path) == (None if whole == len(content) else whole)


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("how", ["rotate", "stop", "rotate to a longer number"])
def test_of_a_file_that_was_closed_only_the_end_is_read(
    tmp_path: Path, how: str, checksum: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    builder = built(True, checksum, 3)
    name = "binlog.999999" if "longer" in how else "binlog.000001"
    if how == "stop":
        builder.event(events.STOP, b"")
    else:
        builder.rotate("binlog.1000000" if "longer" in how else "binlog.000002")
    path = tmp_path / name
    path.write_bytes(builder.data)
    assert torn_at(path) is None
    monkeypatch.setattr(torn_end, "opened", lambda _: pytest.fail("it was read"))
    assert torn_at(path) is None


def test_one_that_the_server_still_writes_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(built(True, True, 2).data)
    assert torn_at(path) is None


@pytest.mark.parametrize("size", [0, 3, 4, 40])
def test_one_without_its_first_event_is_left_as_it_is(tmp_path: Path, size: int) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(built(True, True, 1).data[:size])
    assert torn_at(path) is None
