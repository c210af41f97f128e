"""An object of an archived log in a bucket, as it is stored.

It is one line of JSON, which says how it is stored, and then the bytes: compressed, and encrypted where
streams are. What is encrypted is bound to its own name: it opens in no other's place. Where contents are
sealed for a public key, the line is signed, with its name and the hash of the bytes: anybody can seal.
"""

import hashlib
import json
from dataclasses import dataclass, field
from typing import Final

import zstandard

from zbackup.destinations.s3.encryption import NONCE, TAG, DataKey, Scope, data_key, new_data_key
from zbackup.destinations.s3.manifest_schema import Envelope, SealedKey
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.destinations.s3.signatures import is_signature
from zbackup.model import bounds
from zbackup.model.archive import Chunk, LogFileId
from zbackup.model.errors import Refused, VerificationFailed

LEVEL: Final = 1
LONGEST_HEAD: Final = 4096
MOST_AROUND: Final = LONGEST_HEAD + NONCE + TAG + (1 << 16)
"""Bytes of an object beyond those of its chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """The first line of an object, `length` bytes with its end. `contents`, `sha256` (of the other bytes) and
    `seal` are of a sealed one; `unsigned` is what that is of."""

    compression: str
    encryption: Envelope | None
    contents: SealedKey | None
    sha256: str
    seal: str
    unsigned: dict[str, object]
    length: int


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
        head["encryption"] = {"key_id": envelope.key_id, "wrapped": envelope.wrapped}
        name = _name(file, chunk, compression)
        if self.storing.public is None:
            return _line(head) + _encrypted(DataKey(key.key, name), content)
        # A key of each object's own: none that is in memory opens what was archived before.
        own, sealed = self.storing.public.new_key(self._scope(file.server))
        body = _encrypted(DataKey(own.key, name), content)
        head |= {
            "version": 2,
            "contents": {"public_key": sealed.public_key, "sealed": sealed.sealed},
            "sha256": hashlib.sha256(body).hexdigest(),
        }
        return _line(head | {"seal": _seal(key, head, name)}) + body

    def opened(self, file: LogFileId, chunk: Chunk, found: bytes | bytearray, where: str) -> bytes:
        """Return the chunk's bytes out of an object `found` at `where`; their hash has yet to prove them.

        Raise VerificationFailed where it is damaged, or not encrypted as it has to be, and
        PrivateKeyElsewhere.
        """
        head = _head(bytes(found[:LONGEST_HEAD]), where)
        with memoryview(found)[head.length :] as content:
            if head.encryption is None:
                if self.storing.signed_only:
                    raise VerificationFailed(f"{where} is not encrypted, and may be anybody's")
                return _plain(bytes(content), head.compression, chunk, where)
            key = self._proven(file, chunk, head, where, content)
            if head.contents:
                key = self.storing.private.unseal(head.contents, self._scope(file.server))
            if len(content) < NONCE + TAG:
                raise VerificationFailed(f"{where} is damaged")
            own = DataKey(key.key, _name(file, chunk, head.compression))
            opening = own.opening(0, True, bytes(content[:NONCE]))
            opening.decrypt(content[NONCE:-TAG])
            opening.end(bytes(content[-TAG:]))
            return _plain(bytes(content[NONCE:-TAG]), head.compression, chunk, where)

    def sealed_for(self, file: LogFileId, chunk: Chunk, begin: bytes | bytearray, where: str) -> str:
        """The id of the public key that an object's bytes are sealed for, "" where they are not; its
        beginning says so.

        Raise VerificationFailed unless it was signed as the object of that name.
        """
        head = _head(bytes(begin[:LONGEST_HEAD]), where)
        if head.contents is None:
            return ""
        self._proven(file, chunk, head, where)
        return head.contents.public_key

    def is_sealed(self, file: LogFileId, chunk: Chunk, found: bytes | bytearray, where: str) -> bool:
        """Whether an object is sealed, and all of it is as it was signed. Raise as sealed_for does."""
        head = _head(bytes(found[:LONGEST_HEAD]), where)
        if head.contents is None:
            return False
        with memoryview(found)[head.length :] as content:
            self._proven(file, chunk, head, where, content)
        return True

    def _proven(
        self, file: LogFileId, chunk: Chunk, head: _Head, where: str, content: memoryview | None = None
    ) -> DataKey:
        """The key that is wrapped in an object; it has signed the head of one that is sealed, and by that
        the `content`."""
        try:
            key = data_key(self.storing.keys, head.encryption, self._scope(file.server))
        except Refused as other:
            # Anybody can have put it there who may add; where all need that key, this is what is said.
            raise VerificationFailed(f"{where}: {other}") from other
        if key is None:
            raise VerificationFailed(f"{where} is damaged")
        if head.contents:
            name = _name(file, chunk, head.compression)
            signed = is_signature(head.seal, _seal(key, head.unsigned, name))
            if not signed or (content is not None and head.sha256 != hashlib.sha256(content).hexdigest()):
                raise VerificationFailed(f"{where} was changed since it was written, or is another's")
        return key

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


def _encrypted(key: DataKey, content: bytes) -> bytes:
    room = bytearray(NONCE + len(content) + TAG)
    room[NONCE:-TAG] = content
    with memoryview(room) as view:
        key.encrypt(0, True, view, hashlib.sha256(content).digest())
    return bytes(room)


def _seal(key: DataKey, unsigned: dict[str, object], name: str) -> str:
    """The signature of a head, which holds none yet, as that of the object of that name."""
    return key.mac(_line(unsigned) + name.encode(), b"log")


def _head(begin: bytes, where: str) -> _Head:
    line, newline, _ = begin.partition(b"\n")
    try:
        row = bounds.from_json(line.decode("ascii"))
        if not newline or not isinstance(row, dict) or row.get("version") not in (1, 2):
            raise ValueError("another version's")
        compression, encryption = row["compression"], row["encryption"]
        if compression not in ("zstd", "none"):
            raise ValueError("an unknown compression")
        sealed = row["version"] == 2
        return _Head(
            compression=compression,
            encryption=Envelope.model_validate(encryption) if encryption is not None or sealed else None,
            contents=SealedKey.model_validate(row["contents"]) if sealed else None,
            sha256=str(row["sha256"]) if sealed else "",
            seal=str(row["seal"]) if sealed else "",
            unsigned={name: value for name, value in row.items() if name != "seal"},
            length=len(line) + 1,
        )
    except (ValueError, KeyError) as strange:
        raise VerificationFailed(f"{where} is no part of a log that can be read here") from strange


def _plain(content: bytes, compression: str, chunk: Chunk, where: str) -> bytes:
    if compression == "none":
        return content
    try:
        if zstandard.get_frame_parameters(content).content_size != chunk.size:
            raise VerificationFailed(f"{where} is of another size")
        return zstandard.ZstdDecompressor().decompress(content, max_output_size=chunk.size)
    except zstandard.ZstdError as damaged:
        raise VerificationFailed(f"{where} is damaged: {damaged}") from damaged
