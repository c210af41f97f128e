"""Streams that a gate lets in, by their first record."""

import struct

import pytest

from zbackup.model.drr_begin import MAGIC, RECORD
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.plan.ship.accept_stream import require_copy, require_plain


def head(
    order: str = "<",
    *,
    kind: int = 0,
    magic: int = MAGIC,
    header: int = 1,
    dataset: int = 2,
    flags: int = 4,
    base: int = 0,
) -> bytes:
    start = struct.pack(order + "IIQQQIIQQ", kind, 0, magic, header | 4 << 2, 1, dataset, flags, 1, base)
    return start + b"tank/a@b".ljust(256, b"\0")


@pytest.mark.parametrize("order", ["<", ">"])
def test_one_snapshot_of_one_file_system_is_let_in(order: str) -> None:
    assert len(head(order)) == RECORD
    require_plain(head(order))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "of 0 bytes"),
        (head()[:-1], "of 311 bytes"),
        (b"x" * RECORD, "no stream"),
        (head(magic=1), "no stream"),
        (head(header=2), "package"),
        (head(header=0), "package"),
        (head(kind=1), "no stream"),
        (head(">", header=2), "package"),
        (head(dataset=3), "not a file system"),
        (head(flags=1), "a clone"),
        (head(">", flags=5), "a clone"),
    ],
)
def test_all_others_are_not(given: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        require_plain(given)


@pytest.mark.parametrize("order", ["<", ">"])
def test_what_was_asked_for_is_told_by_its_guids(order: str) -> None:
    require_copy(head(order), 1, None, "shop@one")
    for guid, base in ((2, None), (1, 7)):
        with pytest.raises(VerificationFailed, match="in place of shop@one is a stream of guid 1"):
            require_copy(head(order), guid, base, "shop@one")
    with pytest.raises(Refused, match="in place of shop@one is refused: a package of streams"):
        require_copy(head(order, header=2), 1, None, "shop@one")


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_incremental_stream_is_told_by_what_it_starts_from(order: str) -> None:
    assert require_plain(head(order, base=7)) == (1, 7)
    require_copy(head(order, base=7), 1, 7, "shop@two")
    for base in (None, 8):
        with pytest.raises(VerificationFailed, match="guid 1 from 7, not of 1 from"):
            require_copy(head(order, base=7), 1, base, "shop@two")
