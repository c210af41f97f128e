"""A recovered clone that was promoted by hand: production's backups moved there. Pure."""

from collections.abc import Sequence

from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused
from zbackup.model.finding import Finding

Promoted = Sequence[tuple[str, str]]
"""Pairs: a dataset of production, and the snapshot (below the clones' dataset) that is its origin now."""


def promoted_clones(found: Promoted) -> list[Finding]:
    """Return the finding about promoted clones; [] if there are none."""
    if not found:
        return []
    return [
        Finding(
            severity="critical",
            subject="backups",
            text=what_happened(found),
            why="these backups cannot be restored or pruned there; none is lost",
            fix=give_back(found),
            exit_status=Refused.exit_status,
            key="promoted",
        )
    ]


def what_happened(found: Promoted) -> str:
    """Return a clause about it, for messages."""
    clones = ", ".join(dict.fromkeys(origin.partition("@")[0] for _, origin in found))
    datasets = ", ".join(dataset for dataset, _ in found)
    return f"the backups of {datasets} moved to {clones}, which was promoted by hand (zfs promote)"


def give_back(found: Promoted) -> str:
    """Return the command that moves the snapshots back to the datasets."""
    return " && ".join(command_line("zfs", "promote", dataset) for dataset, _ in found)
