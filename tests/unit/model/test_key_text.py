"""Keys as text: what age-keygen writes is read, and what was mistyped is refused."""

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.key_text import private_bytes, private_text, public_bytes, public_text

# age's own test vectors (age-encryption.org/v1, testkit: 32 bytes of 0x42).
PUBLIC = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj"
PRIVATE = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX"
LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"


def test_it_is_read_as_age_writes_it() -> None:
    private = private_bytes(f"# created: 2026-11-28\n# public key: {PUBLIC}\n{PRIVATE}\n")
    assert private == bytes([0x42]) * 32
    assert X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw() == public_bytes(
        PUBLIC
    )
    assert public_text(public_bytes(PUBLIC)) == PUBLIC and private_text(private) == PRIVATE


@given(st.binary(min_size=32, max_size=32))
def test_every_key_comes_back(key: bytes) -> None:
    assert public_bytes(public_text(key)) == key and private_bytes(private_text(key)) == key


@given(at=st.integers(4, len(PUBLIC) - 1), letter=st.sampled_from(LETTERS))
def test_one_mistyped_letter_is_refused(at: int, letter: str) -> None:
    mistyped = PUBLIC[:at] + letter + PUBLIC[at + 1 :]
    if mistyped != PUBLIC:
        with pytest.raises(ValueError, match="mistyped"):
            public_bytes(mistyped)


@pytest.mark.parametrize("at", range(4, len(PUBLIC) - 1))
def test_two_letters_that_changed_places_are_refused(at: int) -> None:
    swapped = PUBLIC[:at] + PUBLIC[at + 1] + PUBLIC[at] + PUBLIC[at + 2 :]
    if swapped != PUBLIC:
        with pytest.raises(ValueError, match="mistyped"):
            public_bytes(swapped)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no key of this kind"),
        ("age1", "mistyped"),
        (PUBLIC[:-1], "mistyped"),
        (PUBLIC[:10].upper() + PUBLIC[10:], "no key of this kind"),
        ("ssh-ed25519 AAAA", "no key of this kind"),
        (PRIVATE, "this is a private key"),
        (PRIVATE.lower(), "this is a private key"),
        (public_text(bytes(31)), "does not have 32 bytes"),
        (public_text(bytes(33)), "does not have 32 bytes"),
    ],
)
def test_what_is_no_public_key_is_refused_and_not_repeated(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        public_bytes(text)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize("around", ["{}\n", "# a\r\n{}\r\n", "  # a\n\t{} \n\n# b", "\ufeff# a\n{}"])
def test_a_key_file_is_read_as_editors_write_it(around: str) -> None:
    assert private_text(private_bytes(around.format(PRIVATE))) == PRIVATE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# nothing\n", "0 keys instead of one"),
        (f"{PRIVATE}\n{PRIVATE}", "2 keys instead of one"),
        (PUBLIC, "is a public key"),
        (PRIVATE[:-1], "mistyped"),
    ],
)
def test_what_is_no_private_key_is_refused_and_not_repeated(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as refused:
        private_bytes(text)
    assert PRIVATE[20:40] not in str(refused.value)
