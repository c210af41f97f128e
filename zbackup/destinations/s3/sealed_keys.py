"""Keys of contents, sealed for a public key: who seals them cannot open them again.

Sealed by HPKE (RFC 9180) in base mode, with DHKEM(X25519, HKDF-SHA256), HKDF-SHA256 and AES-256-GCM. Its
`info` is the scope of the key, as with those that are wrapped. Anybody can seal a key for a public one, so
that it proves nothing of who did: that does the signature of the page that holds it.
"""

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from zbackup.destinations.s3.encryption import KEY, DataKey, Scope
from zbackup.destinations.s3.manifest_schema import SealedKey
from zbackup.model.errors import PrivateKeyElsewhere, VerificationFailed
from zbackup.model.key_text import private_text, public_text

_SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)


def id_of(public_key: bytes) -> str:
    """What a public key is called in pages and messages."""
    return hashlib.sha256(b"zbackup public key id\n" + public_key).hexdigest()[:16]


def public_of(private_key: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(private_key).public_key().public_bytes_raw()


def new_pair() -> tuple[str, str, str]:
    """A new private key and its public one, as text, and the id of that."""
    private = X25519PrivateKey.generate().private_bytes_raw()
    public = public_of(private)
    return private_text(private), public_text(public), id_of(public)


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The public key that contents are sealed for: that of the configuration, and never one of a bucket's."""

    key: bytes

    @property
    def id(self) -> str:
        return id_of(self.key)

    def new_key(self, scope: Scope) -> tuple[DataKey, SealedKey]:
        """A new key for contents, and the same as only the private key opens it, and for that scope."""
        key = os.urandom(KEY)
        sealed = _SUITE.encrypt(key, X25519PublicKey.from_public_bytes(self.key), info=scope.context)
        return DataKey(key, scope.about), SealedKey(
            public_key=self.id, sealed=base64.b64encode(sealed).decode()
        )


@dataclass(frozen=True, slots=True)
class PrivateKeys:
    """The private keys that are here; `keys` is asked when one is needed, and raises what it raises."""

    keys: Callable[[], tuple[bytes, ...]]

    def has(self, public_key: str) -> bool:
        """Whether the private key of the public one with that id is here."""
        return public_key in self._known()

    def unseal(self, sealed: SealedKey, scope: Scope) -> DataKey:
        """Raise PrivateKeyElsewhere when it is sealed for another, and VerificationFailed when it is not what
        was sealed."""
        known = self._known()
        if sealed.public_key not in known:
            raise elsewhere(str(scope), sealed.public_key)
        try:
            key = _SUITE.decrypt(
                base64.b64decode(sealed.sealed, validate=True), known[sealed.public_key], info=scope.context
            )
        except (InvalidTag, ValueError) as wrong:
            raise VerificationFailed(
                f"the sealed key of {scope} is damaged, or belongs to something else"
            ) from wrong
        if len(key) != KEY:
            raise VerificationFailed(f"the sealed key of {scope} has the wrong length")
        return DataKey(key, scope.about)

    def _known(self) -> Mapping[str, X25519PrivateKey]:
        return {id_of(public_of(key)): X25519PrivateKey.from_private_bytes(key) for key in self.keys()}


NO_PRIVATE_KEYS: Final = PrivateKeys(lambda: ())


def elsewhere(what: str, public_key: str) -> PrivateKeyElsewhere:
    """The error of who would read contents, and has not the private key of the public one with that id."""
    return PrivateKeyElsewhere(
        f"{what}: only the private key of the public key {public_key} can decrypt it, and that is "
        "not on this host: run the same command on a host that has it, with --private-key FILE"
    )
