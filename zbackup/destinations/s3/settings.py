"""The settings of how streams are stored in a bucket, with the keys that they lead to."""

from dataclasses import dataclass

from zbackup.config.s3 import S3
from zbackup.destinations.s3.encryption import KeyStore
from zbackup.model.begin_record import begin_record
from zbackup.model.errors import VerificationFailed
from zbackup.model.shipping import OutgoingStream


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The settings of how streams are stored. `keys` open the streams that are there.

    With keys nothing else counts, unless the table says accept_plain.
    """

    table: S3
    keys: KeyStore | None = None

    @property
    def encrypts_new(self) -> bool:
        """Tell whether new streams are encrypted."""
        return self.table.key is not None and self.keys is not None

    @property
    def signed_only(self) -> bool:
        """Tell whether what is not signed and encrypted is nobody's who has the key."""
        return self.keys is not None and not self.table.accept_plain


def require_stream(content: memoryview, part: OutgoingStream) -> None:
    """Raise VerificationFailed when what begins so is not the part's stream."""
    begin = begin_record(content)
    if begin is None:
        raise VerificationFailed("what was to be stored is no ZFS send stream")
    if (begin.guid, begin.base) != (part.guid, part.base):
        raise VerificationFailed(
            f"the stream is of guid {begin.guid} from {begin.base}, not of {part.guid} from {part.base}"
        )
