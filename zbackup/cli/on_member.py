"""The option --configdb: a member of a sharded MongoDB that is restored on its own host."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from zbackup.config.secret import SecretRef
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.source import BackupSource
from zbackup.model import cluster
from zbackup.model.cluster import Addresses
from zbackup.model.errors import UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.target import NamedTarget, RestoreTarget

Configdb = Annotated[
    str,
    typer.Option(
        "--configdb",
        metavar="SET/HOST:PORT",
        help="A member of a sharded MongoDB, each restored on its own host: where the restored config server "
        "will be. With --to-timestamp and a --shard for each shard, the same on every host.",
        show_default=False,
    ),
]
Shards = Annotated[
    list[str] | None,
    typer.Option(
        "--shard",
        metavar="SET/HOST:PORT",
        help="With --configdb: where a restored shard will be; once for each.",
        show_default=False,
    ),
]
ClusterKey = Annotated[
    Path | None,
    typer.Option(
        "--cluster-key",
        metavar="FILE",
        help="With --configdb: the members' key file (keyFile), where the original asks for logins.",
        show_default=False,
    ),
]


def wished(
    configdb: str, shards: Sequence[str], key: Path | None, target: NamedTarget, others: Sequence[object]
) -> Addresses | None:
    """The addresses of all members; None where none is given.

    Raise UsageError for `others` that were given, too, and where it is not the same cluster time everywhere.
    """
    if not configdb:
        if shards or key:
            raise UsageError("--shard and --cluster-key go with --configdb SET/HOST:PORT")
        return None
    if not isinstance(target, ClusterTime):
        raise UsageError(
            "--configdb goes with --to-timestamp SECONDS,INC: the same cluster time on every host of the "
            "cluster (zbackup window shows what each holds)"
        )
    if any(others):
        raise UsageError(
            "--configdb does not go with --port, --read-only, --as-replica-set and --table: a member has the "
            "address that is given for its replica set"
        )
    secret = SecretRef("file", str(key.absolute())).read() if key else ""
    return cluster.addresses(configdb, shards, secret)


def chosen(
    ctx: Context,
    target: RestoreTarget,
    choice: RestoreOptions,
    source: BackupSource,
    addresses: Addresses | None,
) -> RestoreOptions:
    """The options with which the member is restored; the same where it is none. Raise as as_member() does."""
    if addresses and isinstance(target, ClusterTime):
        from zbackup.jobs.cluster.one_member import as_member

        return as_member(ctx, target, choice, source, addresses)
    return choice
