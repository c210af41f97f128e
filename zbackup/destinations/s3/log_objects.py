"""An object of an archived log in a bucket, as it is stored.

It is one line of JSON, which says how it is stored, and then the bytes: compressed, and encrypted where
streams are. What is encrypted is bound to its own name: it opens in no other's place.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

import zstandard

from zbackup.destinations.s3.encryption import NONCE, TAG, DataKey, Scope, data_key, new_data_key
from zbackup.destinations.s3.manifest_schema import Envelope
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.model import bounds
from zbackup.model.archive import Chunk, LogFileId
from zbackup.model.errors import Refused, VerificationFailed

LEVEL: Final = 1
_LONGEST_HEAD: Final = 4096
MOST_AROUND: Final = _LONGEST_HEAD + NONCE + TAG + (1 << 16)
"""Bytes of an object beyond those of its chunk."""


@dataclass(frozen=True, slots=True)
class LogObjects:
    """`root` is PREFIX/INSTANCE. One key for each server's log and session."""

    root: str
    storing: StorageSettings
    _keys: dict[str, tuple[DataKey, Envelope]] = field(default_factory=dict)

    def written(self, file: LogFileId, chunk: Chunk, data: bytes) -> bytes:
        """Return the object that holds these bytes: compressed where that is smaller, encrypted where streams
        are."""
        squeezed = zstandard.ZstdCompressor(level=LEVEL, write_content_size=True).compress(data)
        compression = "zstd" if len(squeezed) < len(data) else "none"
        content = squeezed if compression == "zstd" else data
        head: dict[str, object] = {"version": 1, "compression": compression, "encryption": None}
        if not self.storing.encrypts_new:
            return _line(head) + content
        key, envelope = self._new_key(file.server)
        own = DataKey(key.key, _name(file, chunk, compression))
        room = bytearray(NONCE + len(content) + TAG)
        room[NONCE:-TAG] = content
        with memoryview(room) as view:
            own.encrypt(0, True, view, hashlib.sha256(content).digest())
        head["encryption"] = {"key_id": envelope.key_id, "wrapped": envelope.wrapped}
        return _line(head) + bytes(room)

    def opened(self, file: LogFileId, chunk: Chunk, found: bytes | bytearray, where: str) -> bytes:
        """Return the chunk's bytes out of an object `found` at `where`; their hash has yet to prove them.

        Raise VerificationFailed where it is damaged, or not encrypted as it has to be.
        """
        compression, envelope, at = _head(bytes(found[:_LONGEST_HEAD]), where)
        with memoryview(found)[at:] as content:
            if envelope is None:
                if self.storing.signed_only:
                    raise VerificationFailed(f"{where} is not encrypted, and may be anybody's")
                return _plain(bytes(content), compression, chunk, where)
            try:
                key = data_key(self.storing.keys, envelope, self._scope(file.server))
            except Refused as other:
                # Anybody can have put it there who may add; where all need that key, this is what is said.
                raise VerificationFailed(f"{where}: {other}") from other
            if key is None or len(content) < NONCE + TAG:
                raise VerificationFailed(f"{where} is damaged")
            own = DataKey(key.key, _name(file, chunk, compression))
            opening = own.opening(0, True, bytes(content[:NONCE]))
            opening.decrypt(content[NONCE:-TAG])
            opening.end(bytes(content[-TAG:]))
            return _plain(bytes(content[NONCE:-TAG]), compression, chunk, where)

    def _new_key(self, server: str) -> tuple[DataKey, Envelope]:
        if self.storing.keys is None:
            raise AssertionError("who has no key encrypts nothing")
        if server not in self._keys:
            self._keys[server] = new_data_key(self.storing.keys, self._scope(server))
        return self._keys[server]

    def _scope(self, server: str) -> Scope:
        return Scope(about=f"the log of {server}", root=self.root, server=server)


def _name(file: LogFileId, chunk: Chunk, compression: str) -> str:
    """Return the name that what is encrypted is bound to."""
    return f"log {file.server}/{file.key}/{chunk} {compression}"


def _line(head: dict[str, object]) -> bytes:
    return json.dumps(head, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def _head(begin: bytes, where: str) -> tuple[str, Envelope | None, int]:
    """Compression, encryption, and where the content begins."""
    line, newline, _ = begin.partition(b"\n")
    try:
        row = bounds.from_json(line.decode("ascii"))
        if not newline or not isinstance(row, dict) or row.get("version") != 1:
            raise ValueError("another version's")
        compression, encryption = row["compression"], row["encryption"]
        if compression not in ("zstd", "none"):
            raise ValueError("an unknown compression")
        envelope = Envelope.model_validate(encryption) if encryption is not None else None
    except (ValueError, KeyError) as strange:
        raise VerificationFailed(f"{where} is no part of a log that can be read here") from strange
    return compression, envelope, len(line) + 1


def _plain(content: bytes, compression: str, chunk: Chunk, where: str) -> bytes:
    if compression == "none":
        return content
    try:
        if zstandard.get_frame_parameters(content).content_size != chunk.size:
            raise VerificationFailed(f"{where} is of another size")
        return zstandard.ZstdDecompressor().decompress(content, max_output_size=chunk.size)
    except zstandard.ZstdError as damaged:
        raise VerificationFailed(f"{where} is damaged: {damaged}") from damaged
