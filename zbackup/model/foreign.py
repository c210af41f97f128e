"""Snapshots of an instance's datasets that others took: sanoid, zrepl, people."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from zbackup.model.record import PREFIX
from zbackup.model.snapshot import Snapshot

BY_HAND = "by hand"

# What each calls its snapshots, if nobody configured another name.
_TOOLS = (
    ("sanoid", r"autosnap_\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d_[a-z]+"),
    ("syncoid", r"syncoid_.+_\d{4}-\d\d-\d\d:\d\d:\d\d:\d\d.*"),
    ("zrepl", r"zrepl_\d{8}_\d{6}_\d{3}"),
    ("zfs-auto-snapshot", r"zfs-auto-snap_[a-z]+-\d{4}-\d\d-\d\d-\d{4}"),
    ("pyznap", r"pyznap_\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d_[a-z]+"),
    ("znapzend", r"\d{4}-\d\d-\d\d-\d{6}"),
    ("TrueNAS", r"auto-\d{4}-\d\d-\d\d_\d\d-\d\d.*"),
    ("bzfs", r"bzfs_.+"),
)


def tool_of(name: str) -> str:
    """Name the tool that probably took a snapshot of this name (without its dataset): a guess, anybody may
    call one so."""
    return next((tool for tool, form in _TOOLS if re.fullmatch(form, name)), BY_HAND)


def is_foreign(snapshot: Snapshot) -> bool:
    """Whether nothing of zbackup's is written on it, of whatever kind."""
    return not any(key.startswith(PREFIX) for key, _ in snapshot.properties)


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """The snapshots of one name, in the order of the instance's datasets; `missing` are those without one."""

    name: str
    snapshots: tuple[Snapshot, ...]
    missing: tuple[str, ...]

    @property
    def tool(self) -> str:
        """See tool_of()."""
        return tool_of(self.name)

    @property
    def taken(self) -> datetime:
        """Return the time at which the first of them was taken, by ZFS: in whole seconds."""
        return min(s.created for s in self.snapshots)

    @property
    def at_once(self) -> bool:
        """Whether all of them are of one moment: ZFS gives what one command takes one number."""
        return len({s.createtxg for s in self.snapshots}) == 1

    @property
    def flaw(self) -> str:
        """Return why no server can be made of them; "" when one can."""
        if self.missing:
            lacking = ", ".join(self.missing[:3]) + (", ..." if len(self.missing) > 3 else "")
            return f"there is none of {lacking}"
        return "" if self.at_once else "taken one after the other, not of one moment"


def by_name(snapshots: Sequence[Snapshot], datasets: Sequence[str]) -> tuple[Foreign, ...]:
    """The foreign ones among the snapshots of these datasets by their names, oldest first."""
    found: dict[str, dict[str, Snapshot]] = {}
    for snapshot in snapshots:
        if is_foreign(snapshot) and snapshot.dataset in datasets:
            found.setdefault(snapshot.name, {})[snapshot.dataset] = snapshot
    groups = (
        Foreign(
            name=name,
            snapshots=tuple(there[d] for d in datasets if d in there),
            missing=tuple(d for d in datasets if d not in there),
        )
        for name, there in found.items()
    )
    return tuple(sorted(groups, key=lambda f: max(s.createtxg for s in f.snapshots)))
