"""A bucket as the configuration describes it."""

import binascii
from pathlib import Path

from zbackup.clock import Clock
from zbackup.config.s3 import S3
from zbackup.config.secret import SecretRef
from zbackup.config.ship import S3Address, Ship
from zbackup.destinations.s3.destination import S3Destination
from zbackup.destinations.s3.encryption import KeyFiles, Scope, parse_key
from zbackup.destinations.s3.sealed_keys import PrivateKeys, PublicKey, public_of
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.model.errors import ConfigError
from zbackup.model.key_text import private_bytes, public_bytes, public_text


def destination(
    ship: Ship, to: S3Address, instance: str, clock: Clock, cache: Path, memory: Path
) -> S3Destination:
    """Nothing is read or connected to yet, secrets neither. Pages are kept below the directory `cache`, and
    keys of sealed streams that are on their way below `memory`."""
    return S3Destination(
        name=ship.label,
        address=str(to),
        prefix=to.prefix,
        instance=instance,
        bucket=to.bucket,
        storing=_storing(ship.s3),
        now=clock.now,
        cache=cache,
        unfinished=memory / ".unfinished",
    )


def _storing(table: S3) -> StorageSettings:
    files = tuple(ref for ref in (table.key, *table.old_keys) if ref)
    keys = KeyFiles(lambda: tuple(_key(ref) for ref in files)) if files else None
    return StorageSettings(
        table=table,
        keys=keys,
        public=_public_key(table.public_key) if table.public_key else None,
        private=PrivateKeys(lambda: tuple(_private_key(ref) for ref in table.private_key)),
    )


def _public_key(text: str) -> PublicKey:
    """Raise ConfigError for one of the few points for which nothing can be encrypted."""
    found = PublicKey(public_bytes(text))
    try:
        found.new_key(Scope(about="a trial"))
    except ValueError as wrong:
        raise ConfigError([f"public_key: {text} cannot be used to encrypt: it is no real key"]) from wrong
    return found


def public_key_of(ref: SecretRef) -> str:
    """The public key, as a configuration has it, of a private one. Raise ConfigError for what is none."""
    return public_text(public_of(_private_key(ref)))


def _private_key(ref: SecretRef) -> bytes:
    try:
        return private_bytes(ref.read_lines())
    except ValueError as wrong:
        raise ConfigError([f"{ref}: no private key: {wrong}; make a pair with: zbackup key --new"]) from wrong


def _key(ref: SecretRef) -> bytes:
    try:
        return parse_key(ref.read())
    except (binascii.Error, ValueError) as wrong:
        raise ConfigError([f"{ref}: not a key: {wrong}; make one with: openssl rand -base64 32"]) from wrong
