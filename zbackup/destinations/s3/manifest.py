"""What is written in the bucket about streams and backups: versioned, and enough without anything else.

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
MOST_MANIFEST = 512 << 20


def _guid(value: object) -> object:
    """JSON's numbers are doubles for many readers: guids of 64 bits are written as text."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _digest(value: object) -> object:
    """In hexadecimal."""
    return bytes.fromhex(value) if isinstance(value, str) else value


Guid = Annotated[int, BeforeValidator(_guid), PlainSerializer(str, return_type=str)]
Digest = Annotated[
    bytes,
    BeforeValidator(_digest),
    Field(min_length=32, max_length=32),
    PlainSerializer(bytes.hex, return_type=str),
]
Count = Annotated[int, Field(ge=0)]


_SEALING = ("encryption", "seal")

PageT = TypeVar("PageT", bound=BaseModel)


class _Page(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Envelope(_Page):
    """The key of a stream's data, `wrapped` (base64) by the key that `key_id` names."""

    cipher: Literal["AES-256-GCM"] = "AES-256-GCM"
    key_id: str
    wrapped: str


class Begun(_Page):
    """How a stream is stored, settled before its first segment: who goes on with it goes on in this way.

    `segment_size` is in bytes of the send stream. `raw`: it was sent with `zfs send -w`, else with -L -e -c.
    """

    version: Literal[1] = 1
    line: str
    snapshot: str
    guid: Guid
    base: Guid | None
    raw: bool
    segment_size: Annotated[int, Field(gt=0, le=MOST_SEGMENT)]
    compression: Literal["zstd", "none"]
    encryption: Envelope | None
    host: str


@dataclass(frozen=True, slots=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Segment:
    """`size` and `sha256` are the object's, `plain` is how many bytes of the send stream it holds.

    A stream has up to millions: with slots they take a third of what models take.
    """

    size: Count
    plain: Count
    sha256: Digest


class Whole(_Page):
    """A stream that is whole in the bucket. `size` is of the send stream itself.

    `tree_sha256` is the SHA-256 of the SHA-256s of what each segment holds of the send stream, in order.
    Pages of earlier times have `sha256` instead, that of the send stream. `seal` (hexadecimal) is the
    HMAC-SHA-256 of this page with seal "", by the stream's data key; "" if there is no key.
    """

    begun: Begun
    size: Count
    sha256: Digest | None = None
    tree_sha256: Digest | None = None
    segments: tuple[Segment, ...]
    seal: str = ""

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """With the one hash it has: the seal of an earlier page is of that page as it was."""
        page: dict[str, object] = dump(self)
        return {k: v for k, v in page.items() if v is not None or k not in ("sha256", "tree_sha256")}

    def unsealed(self) -> bytes:
        """What the seal is of."""
        return to_json(self.model_copy(update={"seal": ""}))


class PartPage(_Page):
    """One dataset of a backup: its stream, and the SHA-256 of the stream's page."""

    line: str
    snapshot: str
    guid: Guid
    base: Guid | None
    size: Count
    stored: Count
    raw: bool
    stream_sha256: Digest


class Manifest(_Page):
    """A backup that is committed. `record` is as zbackup writes it on snapshots, without the prefix.

    Version 2 is sealed: `seal` (hexadecimal) is the HMAC-SHA-256 of this page with seal "", by a key of its
    own that is in `encryption`.
    """

    version: Literal[1, 2] = 1
    committed: str
    host: str
    record: dict[str, str]
    parts: tuple[PartPage, ...]
    encryption: Envelope | None = None
    seal: str = ""

    @model_validator(mode="after")
    def _sealed_or_not(self) -> Self:
        if (self.version == 2) != (self.encryption is not None) or (self.version == 1 and self.seal):
            raise ValueError("version 2 is sealed, and version 1 is not")
        return self

    @model_serializer(mode="wrap")
    def _dumped(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        page: dict[str, object] = dump(self)
        return page if self.version == 2 else {k: v for k, v in page.items() if k not in _SEALING}


def to_json(page: BaseModel) -> bytes:
    """One line, keys in a fixed order: the same page is always the same bytes."""
    if isinstance(page, Whole) and page.segments:
        return _with_segments(to_json(page.model_copy(update={"segments": ()})), page.segments)
    return json.dumps(page.model_dump(mode="json"), sort_keys=True, separators=(",", ":")).encode("ascii")


def _with_segments(page: bytes, segments: Iterable[Segment]) -> bytes:
    """The page, which has none yet. As dictionaries they would take ten times their text."""
    before, mark, after = page.partition(b'"segments":[')
    made = bytearray(before + mark)
    for s in segments:
        made += b'{"plain":%d,"sha256":"%s","size":%d},' % (s.plain, s.sha256.hex().encode("ascii"), s.size)
    made[-1:] = after
    return bytes(made)


def begun_from(body: bytes | bytearray, where: str) -> Begun:
    """Raise VerificationFailed, naming `where`, when it is not one."""
    return _read(Begun, body, where)


def whole_from(body: bytes | bytearray, where: str) -> Whole:
    """As begun_from."""
    return _read(Whole, body, where)


def manifest_from(body: bytes | bytearray, where: str) -> Manifest:
    """As begun_from."""
    return _read(Manifest, body, where)


def _read(kind: type[PageT], body: bytes | bytearray, where: str) -> PageT:
    try:
        return kind.model_validate_json(body)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False, include_input=False)[0]
        at = ".".join(str(part) for part in first["loc"])
        raise VerificationFailed(f"{where} cannot be understood: {at}: {first['msg']}") from wrong
