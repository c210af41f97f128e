"""Encryption before anything leaves the host: AES-256-GCM, a data key for each stream, wrapped by the
instance's key.

A segment's nonce is made from its number and its content by HMAC: two contents never share one, and the
same content gives the same object when it is sent again. Its associated data names the stream, the number
and whether it is the last: a segment in the wrong position does not open.
"""

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import AEADDecryptionContext, Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import GCM

from zbackup.destinations.s3.manifest_schema import Envelope
from zbackup.model.errors import Refused, VerificationFailed

KEY = 32
NONCE = 12
TAG = 16
AROUND = NONCE + TAG
"""Bytes that an encrypted segment has besides its content."""

# A segment is encrypted in its own buffer, so much at a time: other threads have to wait for that long.
STEP = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The scope of a data key: it opens nothing else.

    `about` is the stream, or the manifest of a backup. `root` is what keys of the instance's objects begin
    with, and `server` the identity of the server that was backed up. Those of earlier versions have None, and
    are for objects below any root.
    """

    about: str
    root: str | None = None
    server: str = ""

    def __str__(self) -> str:
        return self.about

    @property
    def context(self) -> bytes:
        if self.root is None:
            return f"zbackup data key 1\n{self.about}".encode()
        return b"zbackup data key 2\n" + json.dumps([self.root, self.server, self.about]).encode("ascii")


class KeyStore(Protocol):
    """The protocol of what wraps and unwraps data keys: a key file, or a service that never gives its key
    away."""

    @property
    def key_id(self) -> str:
        """The id of the key that new data keys are wrapped by."""

    def wrap(self, data_key: bytes, scope: Scope) -> str:
        """The data key, wrapped by the key `key_id`; only the same `scope` unwraps it."""

    def unwrap(self, key_id: str, wrapped: str, scope: Scope) -> bytes:
        """Raise Refused when it has no such key, VerificationFailed when it is not what was wrapped."""


@dataclass(frozen=True, slots=True)
class KeyFiles:
    """Keys from files; the first wraps, the others only unwrap what they wrapped before a rotation.

    `keys` is asked when one is needed: secrets are read late. Raise what it raises.
    """

    keys: Callable[[], tuple[bytes, ...]]

    @property
    def key_id(self) -> str:
        return _id_of(self.keys()[0])

    def wrap(self, data_key: bytes, scope: Scope) -> str:
        nonce = os.urandom(NONCE)
        encrypted = AESGCM(self.keys()[0]).encrypt(nonce, data_key, scope.context)
        return base64.b64encode(nonce + encrypted).decode()

    def unwrap(self, key_id: str, wrapped: str, scope: Scope) -> bytes:
        known: Mapping[str, bytes] = {_id_of(key): key for key in self.keys()}
        if key_id not in known:
            raise Refused(f"{scope} needs the key {key_id}; the key files have {', '.join(known)}")
        try:
            encrypted = base64.b64decode(wrapped, validate=True)
            return AESGCM(known[key_id]).decrypt(encrypted[:NONCE], encrypted[NONCE:], scope.context)
        except (InvalidTag, ValueError) as wrong:
            raise VerificationFailed(f"the data key of {scope} is damaged or another stream's") from wrong


def _id_of(key: bytes) -> str:
    """What a key is called: says which it is, and nothing about it."""
    return hashlib.sha256(b"zbackup key id\n" + key).hexdigest()[:16]


def parse_key(text: str) -> bytes:
    """A key as key files have it: 32 bytes in base64. Raise ValueError for anything else."""
    key = base64.b64decode(text.strip(), validate=True)
    if len(key) != KEY:
        raise ValueError(f"a key has {KEY} bytes, not {len(key)}")
    return key


@dataclass(frozen=True, slots=True)
class DataKey:
    """The key of one stream's segments; `stream` says which stream."""

    key: bytes
    stream: str

    def encrypt(self, number: int, last: bool, segment: memoryview, digest: bytes) -> None:
        """Encrypt in place what lies between the room for the nonce and that for the tag.

        `digest` is its SHA-256.
        """
        position = _position(self.stream, number, last)
        nonce = hmac.digest(_derived(self.key, b"nonce"), position + digest, "sha256")[:NONCE]
        encryptor = Cipher(AES(self.key), GCM(nonce)).encryptor()
        encryptor.authenticate_additional_data(position)
        for some in _steps(segment[NONCE:-TAG]):
            encryptor.update_into(some, some)
        encryptor.finalize()
        segment[:NONCE] = nonce
        segment[-TAG:] = encryptor.tag

    def opening(self, number: int, last: bool, nonce: bytes) -> "Opening":
        """What decrypts that segment, as it comes."""
        decryptor = Cipher(AES(self.key), GCM(nonce)).decryptor()
        decryptor.authenticate_additional_data(_position(self.stream, number, last))
        return Opening(decryptor, f"segment {number} of {self.stream}")

    def mac(self, page: bytes, purpose: bytes = b"page") -> str:
        """The signature of a page about the stream, in hexadecimal. One of another purpose has another."""
        return hmac.digest(_derived(self.key, purpose), page, "sha256").hex()


@dataclass(frozen=True, slots=True)
class Opening:
    """A segment that is being decrypted. What comes of it is not to be trusted before end()."""

    decryptor: AEADDecryptionContext
    name: str

    def decrypt(self, some: memoryview) -> None:
        """The next bytes, in place."""
        self.decryptor.update_into(some, some)

    def end(self, tag: bytes) -> None:
        """Raise VerificationFailed unless it was exactly that segment."""
        try:
            self.decryptor.finalize_with_tag(tag)
        except (InvalidTag, ValueError) as wrong:
            raise VerificationFailed(f"{self.name} does not open: damaged, or another segment's") from wrong


def _steps(content: memoryview) -> Iterator[memoryview]:
    return (content[at : at + STEP] for at in range(0, len(content), STEP))


def new_data_key(store: KeyStore, scope: Scope) -> tuple[DataKey, Envelope]:
    key = os.urandom(KEY)
    return DataKey(key, scope.about), Envelope(key_id=store.key_id, wrapped=store.wrap(key, scope))


def data_key(store: KeyStore | None, envelope: Envelope | None, scope: Scope) -> DataKey | None:
    """The stream's key; None when it is not encrypted. Raise Refused when there is no key for it here."""
    if envelope is None:
        return None
    if store is None:
        raise Refused(f"{scope} needs the key {envelope.key_id}, and no key file is configured")
    return DataKey(store.unwrap(envelope.key_id, envelope.wrapped, scope), scope.about)


def _derived(key: bytes, purpose: bytes) -> bytes:
    return hmac.digest(key, b"zbackup " + purpose, "sha256")


def _position(stream: str, number: int, last: bool) -> bytes:
    return f"zbackup segment 1\n{stream}\n{number}\n{int(last)}".encode()
