"""The rest of a stream, made of the stream itself: what a receiver proves of it, proven here in its place."""

import struct
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.drr_begin import MAGIC, RECORD
from zbackup.model.errors import NotResumable, VerificationFailed
from zbackup.zfs.resume_token import ResumePoint, numbers
from zbackup.zfs.resumed_stream import (
    RESUMING,
    StreamPieces,
    Sum,
    beginning,
    first_placed,
    needed_from,
    resumed,
)
from zbackup.zfs.stream_records import END, StreamRecord, read_record

GUID = 0x1122334455667788
RAW = 1 << 26
Told = tuple[StreamRecord, bytes]
"""A record and its payload."""


def begin(features: int = 0) -> bytes:
    head = struct.pack("<IIQQQIIQQ", 0, 0, MAGIC, 1 | features, 99, 2, 4, GUID, 0)
    return (head + b"tank@one").ljust(RECORD, b"\0")


def an_object(number: int) -> bytes:
    fields = struct.pack("<IIQIIII4BIQ", 1, 0, number, 19, 44, 4096, 8, 0, 0, 1, 0, 0, GUID)
    return fields.ljust(RECORD, b"\0") + b"bonus..."


def write(number: int, offset: int, data: bytes) -> bytes:
    fields = struct.pack("<IIQIIQQQ", 3, 0, number, 19, 0, offset, len(data), GUID)
    return fields.ljust(RECORD, b"\0") + data


def free(number: int, offset: int) -> bytes:
    return struct.pack("<IIQQQQ", 4, 0, number, offset, 100, GUID).ljust(RECORD, b"\0")


def a_range(first: int) -> bytes:
    return struct.pack("<IIQQQ", 9, 0, first, 32, GUID).ljust(RECORD, b"\0")


def whole(records: list[bytes], features: int = 0) -> bytes:
    """A stream of these, with the sums that zfs send gives them."""
    stream = begin(features)
    for record in records:
        summed = Sum().over(stream + record[: RECORD - 32], "<")
        stream += record[: RECORD - 32] + summed.packed("<") + record[RECORD:]
    end = struct.pack("<II", END, 0) + Sum().over(stream, "<").packed("<") + struct.pack("<Q", GUID)
    end = end.ljust(RECORD - 32, b"\0")
    return stream + end + Sum().over(stream + end, "<").packed("<")


def received(stream: bytes) -> list[Told]:
    """What a receiver gets of it, who proves every sum."""
    told: list[Told] = []
    at, summed = 0, Sum()
    while at < len(stream):
        header = stream[at : at + RECORD]
        record = read_record("<", header)
        if record.kind == END:
            assert header[8:40] == summed.packed("<")
        if at:
            summed = summed.over(header[: RECORD - 32], "<")
            assert header[RECORD - 32 :] == summed.packed("<"), f"the sum at {at}"
            summed = summed.over(header[RECORD - 32 :], "<")
        else:
            summed = summed.over(header, "<")
        payload = stream[at + RECORD : at + RECORD + record.payload]
        summed = summed.over(payload, "<")
        told.append((record, payload))
        at += RECORD + record.payload
    assert told[-1][0].kind == END
    return told


def overwritten(content: bytes, size: int) -> Iterator[memoryview]:
    """In pieces that are in the same buffer, one after the other."""
    buffer = bytearray(size)
    for at in range(0, len(content), size):
        some = content[at : at + size]
        buffer[: len(some)] = some
        with memoryview(buffer)[: len(some)] as piece:
            yield piece


def point(number: int, offset: int) -> ResumePoint:
    return ResumePoint(guid=GUID, object=number, offset=offset, passed=0)


def rest(stream: bytes, where: ResumePoint, size: int = 1000, start: int = 0) -> bytes:
    head = beginning(StreamPieces(overwritten(stream, size)))
    source = StreamPieces(overwritten(stream[start:], size))
    return b"".join(bytes(some) for some in resumed(head, where, source))


eight_bytes, repeats, writes = st.binary(min_size=8, max_size=8), st.integers(1, 40), st.integers(0, 4)


@st.composite
def contents(draw: st.DrawFn) -> list[bytes]:
    records = []
    for number in range(3, 3 + draw(st.integers(1, 6))):
        records.append(an_object(number))
        if draw(st.booleans()):
            records.append(free(number, 1 << 40))
        for nth in range(draw(writes)):
            data = draw(eight_bytes) * draw(repeats)
            records.append(write(number, nth * 4096, data))
    return records


@given(contents(), st.data(), st.integers(1, 900))
def test_whoever_was_cut_gets_all_from_there_on(records: list[bytes], data: st.DataObject, size: int) -> None:
    stream = whole(records)
    told = received(stream)
    places = [record.position for record, _ in told if record.position]
    place = data.draw(st.sampled_from(places))
    found = received(rest(stream, point(*place), size))
    head, payload = found[0]
    assert numbers(payload) == {"resume_object": place[0], "resume_offset": place[1]}
    begun = next(n for n, (record, _) in enumerate(told) if record.position == place)
    assert found[1:] == told[begun:]
    assert head.payload == len(payload) and len(payload) % 8 == 0


@given(contents(), st.integers(0, 3000))
def test_a_record_is_found_in_the_middle(records: list[bytes], start: int) -> None:
    stream = whole(records)
    starts, at = {}, 0
    for record, payload in received(stream):
        starts[at] = record
        at += RECORD + len(payload)
    begun = [n for n in starts if n >= max(start, 1) and starts[n].kind != END]
    places = [place for n in begun if (place := starts[n].position)]
    wanted = (begun[0] - start, places[0]) if places else None
    assert first_placed(stream[start:], "<", GUID) == wanted


def test_how_it_begins_is_kept_but_for_where_it_goes_on() -> None:
    stream = whole([an_object(3), write(3, 0, bytes(64))])
    head = rest(stream, point(3, 0))[:RECORD]
    (version,) = struct.unpack_from("<Q", head, 16)
    assert version == 1 | RESUMING
    assert head[24:] == begin()[24:]


def test_of_a_raw_stream_how_the_object_is_encrypted_comes_first() -> None:
    records = [
        a_range(0),
        an_object(5),
        a_range(32),
        an_object(40),
        write(40, 0, bytes(64)),
        write(40, 64, b"12345678"),
    ]
    stream = whole(records, RAW)
    assert needed_from(stream[:RECORD], point(40, 64)) == (32, 0)
    found = received(rest(stream, point(40, 64)))
    assert [record.kind for record, _ in found] == [0, 9, 3, 5]
    after_range = len(begin()) + RECORD + len(an_object(5)) + RECORD
    with pytest.raises(NotResumable, match="how object 40 is encrypted"):
        rest(stream, point(40, 64), start=after_range)


@pytest.mark.parametrize("place", [(3, 8192), (9, 0)])
def test_what_is_not_in_the_stream_is_refused(place: tuple[int, int]) -> None:
    stream = whole([an_object(3), write(3, 0, bytes(64)), write(3, 16384, bytes(64))])
    with pytest.raises(NotResumable, match="no block at"):
        rest(stream, point(*place))


def test_a_stream_that_ends_in_the_middle_is_told() -> None:
    stream = whole([an_object(3), write(3, 0, bytes(64))])
    with pytest.raises(VerificationFailed, match="ends in the middle"):
        rest(stream[:-400], point(3, 0))
