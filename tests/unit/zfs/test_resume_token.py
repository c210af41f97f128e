"""A resume token, as OpenZFS writes it, and what is none."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.errors import NotResumable
from zbackup.zfs.resume_token import ResumePoint, numbers, resume_point, with_numbers

OF_2_3 = (
    "1-10844b88c1-f0-789c636064000310a500c4ec50360710e72765a52697303030419460caa7a515a7968064c4"
    "e0f26c48f2499525a9c5407a81840456fd25f9e9a599290c0c6bda9b0b26dc0ec9d54092e704cbe725e6a602e9"
    "c4bc6cfd4487fcbc54883b24a0fa61ee4ecd4d4a4dc9cf069bcf8d249e9c9f5b50945a5c0c94820300a1241d94"
)
"""Of OpenZFS 2.3.9 on x86-64; `zfs send -nvP -t` said the values below."""

Numbers = st.dictionaries(
    st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=20),
    st.integers(0, (1 << 64) - 1),
    max_size=5,
)


def token(packed: bytes) -> str:
    return f"1-5e1f-{len(packed):x}-{zlib.compress(packed).hex()}"


def test_a_real_one() -> None:
    assert resume_point(OF_2_3) == ResumePoint(
        guid=0x6D54DB90708387AC, object=2, offset=0x160000, passed=0x1818A0
    )


@given(Numbers, Numbers)
def test_numbers_are_read_back(some: dict[str, int], more: dict[str, int]) -> None:
    more = {name: value for name, value in more.items() if name not in some}
    packed = with_numbers(with_numbers(b"", some), more)
    assert numbers(packed) == some | more
    assert len(packed) % 8 == 0


GOOD = {"toguid": 1, "object": 2, "offset": 3, "bytes": 4}
PACKED = with_numbers(b"", GOOD)


def test_a_made_one() -> None:
    assert resume_point(token(PACKED)) == ResumePoint(1, 2, 3, 4)


@pytest.mark.parametrize(
    "strange",
    [
        "",
        "-",
        "1-token",
        "2" + token(PACKED)[1:],
        "1-5e1f-60-zz",
        "1-5e1f-60-00",
        token(b""),
        token(PACKED[:40]),
        token(b"\1" + PACKED[1:]),
        token(PACKED[:1] + bytes([1 - PACKED[1]]) + PACKED[2:]),
        token(PACKED[:12] + struct.pack("=i", 3) + PACKED[16:]),
        token(with_numbers(b"", {"toguid": 1, "object": 2})),
        token(bytes(1 << 20)),
    ],
)
def test_what_is_none_is_refused(strange: str) -> None:
    with pytest.raises(NotResumable):
        resume_point(strange)


@given(st.binary(max_size=200))
def test_nothing_else_comes_of_any_bytes(packed: bytes) -> None:
    with pytest.raises(NotResumable):
        resume_point(token(packed))
