"""Compressed events are opened piece by piece, each byte a few times at the most."""

import struct
import tracemalloc

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.engines.binlog.builder import packed
from zbackup.engines.mysql.binlog import compressed
from zbackup.engines.mysql.binlog.compressed import inner_events

ROWS = 30
MIB = 1 << 20


def event(size: int, fill: bytes = b"x") -> bytes:
    """One of that many bytes with its header."""
    return struct.pack("<IBIIIH", 1, ROWS, 1, size, 0, 0) + fill * (size - 19)


def payload(events: bytes, *, plain: bool = False) -> bytes:
    """A transaction payload that holds them."""
    kind = packed(255) if plain else b"\0"
    held = events if plain else zstandard.ZstdCompressor().compress(events)
    return (
        b"\2"
        + packed(len(kind))
        + kind
        + b"\1"
        + packed(len(packed(len(held))))
        + packed(len(held))
        + b"\0"
        + held
    )


@pytest.mark.parametrize("plain", [True, False])
@given(sizes=st.lists(st.integers(19, 90), max_size=12), chunk=st.integers(1, 60), most=st.integers(19, 100))
def test_events_are_the_same_in_pieces_of_any_size(
    plain: bool, sizes: list[int], chunk: int, most: int
) -> None:
    made = [event(size, bytes((number,))) for number, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compressed, "CHUNK", chunk)
        body = payload(b"".join(made), plain=plain)
        assert list(inner_events(body)) == made
        cut = [event(min(most, len(one)), one[-1:] if len(one) > 19 else b"x") for one in made]
        assert list(inner_events(body, most)) == cut
        if made:
            with pytest.raises(ValueError, match="within an event"):
                list(inner_events(payload(b"".join(made)[:-1], plain=plain)))


def test_one_large_event_takes_no_memory() -> None:
    """A small payload opens to very much: if each piece were joined to all before it, this took minutes."""
    size = 512 * MIB
    head = event(size, b"")
    squeezer = zstandard.ZstdCompressor().compressobj()
    held = squeezer.compress(head) + b"".join(
        squeezer.compress(bytes(min(MIB, size - 19 - at))) for at in range(0, size - 19, MIB)
    )
    held += squeezer.flush()
    body = b"\2\1\0\0" + held
    assert len(body) < MIB
    tracemalloc.start()
    try:
        [one] = inner_events(body, 1 << 18)
        assert tracemalloc.get_traced_memory()[1] < 16 * MIB
    finally:
        tracemalloc.stop()
    assert one[:9] == head[:9] and len(one) == 1 << 18
