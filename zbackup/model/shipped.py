"""Words for what has arrived at a destination, as it is written down at the source: known without asking
there.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from zbackup.model import bounds
from zbackup.model.backup import Backup
from zbackup.model.record import PREFIX

SHIPPED = f"{PREFIX}shipped:"
"""On an instance's first dataset, with the destination's name behind it: the newest backup that is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The newest backup of ours that was committed at a destination when somebody looked there last.

    `name` is its snapshots', `taken` when it was taken and `as_of` its last transaction (None: not known).
    """

    name: str
    taken: datetime
    as_of: datetime | None = None


def arrived_of(backup: Backup) -> Arrived:
    return Arrived(name=backup.name, taken=backup.record.taken, as_of=backup.record.as_of)


def to_text(arrived: Arrived) -> str:
    """Write it as it stands in the property."""
    times = {"taken": arrived.taken, "as_of": arrived.as_of}
    plain = {name: at.isoformat() for name, at in times.items() if at}
    return json.dumps({"name": arrived.name} | plain, separators=(",", ":"), sort_keys=True)


def from_text(text: str) -> Arrived | None:
    """Tell what is written down; None for what cannot be understood: the next run writes it anew."""
    try:
        row = bounds.from_json(text)
        if not isinstance(row, dict):
            return None
        taken, as_of = bounds.moment(row["taken"]), row.get("as_of")
        return Arrived(name=str(row["name"]), taken=taken, as_of=bounds.moment(as_of) if as_of else None)
    except (ValueError, KeyError, TypeError):
        return None


def arrived(properties: Mapping[str, str]) -> dict[str, Arrived]:
    """By destination what the properties of an instance's first dataset say."""
    found = {
        key.removeprefix(SHIPPED): from_text(v) for key, v in properties.items() if key.startswith(SHIPPED)
    }
    return {destination: each for destination, each in found.items() if each}
