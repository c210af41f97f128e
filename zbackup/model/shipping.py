"""Words for shipping: what a destination has of an instance, what the source has to send, and our marks."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from zbackup.model import bounds
from zbackup.model.long_value import CHUNK, joined, split
from zbackup.model.record import MOST_MEMBERS, PREFIX, Record, to_properties

COMMITTED = f"{PREFIX}committed"
"""On a copy at a destination: when (UTC) its backup was committed. It counts only if all parts have it."""
PARTS = f"{PREFIX}parts"
"""On a copy: the guids of its backup's snapshots as a JSON list of texts, in the order of the members.
Where that is too long for one property it is in LONG_PARTS, and who does not know these sees no commit."""
MOST_OF_VALUE = 8191
"""Bytes of a property. What fits into one is there, so that who does not know LONG_PARTS sees the commit."""
_MOST_OF_PART = len('"",') + bounds.MOST_DIGITS
LONG_PARTS = (
    f"{PARTS}.parts",
    *(f"{PARTS}.{n}" for n in range(-(-(MOST_MEMBERS * _MOST_OF_PART + 1) // CHUNK))),
)
"""The properties that long_value.split makes of PARTS, where a backup has as many members as there may be."""

RECEIVED = {"readonly": "on", "canmount": "noauto", "setuid": "off", "exec": "off", "devices": "off"}
"""Properties of every received dataset, whatever its stream says: looked at, never run, mounted by nobody.
The sender gives them, and the gate demands them."""
CONTAINER = {"canmount": "off", "mountpoint": "none", "readonly": "on"}
"""Properties of what only holds received datasets. It is readonly too: ZFS wants to mount it otherwise."""

MARK = "zbackup-ship"
RESTORE = "zbackup-restore"
_BOOKMARK = re.compile(rf"{MARK}:(?P<destination>[a-z0-9_.-]+):(?P<guid>[0-9]+)")
_TAG = re.compile(rf"{MARK}:(?P<host>[^:]*):(?P<instance>[^:]+):(?P<destination>[^:]+)")

# dsl_userhold.c leaves room for a prefix in 256 bytes. A host's name has at most 64.
MOST_OF_TAG = 238
MOST_OF_HOST = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A snapshot or bookmark at the source that an incremental stream can start from."""

    name: str
    guid: int
    createtxg: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDataset:
    """A dataset of the instance: `origins` are its snapshots and bookmarks, of any maker.

    `encrypted`: it is sent raw, always. `encryption_root` and `salt` are as ZFS says of it, "" where it is
    not.
    """

    name: str
    origins: tuple[Origin, ...]
    encrypted: bool = False
    encryption_root: str = ""
    salt: str = ""

    def origin(self, guid: int) -> Origin | None:
        """The snapshot with this guid, else a bookmark of it."""
        found = [o for o in self.origins if o.guid == guid]
        return min(found, key=lambda o: "#" in o.name, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSnapshot:
    """A snapshot that arrived whole at a destination. `backup` and `parts` are "" and () before its commit.

    `marked` says that it carries the commit marker; only Inventory.committed says whether that counts.
    """

    name: str
    guid: int
    backup: str = ""
    parts: tuple[int, ...] = ()
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Partial:
    """The part of a stream that a destination kept when the link was cut, to be continued.

    `token` is what the source's `zfs send -t` needs. "" where the stream is sent again from its start, and
    the destination skips what it has of it: then `guid` is the snapshot that it is of.

    `needed`: it was whole, and a committed backup may need it. It is not given up.
    """

    token: str
    guid: int | None = None
    needed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetDataset:
    """The copies of one dataset at a destination, oldest first.

    `name` is the source dataset's name when its first copy arrived; it may be called otherwise since.
    `bases` are the guids of those that the next incremental stream may start from: of a ZFS dataset the
    newest alone. One without copies and partial is a name that is taken by something else.
    `restartable`: a full stream can be stored beside the copies, so that no bases means a new chain.
    `dataset` is its full name over there, where it is a ZFS dataset. `encryption_root` and `salt` are as ZFS
    says of it over there, "" where it is not encrypted: an encrypted copy is received as its own root, with
    the salt of the source, and both change by `zfs change-key` alone.
    """

    name: str
    copies: tuple[ReceivedSnapshot, ...] = ()
    bases: tuple[int, ...] = ()
    partial: Partial | None = None
    encrypted: bool = False
    restartable: bool = False
    dataset: str = ""
    encryption_root: str = ""
    salt: str = ""

    def has(self, guid: int) -> bool:
        return any(copy.guid == guid for copy in self.copies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """One look at what a destination has of an instance. `address` is where that is, for people.

    `locked` is the encryption root of what copies are received below, if its key is not loaded, else "".
    """

    address: str
    datasets: tuple[TargetDataset, ...] = ()
    locked: str = ""

    def dataset(self, name: str) -> TargetDataset | None:
        return next((each for each in self.datasets if each.name == name), None)

    @property
    def committed(self) -> frozenset[str]:
        """Record.backup of the backups of which every part is there and marked: nothing else is listed.

        A guid is what a stream says: a forged copy with that of another must not hide the other.
        """
        marked = [c for each in self.datasets for c in each.copies if c.marked and c.backup]
        there = {(c.backup, c.guid) for c in marked}
        return frozenset(
            copy.backup
            for copy in marked
            if copy.guid in copy.parts and all((copy.backup, part) in there for part in copy.parts)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingStream:
    """One snapshot on its way into the target dataset `dataset`; `base` is the guid that its stream
    starts from (None: full).

    `server` is the identity of the server that the snapshot is of; "" where that is not known.
    """

    dataset: str
    guid: int
    name: str
    base: int | None
    raw: bool
    server: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedCopy:
    """A backup at a destination that was verified: what is wrong with it, and the bytes that were read.

    `backup` is Record.backup and `name` the snapshots' name, as far as they are known.
    """

    backup: str
    name: str
    problems: tuple[str, ...] = ()
    read: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """Who can read the backups at a destination where they are encrypted.

    `encrypted`: new ones are, and with `public_key` (its id, "" for none) for that one alone. `sealed` are
    the backups that are; the key that writes opens the `others`.
    """

    encrypted: bool
    public_key: str
    sealed: int
    others: int
    private_key_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyTrial:
    """The backup `name` was opened with a private key: the keys of so many `streams`, and `read` bytes of
    them and of archived log, decrypted and proven."""

    name: str
    streams: int
    read: int
    log: int


def commit_properties(record: Record, parts: Sequence[int], when: str) -> dict[str, str]:
    """What is written on each copy of a backup: its record, what it consists of, and the marker."""
    listed = json.dumps([str(guid) for guid in parts], separators=(",", ":"))
    pieces = split(PARTS, listed, CHUNK) if len(listed) > MOST_OF_VALUE else [(PARTS, listed)]
    return to_properties(record) | dict(pieces) | {COMMITTED: when}


def copy_of(name: str, guid: int, properties: Mapping[str, str]) -> ReceivedSnapshot:
    """A copy as its properties describe it. What cannot be understood is no commit."""
    return ReceivedSnapshot(
        name=name,
        guid=guid,
        backup=properties.get(f"{PREFIX}backup", ""),
        parts=_parts(properties),
        marked=bool(properties.get(COMMITTED)),
    )


def _parts(properties: Mapping[str, str]) -> tuple[int, ...]:
    try:
        values = bounds.from_json(joined(properties, PARTS) or "")
        return tuple(bounds.count(str(value)) for value in values) if isinstance(values, list) else ()
    except (KeyError, ValueError):
        return ()


def bookmark_name(destination: str, guid: int) -> str:
    """What a bookmark of ours is called, without the dataset: it says by itself what it is of."""
    return f"{MARK}:{destination}:{guid}"


def bookmarked(name: str) -> tuple[str, int] | None:
    """Destination and guid of a bookmark of ours, by its name without the dataset; None for another's."""
    found = _BOOKMARK.fullmatch(name)
    return (found["destination"], int(found["guid"])) if found else None


def hold_tag(host: str, instance: str, destination: str) -> str:
    """The tag of the holds on what is being sent: whose it is can be told from it alone."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", host)[:MOST_OF_HOST]
    return f"{MARK}:{plain}:{instance}:{destination}"


def restore_tag(tag: str, pool: int, name: str) -> str:
    """The tag of holds at a destination on what the restore `name` needs; `tag` is that of what is sent.

    `pool` is the guid of the root dataset of the pool that it is restored on: two hosts may have one name,
    and two of their restores, but they have not one pool.
    """
    return f"{_of_restores(tag)}{pool}:{name}"[:MOST_OF_TAG]


def restore_of(tag: str, pools: Collection[int], held: str) -> str:
    """The restore that `held` is the tag of, if it is of a host that ships with `tag`, and of one of the
    `pools`; "" otherwise, and where the name did not fit. What earlier versions hold names no pool, and is of
    any."""
    prefix = _of_restores(tag)
    if not held.startswith(prefix) or len(held) >= MOST_OF_TAG:
        return ""
    pool, _, name = held.removeprefix(prefix).rpartition(":")
    return name if not pool or pool in map(str, pools) else ""


def _of_restores(tag: str) -> str:
    return f"{tag.replace(MARK, RESTORE, 1)}:"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a snapshot with a tag of ours."""

    host: str
    instance: str
    destination: str


def holder_of(tag: str) -> Holder | None:
    """Who a tag belongs to; None when it is not one of shipping."""
    found = _TAG.fullmatch(tag)
    return Holder(found["host"], found["instance"], found["destination"]) if found else None
