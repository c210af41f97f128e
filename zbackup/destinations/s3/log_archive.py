"""The log archive of an instance in a bucket: an object for each append, its name says what it holds.

PREFIX/INSTANCE/log/SERVER/EPOCH.writer who archives that epoch; put if there is none
PREFIX/INSTANCE/log/SERVER/KEY/CHUNK    see model.archive for SERVER (server_key), KEY and CHUNK

What an object is made of is said in `log_objects`. Small ones of one file are folded into larger ones now and
then, where they may be deleted; as names say which bytes are inside, those that are left over by a fold that
was cut short are seen to be covered.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Final

import zstandard

from zbackup.destinations.archived_bytes import Gone, listed_again
from zbackup.destinations.s3.client import Bucket, Fill
from zbackup.destinations.s3.encryption import NONCE, TAG, DataKey, Scope, data_key, new_data_key
from zbackup.destinations.s3.manifest_schema import Envelope, SealedKey
from zbackup.destinations.s3.sealed_keys import elsewhere
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.destinations.s3.signatures import is_signature
from zbackup.model import bounds
from zbackup.model.archive import (
    CLAIM,
    MOST_CHUNK,
    ArchivedFile,
    ArchiveInventory,
    Chunk,
    LogFileId,
    claim_name,
    complete_of,
    inventory_of,
    whole,
)
from zbackup.model.errors import BucketRefused, NotFound, Refused, Taken, VerificationFailed, ZbackupError
from zbackup.model.event_log import log

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


SMALL: Final = 1 << 20
"""Bytes of an append that is worth being folded with others."""
FOLD_AT: Final = 256
"""Small objects in a row that are folded; what there are when a file is closed are, too."""
_TOLD: Final = 20
_MOST_CLAIM: Final = 1000
_CLAIM: Final = re.compile(rf"[^/]{{1,64}}/[0-9]{{8}}{re.escape(CLAIM)}")
_MOST_TRIED: Final = 100
"""Objects that are opened to find out up to when a file is complete; strangers may have added any number."""


@dataclass(frozen=True, slots=True)
class _Object:
    chunk: Chunk
    size: int


@dataclass(slots=True)
class S3Logs:
    """`root` is PREFIX/INSTANCE. Knows between calls what is there of the files that it appends to."""

    bucket: Bucket
    root: str
    address: str
    storing: StorageSettings
    locked: bool = False
    _known: dict[str, list[_Object]] = field(default_factory=dict)
    _unfoldable: dict[str, int] = field(default_factory=dict)
    """By key, up to where a file's small objects could not be folded."""
    _stored: LogObjects = field(init=False)

    def __post_init__(self) -> None:
        self._stored = LogObjects(self.root, self.storing)

    def archived(self) -> ArchiveInventory:
        self._known.clear()
        files: list[ArchivedFile] = []
        problems: list[str] = []
        headless: list[LogFileId] = []
        entries_of = ((e.key.removeprefix(self._below), e.size) for e in self.bucket.list(self._below))
        listed = (each for each in entries_of if not _CLAIM.fullmatch(each[0]))
        for path, entries in groupby(listed, key=lambda each: each[0].rpartition("/")[0]):
            server, _, key = path.partition("/")
            try:
                file = LogFileId.parse(server, key)
            except ValueError as problem:
                problems.append(f"{self._below}{ascii(path)[1:-1]}: {problem}")
                continue
            objects, strange = _objects(entries)
            problems += (f"{self._of(file)}: {problem}" for problem in strange)
            if found := _archived(file, objects):
                files.append(found)
                if not found.closed:
                    self._known[file.key] = _counting(objects)
            elif objects:
                headless.append(file)
        more = [f"and {len(problems) - _TOLD} more"] if len(problems) > _TOLD else []
        return inventory_of(self.address, files, (*problems[:_TOLD], *more), headless)

    def claim(self, server: str, epoch: int, writer: str) -> str:
        key = f"{self._below}{server}/{claim_name(epoch)}"
        self.bucket.put_new(key, writer.encode())
        try:
            return bytes(self.bucket.get(key, _MOST_CLAIM)).decode("ascii", "replace")
        except NotFound as gone:
            raise VerificationFailed(f"{key} at {self.address}: taken away meanwhile") from gone

    def append(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        if len(data) != chunk.size or hashlib.sha256(data).hexdigest() != chunk.sha256:
            raise ValueError(f"{file}: what was to be appended is not what it was announced to be")
        known = self._known.get(file.key)
        if known is None:
            known = self._known[file.key] = _counting(self._objects_of(file))
        last = known[-1].chunk if known else None
        if last and (last == chunk or ((chunk.size or chunk.closed) and _end(last) == _end(chunk))):
            return known[-1].size
        size = last.end if last else 0
        if size != chunk.begin or (last and last.closed):
            self._known.pop(file.key)
            raise Taken(f"{file} has {size} bytes, not {chunk.begin}: somebody else archives it")
        stored = self._put(file, chunk, data)
        known.append(_Object(chunk, stored))
        self._fold(file, known)
        if chunk.closed:
            self._known.pop(file.key)
        return stored

    def chunks(self, file: LogFileId, begin: int, end: int) -> Iterator[tuple[Chunk, bytes]]:
        """The chunks that hold these bytes, opened; whoever asks proves them by their hashes."""
        return listed_again(lambda at: self._listed(file, at, end), begin, end)

    def _listed(self, file: LogFileId, begin: int, end: int) -> Iterator[tuple[Chunk, bytes]]:
        """The same by one listing. Raise Gone for what is not there any more when it is read."""
        waiting = sorted((o.chunk for o in self._objects_of(file)), key=lambda c: c.begin, reverse=True)
        at, holding = begin, list[Chunk]()
        while at < end:
            while waiting and waiting[-1].begin <= at:
                holding.append(waiting.pop())
            holding = [chunk for chunk in holding if chunk.end > at]
            if not holding:
                return
            found = self._first_good(file, sorted(holding, key=lambda c: (-c.end, c.begin)))
            yield found
            at = found[0].end

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        """See destinations.base.Archiving: what says so is opened, the newest first."""
        bound: datetime | None = None
        wrong: VerificationFailed | None = None
        chunks = [o.chunk for o in self._objects_of(archived.file) if o.chunk.end <= archived.size]
        for chunk in sorted(chunks, key=lambda c: (c.end, c.read), reverse=True)[:_MOST_TRIED]:
            try:
                self._first_good(archived.file, [chunk])
            except VerificationFailed as failure:
                if not wrong:
                    log.warning("archive.not_believed", file=str(archived.file), error=str(failure))
                wrong = failure
                continue
            bound = min(chunk.read, bound) if bound else chunk.read
            if chunk.complete_to:
                return min(chunk.complete_to, bound)
        return None

    def remove(self, file: LogFileId) -> None:
        """See destinations.base.Archiving.remove_log: the first bytes first, without which none counts."""
        self._known.pop(file.key, None)
        for entry in sorted(self.bucket.list(self._of(file)), key=lambda each: each.key):
            if why := self.bucket.locked(entry.key) if self.locked else "":
                raise Refused(f"{file}: {why}")
            self.bucket.erase(entry.key)
        epoch, claim = f"{self._below}{file.server}/{file.epoch:08}.", claim_name(file.epoch)
        left = [each.key for _, each in zip(range(2), self.bucket.list(epoch), strict=False)]
        if left == [f"{self._below}{file.server}/{claim}"] and not self.locked:
            self.bucket.erase(left[0])

    @property
    def _below(self) -> str:
        return f"{self.root}/log/"

    def _of(self, file: LogFileId) -> str:
        return f"{self._below}{file.server}/{file.key}/"

    def _objects_of(self, file: LogFileId) -> list[_Object]:
        prefix = self._of(file)
        objects, _ = _objects((e.key, e.size) for e in self.bucket.list(prefix))
        return objects

    # one object

    def _put(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        body = self._stored.written(file, chunk, data)
        stored = self.bucket.put_new(f"{self._of(file)}{chunk}", body)
        # What a run stored that was cut is encrypted with another key, and the same otherwise.
        if not stored and not self._is_there(file, chunk, data):
            raise VerificationFailed(f"{file} at {self.address} has something else at {chunk.begin}")
        return len(body)

    def _is_there(self, file: LogFileId, chunk: Chunk, data: bytes) -> bool:
        """Whether the object holds these bytes. Of one that is sealed its signature says so: it is of
        the name, which holds their hash."""
        found, where = self._object(file, chunk)
        if self._stored.is_sealed(file, chunk, found, where):
            return True
        return self._stored.opened(file, chunk, found, where) == data

    def _first_good(self, file: LogFileId, chunks: Sequence[Chunk]) -> tuple[Chunk, bytes]:
        """The first that is what its name says: who has no key can put others beside what was archived.

        Raise what the first one says where none is; of one that is gone, that.
        """
        why: VerificationFailed | None = None
        for chunk in chunks:
            try:
                data = self._get(file, chunk)
            except Gone as gone:
                why = gone
                continue
            except VerificationFailed as failure:
                why = why or failure
                continue
            if len(data) == chunk.size and hashlib.sha256(data).hexdigest() == chunk.sha256:
                return chunk, data
            why = why or VerificationFailed(
                f"{self.address}: {file}, bytes {chunk.begin} to {chunk.end} are not what was archived"
            )
        raise why or AssertionError("there is one at least")

    def _get(self, file: LogFileId, chunk: Chunk) -> bytes:
        """The bytes; whether they are the right ones their hash tells. Raise VerificationFailed, and
        PrivateKeyElsewhere."""
        found, where = self._object(file, chunk)
        return self._stored.opened(file, chunk, found, where)

    def _object(self, file: LogFileId, chunk: Chunk) -> tuple[bytearray, str]:
        """The object as it is stored, and what it is called in messages."""
        where = self._where(file, chunk)
        try:
            return self.bucket.get(f"{self._of(file)}{chunk}", MOST_CHUNK + MOST_AROUND), where
        except NotFound as gone:
            raise Gone(f"{where}: taken away meanwhile") from gone

    def _where(self, file: LogFileId, chunk: Chunk) -> str:
        return f"{self.address}: {file}, bytes {chunk.begin} to {chunk.end}"

    def read_newest(self, archived: ArchivedFile) -> int:
        """Bytes of what was archived last of the file and is not empty, opened by a private key and proven; 0
        where that is not sealed."""
        there = [o for o in self._objects_of(archived.file) if o.chunk.size]
        newest = max((o for o in there if o.chunk.end <= archived.size), key=lambda o: o.chunk.end)
        data = self._first_good(archived.file, [newest.chunk])[1]
        return len(data) if self._sealed_for(archived.file, newest) else 0

    def require_private_key(self, archived: ArchivedFile) -> None:
        """Raise PrivateKeyElsewhere where the end of the file is sealed and cannot be opened here.

        What is no real part of it says nothing: who reads it finds that out, and goes on without.
        """
        for there in [o for o in self._objects_of(archived.file) if o.chunk == archived.last]:
            try:
                sealed_for = self._sealed_for(archived.file, there)
            except VerificationFailed:
                continue
            if sealed_for and not self.storing.private.has(sealed_for):
                raise elsewhere(f"the log archived at {self.address}", sealed_for)

    def _sealed_for(self, file: LogFileId, there: _Object) -> str:
        """See LogObjects. Of an object only its beginning is fetched. Raise VerificationFailed."""
        begin = bytearray(min(there.size, LONGEST_HEAD))

        def use(fill: Fill) -> None:
            with memoryview(begin) as room:
                fill(room)

        where = self._where(file, there.chunk)
        try:
            self.bucket.fetch(f"{self._of(file)}{there.chunk}", there.size, use)
        except NotFound as gone:
            raise Gone(f"{where}: taken away meanwhile") from gone
        return self._stored.sealed_for(file, there.chunk, begin, where)

    # folding

    def _fold(self, file: LogFileId, known: list[_Object]) -> None:
        """Put the small objects at the end into a larger one, if they are many, or the file is closed.

        Whatever fails of it leaves what was appended as it is, and is not tried again. Who cannot read what
        he archived leaves it, too.
        """
        if self.locked or not self._may_read(file):
            return
        first = len(known)
        room = MOST_CHUNK
        behind = self._unfoldable.get(file.key, 0)
        while first and _is_small(known[first - 1].chunk, behind, room):
            first -= 1
            room -= known[first].chunk.size
        small = known[first:]
        if len(small) < (2 if known[-1].chunk.closed else FOLD_AT):
            return
        try:
            known[first:] = [self._folded(file, [each.chunk for each in small])]
            for each in small:
                if each.chunk != known[first].chunk:
                    self.bucket.erase(f"{self._of(file)}{each.chunk}")
        except BucketRefused as refused:
            # A host that may only add leaves them as they are.
            log.info("archive.not_folded", file=str(file), error=str(refused))
            self.locked = True
        except ZbackupError as failure:
            log.warning("archive.not_folded", file=str(file), error=str(failure))
            self._unfoldable[file.key] = known[-1].chunk.end

    def _may_read(self, file: LogFileId) -> bool:
        """Whether what is archived now can be opened here."""
        try:
            return not self.storing.public or self.storing.private.has(self.storing.public.id)
        except ZbackupError as failure:
            log.warning("archive.not_folded", file=str(file), error=str(failure))
            return False

    def _folded(self, file: LogFileId, chunks: Sequence[Chunk]) -> _Object:
        # Its hash will be of all of them: what is damaged stays alone.
        data = b"".join(self._first_good(file, [chunk])[1] if chunk.size else b"" for chunk in chunks)
        last = chunks[-1]
        chunk = Chunk(
            begin=chunks[0].begin,
            end=last.end,
            sha256=hashlib.sha256(data).hexdigest(),
            tail=last.tail,
            read=last.read,
            complete_to=complete_of(chunks),
            closed=last.closed,
        )
        return _Object(chunk, self._put(file, chunk, data))


def _is_small(chunk: Chunk, behind: int, room: int) -> bool:
    return chunk.begin >= behind and chunk.size < SMALL and chunk.size <= room


def _objects(entries: Iterator[tuple[str, int]]) -> tuple[list[_Object], list[str]]:
    found: list[_Object] = []
    problems: list[str] = []
    for key, size in entries:
        name = key.rpartition("/")[2]
        try:
            found.append(_Object(Chunk.parse(name), size))
        except ValueError as problem:
            problems.append(str(problem))
    return found, problems


def _counting(objects: Sequence[_Object]) -> list[_Object]:
    """The objects that together are the file from its byte 0, without what they cover."""
    sizes = {each.chunk: each.size for each in objects}
    return [_Object(chunk, sizes[chunk]) for chunk in whole([each.chunk for each in objects])]


def _archived(file: LogFileId, objects: Sequence[_Object]) -> ArchivedFile | None:
    counting = _counting(objects)
    if not counting:
        return None
    return ArchivedFile(
        file=file,
        last=counting[-1].chunk,
        complete_to=complete_of(each.chunk for each in counting),
        stored=sum(each.size for each in objects),
    )


def _end(chunk: Chunk) -> tuple[int, str, object, bool]:
    """The same of an append, and of what it was folded into."""
    return chunk.end, chunk.tail, chunk.read, chunk.closed
