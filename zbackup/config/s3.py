"""The settings of a bucket, and of how streams are stored in it: [instance.NAME.ship.s3]."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictStr

from zbackup.config import units
from zbackup.config.secret import SecretRef, secret_ref
from zbackup.config.table import SettingsTable
from zbackup.model.key_text import public_bytes

LEAST_SEGMENT, MOST_SEGMENT = 1 << 20, 1 << 30
_URL = re.compile(r"https?://[^\s/]+/?")


def url(value: object) -> str:
    if not isinstance(value, str) or not _URL.fullmatch(value):
        units.refuse('an address such as "https://s3.example.com"')
    return value.rstrip("/")


def segment_size(value: object) -> int:
    """Bytes."""
    found = value if isinstance(value, int) else units.size(value)
    if not LEAST_SEGMENT <= found <= MOST_SEGMENT:
        units.refuse('a size from "1MiB" to "1GiB"')
    return found


def limit(value: object) -> float:
    seconds = value if isinstance(value, float) else units.duration(value)
    if not 1 <= seconds <= 3600:
        units.refuse('a time from "1s" to "1h"')
    return seconds


def key_files(value: object) -> tuple[SecretRef, ...]:
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(v if isinstance(v, SecretRef) else secret_ref(v) for v in values)


def recipient(value: object) -> str:
    if not isinstance(value, str):
        units.refuse("a public key, age1...")
    try:
        public_bytes(value)
    except ValueError as wrong:
        units.refuse(f"a public key, age1...: {wrong}")
    return value.lower()


AbsolutePath = Annotated[Path, BeforeValidator(units.absolute_path)]
Url = Annotated[str, BeforeValidator(url)]
Secret = Annotated[SecretRef, BeforeValidator(secret_ref)]
Limit = Annotated[float, BeforeValidator(limit)]


class S3(SettingsTable):
    """The bucket, and how streams are stored in it. Keys are found as the AWS tools find them."""

    endpoint: Url | None = Field(default=None, description="the server's address; default: AWS's own")
    region: StrictStr | None = Field(default=None, description="default: as the AWS tools find it")
    profile: StrictStr | None = Field(default=None, description="profile of the AWS tools' configuration")
    access_key: StrictStr | None = Field(default=None, description="access key; needs secret_key")
    secret_key: Secret | None = Field(default=None, description="where the secret key is")
    session_token: Secret | None = Field(
        default=None, description="where the session token is, if there is one"
    )
    path_style: StrictBool = Field(
        default=False, description="`https://server/bucket` instead of `https://bucket.server`"
    )
    storage_class: StrictStr | None = Field(default=None, description="such as `STANDARD_IA`")
    sse: Literal["AES256", "aws:kms"] | None = Field(default=None, description="encryption by the server")
    kms_key: StrictStr | None = Field(default=None, description="the server's key for `aws:kms`")
    object_lock: Literal["GOVERNANCE", "COMPLIANCE"] | None = Field(
        default=None, description="nobody can delete an object before its time; the bucket must allow it"
    )
    object_lock_days: Annotated[int, Field(ge=0, le=36500, strict=True)] = Field(
        default=0, description="for how long, from when an object is written"
    )
    proxy: Url | None = Field(default=None, description="HTTP proxy; default: as the environment says")
    ca_file: AbsolutePath | None = Field(
        default=None, description="certificates that the server's must be of"
    )
    connect_timeout: Limit = Field(default=10.0, description="for connecting")
    read_timeout: Limit = Field(default=60.0, description="for an answer")
    attempts: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        default=8, description="how often a request is tried, with growing pauses"
    )
    segment: Annotated[int, BeforeValidator(segment_size)] = Field(
        default=16 << 20, description="bytes of the stream in one object; memory: (uploads + 2) of them"
    )
    uploads: Annotated[int, Field(ge=1, le=64, strict=True)] = Field(
        default=8, description="segments on their way at a time"
    )
    compression: Literal["auto", "zstd", "none"] = Field(
        default="auto",
        description="auto: zstd, unless the stream is raw or its beginning hardly gets smaller",
    )
    key: Secret | None = Field(
        default=None,
        description="where to find the key that encrypts and signs streams: 32 bytes in base64",
    )
    old_keys: Annotated[tuple[SecretRef, ...], BeforeValidator(key_files)] = Field(
        default=(), description="keys that older streams were encrypted with"
    )
    public_key: Annotated[str, BeforeValidator(recipient)] | None = Field(
        default=None,
        description="write-only: new backups are encrypted for this public key (age1...), and key "
        "only signs. Make a key pair with zbackup key --new",
    )
    private_key: Annotated[tuple[SecretRef, ...], BeforeValidator(key_files)] = Field(
        default=(),
        description="where to find the private key of public_key, on a host that restores or runs drills; "
        "never on the database host. May be a list, with earlier keys",
    )
    accept_plain: StrictBool = Field(
        default=False,
        description="with a key: backups in the bucket that are not encrypted count as well; anybody who may "
        "write to the bucket can forge such ones",
    )
    accept_unbound: StrictBool = Field(
        default=True,
        description="with a key: backups that earlier versions of zbackup signed count as well; anybody who "
        "may write to the bucket can copy such ones here from another prefix that has the same key",
    )
    full_every: Annotated[float, BeforeValidator(units.duration)] | None = Field(
        default=None, description="send a full stream again when the last one is as old as this"
    )
    max_chain: Annotated[int, Field(ge=0, le=10000, strict=True)] = Field(
        default=100, description="or has this number of incremental streams after it; 0: no limit"
    )
    max_share: Annotated[float, Field(ge=0)] = Field(
        default=0.0, description="or they are together larger than this share of it; 0: no limit"
    )
