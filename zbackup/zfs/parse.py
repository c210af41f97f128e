"""Tell what zfs and the kernel print, turned into nouns. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from zbackup.model.snapshot import Dataset, Snapshot

SNAPSHOT_COLUMNS = "name,guid,createtxg,creation,used,written,userrefs,clones"
SNAPSHOT_IDENTITY = "name,guid,createtxg"
DATASET_COLUMNS = "name,guid,snapdir,origin"


def snapshots(listing: str, properties: str) -> list[Snapshot]:
    """Parse `zfs list` with SNAPSHOT_COLUMNS and `zfs get -o name,property,value`, in order of creation."""
    own = user_properties(properties)
    return sorted((_snapshot(line, own) for line in _lines(listing)), key=lambda s: s.createtxg)


def _snapshot(line: str, own: Mapping[str, Mapping[str, str]]) -> Snapshot:
    full, guid, createtxg, creation, used, written, holds, clones = line.split("\t")
    dataset, _, name = full.partition("@")
    return Snapshot(
        dataset=dataset,
        name=name,
        guid=int(guid),
        createtxg=int(createtxg),
        created=datetime.fromtimestamp(int(creation), UTC),
        used=_size(used),
        written=_size(written),
        holds=_size(holds),
        clones=tuple(c for c in clones.split(",") if c not in ("", "-")),
        properties=tuple(sorted(own.get(full, {}).items())),
    )


def with_keys(listing: str, keys: str) -> str:
    """The lines, of what user_properties() takes, whose name and property stand in `keys`, the same listing
    without values: with a line break in a value somebody could tell of a property that another's snapshot
    has not."""
    known = set(_lines(keys))
    rows = (line for line in _lines(listing) if "\t".join(line.split("\t", 2)[:2]) in known)
    return "\n".join(rows)


def disputed(listing: str) -> set[str]:
    """Find the names of which what user_properties() takes says two things about one property.

    ZFS never does. A value with a line break in it does, which somebody wrote to speak of another's snapshot.
    """
    said: dict[tuple[str, str], str] = {}
    rows = (line.split("\t", 2) for line in _lines(listing))
    return {row[0] for row in rows if len(row) == 3 and said.setdefault((row[0], row[1]), row[2]) != row[2]}


def halves(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Two or more different names in two parts, as far as possible of one length: of what they have in common
    the datasets right below are in one of them with all that is theirs."""
    words = sorted(name.split("/") for name in names)
    depth = next(n for n, (a, z) in enumerate(zip(words[0], words[-1], strict=False)) if a != z)
    ends = [at for at in range(1, len(words)) if words[at][depth] != words[at - 1][depth]]
    middle = min(ends, key=lambda at: abs(at - len(words) // 2))
    ordered = ["/".join(each) for each in words]
    return ordered[:middle], ordered[middle:]


def snapshots_with(identities: str, listing: str, count: int) -> list[tuple[str, int, tuple[str, ...]]]:
    """Parse `zfs list` with SNAPSHOT_IDENTITY, and with `count` user properties behind it: name, createtxg
    and these.

    A guid is nobody's to know who did not take or receive the snapshot, so no value forges another's line.
    """
    known = set(_lines(identities))
    found: dict[str, tuple[str, int, tuple[str, ...]]] = {}
    for line in _lines(listing):
        fields = line.split("\t")
        if "\t".join(fields[:3]) in known:
            told = fields[3:] if len(fields) == 3 + count else []
            values = [*("" if value == "-" else value for value in told), *[""] * count][:count]
            found.setdefault(fields[0], (fields[0], int(fields[2]), tuple(values)))
    return list(found.values())


def _size(text: str) -> int:
    return 0 if text == "-" else int(text)


def user_properties(listing: str) -> dict[str, dict[str, str]]:
    """Parse `zfs get -H -o name,property,value`: name -> user property -> value.

    Of somebody else's value with several lines the first is given; ours have one line.
    """
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for line in _lines(listing):
        match line.split("\t", 2):
            case [name, key, value] if ":" in key:
                found[name][key] = value
    return dict(found)


def reclaimed(listing: str) -> int:
    """Bytes, from `zfs destroy -nvp`: the line "reclaim"."""
    rows = (line.split("\t") for line in _lines(listing))
    return sum(int(row[1]) for row in rows if row[0] == "reclaim")


def holds(listing: str) -> list[tuple[str, str]]:
    """(snapshot, tag), from `zfs holds -H`: name, tag and time."""
    rows = (line.split("\t") for line in _lines(listing))
    return [(row[0], row[1]) for row in rows]


def quotas(listing: str) -> list[str]:
    """The names of the quota properties that are set, from `zfs userspace` and `zfs projectspace`: type,
    name, quota and objquota. A type is "POSIX User", "SMB Group", "Project" and the like."""
    found = []
    for line in _lines(listing):
        kind, name, *values = line.split("\t")
        of = kind.rpartition(" ")[2].lower()
        named = zip((f"{of}quota@{name}", f"{of}objquota@{name}"), values, strict=False)
        found += [key for key, value in named if value.isdigit() and int(value)]
    return found


def datasets(listing: str, mounts: Mapping[str, str]) -> list[Dataset]:
    """Parse `zfs list` with DATASET_COLUMNS, and add where the kernel has them mounted."""
    rows = (line.split("\t") for line in _lines(listing))
    return [
        Dataset(
            name=name,
            guid=int(guid),
            mountpoint=mounts.get(name),
            snapdir=snapdir,
            origin=origin.removeprefix("-"),
        )
        for name, guid, snapdir, origin in rows
    ]


def zfs_mounts(mountinfo: Iterable[str]) -> dict[str, str]:
    """Dataset or snapshot name -> mountpoint, from /proc/self/mountinfo (proc(5)).

    The `mountpoint` property is not asked: it says where a dataset would be mounted, and nothing for
    `legacy`. Spaces and the like are written as octal escapes there.
    """
    found: dict[str, str] = {}
    for line in mountinfo:
        left, _, right = line.partition(" - ")
        # Not split(): a path may hold white space that the kernel does not escape, such as U+00A0.
        fields, (kind, source, *_) = left.split(" "), [*right.split(" "), ""]
        if kind == "zfs" and fields[3] == "/":  # a bind mount of a subdirectory is not the dataset
            found.setdefault(_unescape(source), _unescape(fields[4]))
    return found


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), text)


def _lines(listing: str) -> list[str]:
    """Not splitlines(): that also ends a line at characters which values may hold, such as U+2028."""
    return [line for line in listing.split("\n") if line]
