"""Signatures of headers and manifests: made, and proven, by whoever has the instance's key.

A signature of today says below which prefix, of which instance and of which server the object is: what was
written elsewhere with the same key does not count here. Those of earlier versions say nothing of the kind.
"""

import hmac
from dataclasses import dataclass

from zbackup.destinations.s3.encryption import DataKey, KeyStore, Scope, data_key, new_data_key
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import Manifest, StreamHeader, to_json
from zbackup.destinations.s3.sealed_keys import NO_PRIVATE_KEYS, PrivateKeys, PublicKey
from zbackup.model.errors import VerificationFailed

_HEADER = b"header"

UNBOUND = (
    "an earlier version of zbackup wrote it, so that it may have been copied here from another prefix, and "
    "accept_unbound = false refuses such"
)


def is_signature(written: str, wanted: str) -> bool:
    """Whether what is written is the signature. Whatever is written: it may be anybody's."""
    return hmac.compare_digest(written.encode("utf-8", "backslashreplace"), wanted.encode())


@dataclass(frozen=True, slots=True)
class StreamKeys:
    """The keys of a stream: one signs its pages, one encrypts its segments. It is the same one where contents
    are not sealed."""

    signing: DataKey
    contents: DataKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Signatures:
    """With the instance's keys, below `root`. With `bound_only` signatures that name no root do not count.

    `private` open what is sealed; to sign and to prove signatures none of them is needed.
    """

    keys: KeyStore | None
    root: str
    bound_only: bool = False
    private: PrivateKeys = NO_PRIVATE_KEYS

    def new_stream(
        self,
        keys: KeyStore,
        stream: StreamId,
        plain: StreamHeader,
        server: str,
        public: PublicKey | None = None,
    ) -> tuple[StreamKeys, StreamHeader]:
        """Keys for the stream, and its header with them and a signature.

        Its contents are sealed for `public`, if that is given.
        """
        scope = Scope(about=str(stream), root=self.root, server=server)
        signing, envelope = new_data_key(keys, scope)
        contents, sealed = public.new_key(scope) if public else (signing, None)
        given = {
            "version": 3 if sealed else 2,
            "encryption": envelope,
            "contents": sealed,
            "root": self.root,
            "server": server,
        }
        header = plain.model_copy(update=given)
        signed = header.model_copy(update={"signature": signing.mac(header.to_sign(), _HEADER)})
        return StreamKeys(signing, contents), signed

    def open_contents(self, stream: StreamId, header: StreamHeader, where: str) -> StreamKeys | None:
        """All keys of the stream, proven as by open_stream. Raise PrivateKeyElsewhere, too."""
        signing = self.open_stream(stream, header, where)
        if signing is None or header.contents is None:
            return StreamKeys(signing, signing) if signing else None
        scope = Scope(about=str(stream), root=header.root, server=header.server)
        return StreamKeys(signing, self.private.unseal(header.contents, scope))

    def open_stream(self, stream: StreamId, header: StreamHeader, where: str) -> DataKey | None:
        """The key that signs the stream, with the header proven; None when the stream is not encrypted.

        Raise VerificationFailed when the header is another stream's, was changed or is of another root, and
        Refused without the key.
        """
        if (header.dataset, header.guid, header.base) != (stream.dataset, stream.guid, stream.base):
            raise VerificationFailed(f"{where} belongs to another stream: the object was moved or replaced")
        if header.encryption is None:
            return None
        if header.version == 1:
            self._require_unbound_allowed(where)
            return data_key(self.keys, header.encryption, Scope(about=str(stream)))
        self._require_root(header.root, where)
        scope = Scope(about=str(stream), root=header.root, server=header.server)
        key = data_key(self.keys, header.encryption, scope)
        if key and not is_signature(header.signature, key.mac(header.to_sign(), _HEADER)):
            raise VerificationFailed(f"{where} was changed since it was written")
        return key

    def sign(self, manifest: Manifest) -> Manifest:
        """The manifest with a signature by the instance's key, which is here."""
        if self.keys is None:
            raise AssertionError("who has no key signs nothing")
        key, envelope = new_data_key(self.keys, _scope(manifest, self.root))
        version = 4 if any(part.public_key for part in manifest.parts) else 3
        given = {"version": version, "encryption": envelope, "root": self.root, "signature": ""}
        page = manifest.model_copy(update=given)
        return page.model_copy(update={"signature": key.mac(to_json(page))})

    def prove(self, manifest: Manifest, where: str) -> None:
        """Raise Refused without the key, and VerificationFailed when the signature is not of this page, or
        is of another root. A manifest without a signature passes."""
        if manifest.version == 2:
            self._require_unbound_allowed(where)
        if manifest.version > 2:
            self._require_root(manifest.root, where)
        root = manifest.root if manifest.version > 2 else None
        key = data_key(self.keys, manifest.encryption, _scope(manifest, root))
        if key and not is_signature(manifest.signature, key.mac(manifest.to_sign())):
            raise VerificationFailed(f"{where} was changed since it was written")

    def _require_root(self, root: str, where: str) -> None:
        if root != self.root:
            said = ascii(root)[1:-1]
            raise VerificationFailed(f"{where} was written below {said}, and copied here: it does not count")

    def _require_unbound_allowed(self, where: str) -> None:
        if self.bound_only:
            raise VerificationFailed(f"{where}: {UNBOUND}")


def _scope(manifest: Manifest, root: str | None) -> Scope:
    """What the manifest's key is wrapped for; no stream is called so."""
    about = f"the manifest of {manifest.backup}"
    return Scope(about=about, root=root, server="" if root is None else manifest.server)
