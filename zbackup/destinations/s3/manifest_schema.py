"""The schema of what is written in the bucket about streams and backups: versioned, and sufficient.

All are JSON. A reader refuses a version it does not know, and everything that is not as it must be.
"""

import json
from collections.abc import Iterable
from typing import Annotated, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass

from zbackup.model.errors import VerificationFailed

MOST_SEGMENT = 1 << 30
"""Bytes of the send stream in one segment, at most: what a single PUT and a host's memory can take."""
MOST_SEGMENTS = 1 << 22
MOST_HEADER = 64 << 10
MOST_MANIFEST = 16 << 20
MOST_PAGE = 512 << 20
"""Bytes of `stream.json`; see also most_of_page()."""


def _guid(value: object) -> object:
    """JSON's numbers are doubles for many readers: guids of 64 bits are written as text."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _digest(value: object) -> object:
    """Read a digest that is written in hexadecimal."""
    return bytes.fromhex(value) if isinstance(value, str) else value


Guid = Annotated[int, BeforeValidator(_guid), Field(gt=0, lt=1 << 64), PlainSerializer(str, return_type=str)]
Digest = Annotated[
    bytes,
    BeforeValidator(_digest),
    Field(min_length=32, max_length=32),
    PlainSerializer(bytes.hex, return_type=str),
]
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
# Names of datasets and snapshots have up to 255 bytes, those of hosts as well.
Name = Annotated[str, Field(max_length=255)]
Root = Annotated[str, Field(max_length=1024)]
# What is compared with one must be ASCII: anything else is not unequal but an error (hmac.compare_digest).
Signature = Annotated[str, Field(max_length=64, pattern=r"^[0-9a-f]*$")]

_SIGNING = ("encryption", "seal")
_BOUND = ("root", "server")

PageT = TypeVar("PageT", bound=BaseModel)


class _Page(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Envelope(_Page):
    """The key of a stream's data, `wrapped` (base64) by the key that `key_id` names."""

    cipher: Literal["AES-256-GCM"] = "AES-256-GCM"
    key_id: Annotated[str, Field(max_length=64)]
    wrapped: Annotated[str, Field(max_length=4096)]


class SealedKey(_Page):
    """The key of contents, `sealed` (base64: the encapsulated key, and the ciphertext) for the public key of
    that id."""

    cipher: Literal["HPKE-X25519-HKDF-SHA256-AES-256-GCM"] = "HPKE-X25519-HKDF-SHA256-AES-256-GCM"
    public_key: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    sealed: Annotated[str, Field(max_length=4096)]


class StreamHeader(_Page):
    """The form in which a stream is stored, settled before its first segment: who resumes it keeps to it.

    `segment_size` is in bytes of the send stream. `raw`: it was sent with `zfs send -w`, else with -L -c, and
    by earlier versions with -e.
    Version 2 is of encrypted streams: its data key opens only below `root` (PREFIX/INSTANCE) and for that
    `server`, and `signature` (hexadecimal; "seal" in the page) is an HMAC-SHA-256 of this page with "" there.
    Version 1 has none of the three. In version 3 that key signs only, and that of the segments is `contents`.
    `dataset` is "line" in the page.
    """

    version: Literal[1, 2, 3] = 1
    dataset: Annotated[Name, Field(alias="line")]
    snapshot: Name
    guid: Guid
    base: Guid | None
    raw: bool
    segment_size: Annotated[int, Field(gt=0, le=MOST_SEGMENT)]
    compression: Literal["zstd", "none"]
    encryption: Envelope | None
    contents: SealedKey | None = None
    host: Name
    root: Root = ""
    server: Name = ""
    signature: Annotated[Signature, Field(alias="seal")] = ""

    @model_validator(mode="after")
    def _bound_or_not(self) -> Self:
        if self.version > 1 and self.encryption is None:
            raise ValueError("versions 2 and 3 are of encrypted streams")
        if (self.version == 3) != (self.contents is not None):
            raise ValueError("version 3 has sealed contents, and no other has")
        if self.version == 1 and (self.root or self.server or self.signature):
            raise ValueError("version 1 is not signed")
        return self

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        page: dict[str, object] = dump(self)
        absent = {1: (*_BOUND, "seal", "contents"), 2: ("contents",), 3: ()}[self.version]
        return {k: v for k, v in page.items() if k not in absent}

    def to_sign(self) -> bytes:
        """The bytes that the signature is of."""
        return to_json(self.model_copy(update={"signature": ""}))


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Segment:
    """`size` and `sha256` are the object's, `plain` is how many bytes of the send stream it holds.

    A stream has up to millions: with slots they take a third of what models take.
    """

    size: Count
    plain: Count
    sha256: Digest


class StreamIndex(_Page):
    """A stream that is whole in the bucket. `size` is of the send stream itself.

    `tree_sha256` is the SHA-256 of the SHA-256s of what each segment holds of the send stream, in order.
    Pages of earlier times have `sha256` instead, that of the send stream. `signature`
    ("seal" in the page) is the HMAC-SHA-256 of this page with "" there, by the stream's data key; "" if there
    is no key."""

    header: Annotated[StreamHeader, Field(alias="begun")]
    size: Count
    sha256: Digest | None = None
    tree_sha256: Digest | None = None
    segments: Annotated[tuple[Segment, ...], Field(max_length=MOST_SEGMENTS)]
    signature: Annotated[Signature, Field(alias="seal")] = ""

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """With the one hash it has: the signature of an earlier page is of that page as it was."""
        page: dict[str, object] = dump(self)
        return {k: v for k, v in page.items() if v is not None or k not in ("sha256", "tree_sha256")}

    def to_sign(self) -> bytes:
        """The bytes that the signature is of."""
        return to_json(self.model_copy(update={"signature": ""}))


