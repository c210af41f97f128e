"""Encrypted datasets whose key is not loaded. Pure."""

import shlex
from collections import defaultdict
from collections.abc import Sequence

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
            fix=f"zfs load-key {shlex.quote(root)} && zbackup mount {shlex.join(names)}",
            exit_status=KeyNotLoaded.exit_status,
            key=root,
        )
        for root, names in locked.items()
    ]
