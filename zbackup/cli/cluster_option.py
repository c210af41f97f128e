"""The option --cluster, by which a command is for all members of a sharded MongoDB; on_cluster does it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from zbackup.cli import completion
from zbackup.model.errors import UsageError
from zbackup.model.target import NamedTarget

Name = Annotated[
    str,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="All members of this sharded cluster ([cluster.NAME]) instead of an instance.",
        autocompletion=completion.clusters,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterWish:
    """The wish: a target, from this host or from a destination, which is read with these
    private keys."""

    target: NamedTarget | None
    origin: str | None
    there: bool
    private_keys: tuple[Path, ...] = ()


def require_alone(*others: object) -> None:
    """Raise UsageError where an option was given that is about one instance."""
    if any(other not in (None, "", False) and other != [] for other in others):
        raise UsageError(
            "--cluster goes with --to, --to-timestamp, --from, --run-at-destination, --private-key, --name, "
            "--port, --keep and --dry-run only"
        )


def require_no_instance(instance: str | None) -> None:
    """Raise UsageError where an instance is named, too."""
    if instance:
        raise UsageError(f"say either the instance {instance} or --cluster")
