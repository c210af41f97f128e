"""The settings of how streams are stored in a bucket, with the keys that they lead to."""

from dataclasses import dataclass

from zbackup.config.s3 import S3
from zbackup.destinations.s3.encryption import KeyStore
from zbackup.destinations.s3.sealed_keys import NO_PRIVATE_KEYS, PrivateKeys, PublicKey
from zbackup.model.drr_begin import begin_record
from zbackup.model.errors import VerificationFailed
from zbackup.model.shipping import OutgoingStream


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The settings of how streams are stored. `keys` sign, and open the streams that are there.

    With keys nothing else counts, unless the table says accept_plain. What is new is sealed for `public`, if
    there is one, and then only one of `private` opens it.
    """

    table: S3
    keys: KeyStore | None = None
    public: PublicKey | None = None
    private: PrivateKeys = NO_PRIVATE_KEYS

    @property
    def encrypts_new(self) -> bool:
        """Whether new streams are encrypted."""
        return self.table.key is not None and self.keys is not None

    @property
    def public_id(self) -> str:
        """The id of the public key that new streams are sealed for, "" where they are not."""
        return self.public.id if self.public and self.encrypts_new else ""

    @property
    def signed_only(self) -> bool:
        """Whether what is not signed and encrypted is nobody's who has the key."""
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
