"""Words for what has arrived at a destination, as it is written down at the source: known without asking
there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from zbackup.model import bounds
from zbackup.model.backup import Backup
from zbackup.model.json_fields import Moment, one_text, to_rows
from zbackup.model.record import PREFIX

SHIPPED = f"{PREFIX}shipped:"
"""On an instance's first dataset, with the destination's name behind it: the newest backup that is there."""

OTHER_KEY = f"{PREFIX}other_key:"
"""On an instance's first dataset, with the destination's name behind it: a copy there whose encryption root
was changed."""

ALL_GONE = "{}"
"""Written there when backups had arrived, and none is there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The newest backup of ours that was committed at a destination when somebody looked there last.

    `name` is its snapshots', `taken` when it was taken and `as_of` its last transaction (None: not known).
    """

    name: str
    taken: Moment
    as_of: Moment | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherKey:
    """A copy of an encrypted dataset that is not its own encryption root any more.

    A raw stream brings the source's wrapped key but does not change the encryption root, whose key does not
    open it (openzfs/zfs#12614). `overwritten`: such a stream has arrived. `copy` is its full name there.
    """

    dataset: str
    copy: str
    root: str
    overwritten: bool


def arrived_of(backup: Backup) -> Arrived:
    return Arrived(name=backup.name, taken=backup.record.taken, as_of=backup.record.as_of)


_ARRIVED = TypeAdapter(Arrived)
_OTHER_KEY = TypeAdapter(OtherKey)


def to_text(arrived: Arrived) -> str:
    """Write it as it stands in the property."""
    return one_text({name: v for name, v in to_rows(_ARRIVED, arrived).items() if v is not None})


def from_text(text: str) -> Arrived | None:
    """What is written down; None for what cannot be understood: the next run writes it again."""
    try:
        return _ARRIVED.validate_python(bounds.from_json(text))
    except ValueError:
        return None


def arrived(properties: Mapping[str, str]) -> dict[str, Arrived]:
    """Map each destination to what the properties of an instance's first dataset say of it."""
    found = {
        key.removeprefix(SHIPPED): from_text(v) for key, v in properties.items() if key.startswith(SHIPPED)
    }
    return {destination: each for destination, each in found.items() if each}


def other_key_to_text(found: OtherKey) -> str:
    """Write it as it stands in the property."""
    return one_text(to_rows(_OTHER_KEY, found))


def other_key(properties: Mapping[str, str], destination: str) -> OtherKey | None:
    """Read the stored copy with a changed encryption root; None if there is none, or it is not valid."""
    try:
        return _OTHER_KEY.validate_python(bounds.from_json(properties.get(f"{OTHER_KEY}{destination}", "")))
    except ValueError:
        return None
