"""--private-key FILE: what was encrypted for a public key is read with the private one, which lies elsewhere.

It may be on a disk that is there for this one command, so that no configuration names it.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from zbackup.config.from_address import AddressAccess, named
from zbackup.config.secret import SecretRef
from zbackup.config.settings import Instance
from zbackup.config.ship import S3Address
from zbackup.model.errors import UsageError

Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--private-key",
        metavar="FILE",
        help="File with the private key of a bucket's public_key; repeat it for earlier ones.",
        show_default=False,
    ),
]


def with_private_keys(instance: Instance, files: Sequence[Path] | None) -> Instance:
    """The instance, whose buckets are read with these private keys first.

    Raise UsageError where it has no bucket.
    """
    if not files:
        return instance
    given = tuple(SecretRef("file", str(named(path))) for path in files)
    if not any(isinstance(ship.to, S3Address) for ship in instance.ship):
        raise UsageError(f"--private-key works only with a bucket, and {instance.name} ships to none")
    ships = [
        ship.model_copy(
            update={"s3": ship.s3.model_copy(update={"private_key": (*given, *ship.s3.private_key)})}
        )
        for ship in instance.ship
    ]
    return instance.model_copy(update={"ship": tuple(ships)})


def at_address(reached: AddressAccess, files: Sequence[Path]) -> AddressAccess:
    """The same of an address. Raise UsageError where that is no bucket, ConfigError for what is no key."""
    if not files:
        return reached
    if not isinstance(reached.to, S3Address):
        raise UsageError("--private-key works only with a bucket: --from s3://bucket/prefix")
    # Imported here: other restores need not wait until it is read.
    from zbackup.destinations.s3.from_config import public_key_of

    paths = tuple(named(path) for path in files)
    public = public_key_of(SecretRef("file", str(paths[0])))
    return replace(reached, private_keys=paths, public_key=public)
