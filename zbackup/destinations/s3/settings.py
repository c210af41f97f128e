"""The settings of how streams are stored in a bucket, with the keys and the chains that they lead to."""

from dataclasses import dataclass, field
from typing import Literal

from zbackup.destinations.s3.chains import Chains
from zbackup.destinations.s3.encryption import KeyStore
from zbackup.model.begin_record import begin_record
from zbackup.model.errors import VerificationFailed
from zbackup.model.shipping import OutgoingStream

Compression = Literal["auto", "zstd", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The settings of how streams are stored: `segment_size` in bytes of the stream, and
    `parallel` segments at a time.

    New streams are encrypted if `encrypts`; `keys` open those that are there. With keys nothing else counts,
    unless `accept_plain`. `accept_unbound`: also what earlier versions signed, which names no prefix.
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
    def encrypts_new(self) -> bool:
        """Tell whether new streams are encrypted."""
        return self.encrypts and self.keys is not None

    @property
    def signed_only(self) -> bool:
        """Tell whether what is not signed and encrypted is nobody's who has the key."""
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
