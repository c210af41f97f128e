"""Encrypted datasets whose key is not loaded. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from zbackup.model.command_line import command_line
from zbackup.model.errors import KeyNotLoaded
from zbackup.model.finding import Finding
from zbackup.model.space import DatasetSettings


def not_loaded(settings: Sequence[DatasetSettings]) -> list[Finding]:
    """List the findings about them, once for each key."""
    locked: dict[str, list[str]] = defaultdict(list)
    for each in settings:
        if each.values.get("keystatus") == "unavailable":
            locked[each.values.get("encryptionroot") or each.name].append(each.name)
    return [
        Finding(
            severity="critical",
            subject="datasets",
            text=f"the key of {root} is not loaded, so nothing in {', '.join(names)} can be read",
            why="without it the server cannot run, and no backup can be taken or restored",
            fix=f"{command_line('zfs', 'load-key', root)} && {command_line('zbackup', 'mount', *names)}",
            exit_status=KeyNotLoaded.exit_status,
            key=root,
        )
        for root, names in locked.items()
    ]
