"""The settings of a bucket: how it is reached, how streams are stored in it, and which ones."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zbackup.destinations.s3.chains import Chains
from zbackup.destinations.s3.encryption import KeyStore
from zbackup.model.begin_record import begin_record
from zbackup.model.errors import VerificationFailed
from zbackup.model.shipping import OutgoingStream


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """The options with which the bucket is reached, and its objects are written; times in seconds, "" for the
    default.

    With `access` and `secret` "" credentials are found as the AWS tools find them, with `profile` if given.
    `lock_mode` is GOVERNANCE or COMPLIANCE, for `lock_days` from when an object is written.
    """

    bucket: str
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    access: str = ""
    secret: Callable[[], str] = str
    token: Callable[[], str] = str
    path_style: bool = False
    storage_class: str = ""
    sse: str = ""
    kms_key: str = ""
    lock_mode: str = ""
    lock_days: int = 0
    proxy: str = ""
    ca_file: Path | None = None
    connect_s: float = 10.0
    read_s: float = 60.0
    attempts: int = 8
    most_wait_s: float = 30.0
    connections: int = 8


Compression = Literal["auto", "zstd", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The settings of how streams are stored: `segment_size` in bytes of the stream, so many segments at a
    time.

    New streams are encrypted if `encrypts`; `keys` open those that are there. With keys nothing else counts,
    unless `accept_plain`. `accept_unbound`: also what earlier versions sealed, which names no prefix.
    """

    segment_size: int = 16 << 20
    parallel: int = 8
    compression: Compression = "auto"
    keys: KeyStore | None = None
    encrypts: bool = False
    accept_plain: bool = False
    accept_unbound: bool = True
    chains: Chains = field(default_factory=Chains)

    @property
    def seals(self) -> bool:
        """Tell whether new streams are encrypted."""
        return self.encrypts and self.keys is not None

    @property
    def sealed_only(self) -> bool:
        """Tell whether what is not sealed and encrypted is nobody's who has the key."""
        return self.keys is not None and not self.accept_plain


def require_stream(content: memoryview, part: OutgoingStream) -> None:
    """Raise VerificationFailed when what begins so is not the part's stream."""
    begin = begin_record(content)
    if begin is None:
        raise VerificationFailed("what was to be stored is no ZFS send stream")
    if (begin.guid, begin.base) != (part.guid, part.base):
        raise VerificationFailed(
            f"the stream is of guid {begin.guid} from {begin.base}, not of {part.guid} from {part.base}"
        )
