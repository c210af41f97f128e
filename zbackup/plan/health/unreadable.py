"""The findings about what cannot be read: snapshots' records and clones' descriptions. Pure."""

from collections.abc import Sequence

from zbackup.model.command_line import command_line
from zbackup.model.finding import Finding


def unreadable_clones(found: Sequence[tuple[str, str]]) -> list[Finding]:
    """List the findings about clones whose description cannot be read: (dataset, problem)."""
    return [
        Finding(
            severity="warning",
            subject="clones",
            text=f"{dataset} cannot be read: {problem}",
            why="no command works on this clone; all others are as they were, and what it needs stays",
            fix=f"set its property right: {command_line('zfs', 'get', 'zbackup:clone', dataset)}",
            key=dataset,
        )
        for dataset, problem in found
    ]


def unreadable(found: Sequence[tuple[str, str]]) -> list[Finding]:
    """List the findings about snapshots whose record cannot be read: (snapshot, problem)."""
    if not found:
        return []
    name, problem = found[0]
    more = f" (and {len(found) - 1} more)" if found[1:] else ""
    return [
        Finding(
            severity="warning",
            subject="backups",
            text=f"{name} and so its backup cannot be read: {problem}{more}",
            why="nothing can be restored from it, and no prune destroys it; all others are as they were",
            key=f"unreadable {len(found)} {name}",
        )
    ]
