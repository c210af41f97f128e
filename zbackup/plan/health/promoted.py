"""A recovered clone that somebody promoted by hand: production's backups moved there. Pure."""

from collections.abc import Sequence

from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused
from zbackup.model.finding import Finding

Promoted = Sequence[tuple[str, str]]
"""Datasets of production, and the snapshot below the clones' dataset that each is a clone of now."""


def promoted_clones(found: Promoted) -> list[Finding]:
    """List the finding about them, if there are any."""
    if not found:
        return []
    return [
        Finding(
            severity="critical",
            subject="backups",
            text=what_happened(found),
            why="none of these backups can be restored or pruned where they are; nothing of them is lost",
            fix=give_back(found),
            exit_status=Refused.exit_status,
            key="promoted",
        )
    ]


def what_happened(found: Promoted) -> str:
    """Say it in a clause."""
    clones = ", ".join(dict.fromkeys(origin.partition("@")[0] for _, origin in found))
    datasets = ", ".join(dataset for dataset, _ in found)
    return f"the backups of {datasets} moved to {clones}, which was promoted by hand (zfs promote)"


def give_back(found: Promoted) -> str:
    """Return the command with which the datasets get their snapshots again."""
    return " && ".join(command_line("zfs", "promote", dataset) for dataset, _ in found)
