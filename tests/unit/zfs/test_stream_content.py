"""The content of a stream that counts: objects and their data, and nothing of how it is written."""

import io
import struct

import pytest

from zbackup.model.drr_begin import MAGIC, RECORD
from zbackup.model.errors import Stopped, VerificationFailed
from zbackup.proc.pipeline import Meter, Pace
from zbackup.zfs.stream_content import content

DATA = b"x" * 4096


def record(
    kind: int, layout: str, *values: int, payload: bytes = b"", length: int = 0, order: str = "<"
) -> bytes:
    head = struct.pack(f"{order}II{layout}", kind, length, *values)
    return head.ljust(RECORD, b"\0") + payload


def begin(order: str = "<", guid: int = 1) -> bytes:
    return record(0, "QQQIIQQ", MAGIC, 17, 99, 2, 4, guid, 0, payload=b"nvlist  ", length=8, order=order)


def an_object(order: str = "<", number: int = 7) -> bytes:
    return record(1, "QIIII", number, 19, 44, 4096, 5, payload=b"bonus\0\0\0", order=order)


def write(offset: int = 0, data: bytes = DATA, order: str = "<") -> bytes:
    return record(3, "QI4xQQQ8x", 7, 19, offset, len(data), 1, payload=data, order=order)


def squeezed(data: bytes = b"small") -> bytes:
    """compressed: of 4096 bytes so many are left"""
    return record(3, "QI4xQQQBBB5x40xQ", 7, 19, 0, 4096, 1, 0, 0, 15, len(data), payload=data)


END = record(5, "4Q", 1, 2, 3, 4)
FREE = record(4, "QQQ", 7, 8192, 100)
SPILL = record(7, "QQ", 7, 512, payload=b"s" * 512)
EMBEDDED = record(8, "QQQQ8xII", 7, 0, 4096, 1, 4096, 11, payload=b"e" * 16)


def sha(*records: bytes) -> str:
    found = content(io.BytesIO(b"".join(records)), 0, Pace(Meter()))
    assert found is not None and found.whole
    return found.sha256


def test_all_kinds_of_data_count_and_are_measured() -> None:
    stream = (begin(), an_object(), write(), squeezed(), SPILL, EMBEDDED, FREE, END)
    found = content(io.BytesIO(b"".join(stream)), 0, Pace(Meter()))
    assert found is not None and found.whole
    assert found.size == 8 + 4096 + 5 + 512 + 16


def test_names_checksums_and_holes_make_no_difference() -> None:
    other_end = record(5, "4Q", 9, 9, 9, 9)
    assert sha(begin(), write(), END) == sha(begin(guid=5), FREE, write(), FREE, other_end)


def test_the_order_of_bytes_makes_no_difference() -> None:
    assert sha(begin(">"), an_object(">"), write(order=">"), record(5, "Q", 0, order=">")) == sha(
        begin(), an_object(), write(), END
    )


@pytest.mark.parametrize("other", [write(offset=4096), write(data=b"y" * 4096), an_object(), FREE])
def test_every_other_content_is_another(other: bytes) -> None:
    assert sha(begin(), write(), END) != sha(begin(), other, END)


def test_no_more_is_read_than_is_asked_for() -> None:
    source = io.BytesIO(begin() + write() + write(4096) + END)
    found = content(source, 10, Pace(Meter()))
    assert found is not None and not found.whole and found.size == 4096
    assert source.tell() == len(begin() + write())


@pytest.mark.parametrize("cut", [0, 100, RECORD + 8, RECORD + 108, RECORD + 8 + RECORD + 1])
def test_a_stream_that_ends_in_the_middle_has_no_content(cut: int) -> None:
    assert content(io.BytesIO((begin() + write() + END)[:cut]), 0, Pace(Meter())) is None


@pytest.mark.parametrize("stream", [b"x" * RECORD, begin() + record(77, "Q", 1)])
def test_what_is_not_known_is_refused(stream: bytes) -> None:
    with pytest.raises(VerificationFailed):
        content(io.BytesIO(stream), 0, Pace(Meter()))


def test_it_is_read_no_faster_than_allowed_and_cut_when_zbackup_ends() -> None:
    counted: list[int] = []
    stream = begin() + write() + write(4096) + END
    whole = content(io.BytesIO(stream), 0, Pace(Meter(limit=1 << 30, moved=counted.append)))
    assert whole is not None and whole.whole
    assert counted[-1] == len(stream) - len(END), "what a limit is of"
    source = io.BytesIO(stream)
    with pytest.raises(Stopped):
        content(source, 0, Pace(Meter(stop=lambda: source.tell() > len(begin()))))
    assert source.tell() == len(begin() + write())