class PartPage(_Page):
    """One dataset of a backup: its stream, and the SHA-256 of the stream's page. `public_key` is the id of
    the one that its contents are sealed for, "" where they are not."""

    dataset: Annotated[Name, Field(alias="line")]
    snapshot: Name
    guid: Guid
    base: Guid | None
    size: Count
    stored: Count
    raw: bool
    stream_sha256: Digest
    public_key: Annotated[str, Field(pattern=r"^([0-9a-f]{16})?$")] = ""

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Without what earlier versions of the manifest do not have."""
        page: dict[str, object] = dump(self)
        return {k: v for k, v in page.items() if v or k != "public_key"}


class Manifest(_Page):
    """A backup that is committed. `record` is as zbackup writes it on snapshots, without the prefix.

    Versions from 2 on are signed: `signature` ("seal" in the page) is the HMAC-SHA-256 of this page with ""
    there, by a key of its own that is in `encryption`. From version 3 on that key opens only below `root`
    (PREFIX/INSTANCE), and for the server that the record names. Version 4 says of each part whom its contents
    are sealed for. `withdrawn`: it was taken back in the moment of its commit."""

    version: Literal[1, 2, 3, 4] = 1
    committed: Name
    host: Name
    record: dict[Name, str]
    parts: Annotated[tuple[PartPage, ...], Field(max_length=10_000)]
    encryption: Envelope | None = None
    signature: Annotated[Signature, Field(alias="seal")] = ""
    root: Root = ""
    withdrawn: bool = False

    @model_validator(mode="after")
    def _signed_or_not(self) -> Self:
        if (self.version > 1) != (self.encryption is not None) or (self.version == 1 and self.signature):
            raise ValueError("version 1 is not signed, and all others are")
        if self.version < 3 and self.root:
            raise ValueError("only versions 3 and 4 have a root")
        if self.version in (2, 3) and any(part.public_key for part in self.parts):
            raise ValueError("versions 2 and 3 have no sealed parts")
        return self

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Write the page as its version has it: an earlier one was signed as it was."""
        page: dict[str, object] = dump(self)
        absent = {1: (*_SIGNING, "root"), 2: ("root",), 3: (), 4: ()}[self.version]
        return {k: v for k, v in page.items() if k not in absent and (k != "withdrawn" or v)}

    @property
    def backup(self) -> str:
        """Record.backup."""
        return self.record.get("backup", "")

    @property
    def sealed_for(self) -> tuple[str, ...]:
        """The ids of the public keys that contents of its parts are sealed for."""
        return tuple(sorted({part.public_key for part in self.parts if part.public_key}))

    @property
    def called(self) -> str:
        """The name of its snapshots, for people."""
        return self.parts[0].snapshot if self.parts else self.backup

    @property
    def server(self) -> str:
        """The identity of the server that was backed up."""
        return self.record.get("server_uuid", "")

    def to_sign(self) -> bytes:
        """The bytes that the signature is of."""
        return to_json(self.model_copy(update={"signature": ""}))


def to_json(page: BaseModel) -> bytes:
    """One line, keys in a fixed order: the same page is always the same bytes."""
    if isinstance(page, StreamIndex) and page.segments:
        return _with_segments(to_json(page.model_copy(update={"segments": ()})), page.segments)
    return json.dumps(
        page.model_dump(mode="json", by_alias=True), sort_keys=True, separators=(",", ":")
    ).encode("ascii")


def _with_segments(page: bytes, segments: Iterable[Segment]) -> bytes:
    """The page, which has none yet. As dictionaries they would take ten times their text."""
    before, mark, after = page.partition(b'"segments":[')
    made = bytearray(before + mark)
    for s in segments:
        made += b'{"plain":%d,"sha256":"%s","size":%d},' % (s.plain, s.sha256.hex().encode("ascii"), s.size)
    made[-1:] = after
    return bytes(made)


def most_of_page(segments: int) -> int:
    """Bytes that the page of a stream with this many segments has at most."""
    return min(MOST_PAGE, 2 * MOST_HEADER + 160 * segments)


def header_from(body: bytes | bytearray, where: str) -> StreamHeader:
    """Raise VerificationFailed, naming `where`, when it is not one."""
    return _read(StreamHeader, body, where)


def index_from(body: bytes | bytearray, where: str) -> StreamIndex:
    """Read a stream's index. Raise as header_from does."""
    return _read(StreamIndex, body, where)


def manifest_from(body: bytes | bytearray, where: str) -> Manifest:
    """Read a manifest. Raise as header_from does."""
    return _read(Manifest, body, where)


def _read(kind: type[PageT], body: bytes | bytearray, where: str) -> PageT:
    try:
        # Ours are made by the names of the fields; what is read has the words of the page, and no others.
        return kind.model_validate_json(body, by_alias=True, by_name=False)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        # A name in it may be anybody's, of any length.
        at = ascii(".".join(str(part) for part in first["loc"])[:80])[1:-1]
        raise VerificationFailed(f"{where} cannot be understood: {at}: {first['msg']}") from wrong
