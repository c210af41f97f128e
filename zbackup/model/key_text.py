"""X25519 keys as text, in the form that age-keygen writes: age1... is public, AGE-SECRET-KEY-1... private.

The text is Bech32 (BIP 173): six characters at its end are a checksum, so that a mistyped public key is
refused. With another one everything would be encrypted for a key that nobody has. age's recipients have no
limit of 90 characters, and need none: these have 62 and 74.
"""

from collections.abc import Iterable, Iterator
from typing import Final

KEY: Final = 32
PUBLIC: Final = "age"
PRIVATE: Final = "age-secret-key-"
_LETTERS: Final = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_CHECKSUM: Final = 6


def public_text(key: bytes) -> str:
    """A public key's 32 bytes as text."""
    return _text(PUBLIC, key)


def private_text(key: bytes) -> str:
    """A private key's 32 bytes as text."""
    return _text(PRIVATE, key).upper()


def public_bytes(text: str) -> bytes:
    """The 32 bytes of a public key. Raise ValueError, which never holds the text, for anything else."""
    if text.lower().startswith(PRIVATE):
        raise ValueError("this is a private key; it must not be here or on this host: make a new key pair")
    return _bytes(PUBLIC, text)


def private_bytes(text: str) -> bytes:
    """The 32 bytes of the private key in a key file, in which lines that begin with # are comments.

    Raise ValueError, which never holds the text, for anything else.
    """
    stripped = (line.strip() for line in text.removeprefix("\ufeff").splitlines())
    lines = [line for line in stripped if line and not line.startswith("#")]
    if len(lines) != 1:
        raise ValueError(f"it has {len(lines)} keys instead of one (AGE-SECRET-KEY-1...)")
    if lines[0].lower().startswith(f"{PUBLIC}1"):
        raise ValueError("it is a public key, which cannot decrypt")
    return _bytes(PRIVATE, lines[0])


def _text(kind: str, key: bytes) -> str:
    words = [*_regrouped(key, 8, 5)]
    check = _polymod((*_expanded(kind), *words, *bytes(_CHECKSUM))) ^ 1
    words += [check >> 5 * (_CHECKSUM - 1 - n) & 31 for n in range(_CHECKSUM)]
    return f"{kind}1" + "".join(_LETTERS[word] for word in words)


def _bytes(kind: str, text: str) -> bytes:
    example = f"{kind}1...".upper() if kind == PRIVATE else f"{kind}1..."
    if text not in (text.lower(), text.upper()) or not text.lower().startswith(f"{kind}1"):
        raise ValueError(f"it is no key of this kind (these begin with {example})")
    words = [_LETTERS.find(letter) for letter in text.lower().removeprefix(f"{kind}1")]
    if -1 in words or _polymod((*_expanded(kind), *words)) != 1:
        raise ValueError("it is mistyped or incomplete: its checksum is wrong")
    key = bytes(_regrouped(words[:-_CHECKSUM], 5, 8))
    if len(key) != KEY or _text(kind, key) != text.lower():
        raise ValueError(f"it does not have {KEY} bytes")
    return key


def _expanded(kind: str) -> Iterator[int]:
    yield from (ord(letter) >> 5 for letter in kind)
    yield 0
    yield from (ord(letter) & 31 for letter in kind)


def _polymod(words: Iterable[int]) -> int:
    check = 1
    for word in words:
        top = check >> 25
        check = (check & 0x1FFFFFF) << 5 ^ word
        for bit, factor in enumerate((0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)):
            check ^= factor if top >> bit & 1 else 0
    return check


def _regrouped(values: Iterable[int], old: int, new: int) -> Iterator[int]:
    """The same bits in groups of another size; of bytes the last group is filled up with zeros."""
    held = bits = 0
    for value in values:
        held, bits = held << old | value, bits + old
        while bits >= new:
            bits -= new
            yield held >> bits & ((1 << new) - 1)
    if bits and new == 5:
        yield held << (new - bits) & 31
