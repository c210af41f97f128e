"""A host that receives backups of many, as its `zfs` tells of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tests.unit.samples import PLAIN
from zbackup.model.record import to_properties
from zbackup.model.shipping import commit_properties

ROOT = "vault/backups"
NOW = datetime.fromisoformat("2026-11-22T02:58:10+00:00")


@dataclass
class Line:
    """A snapshot of a copy."""

    name: str
    guid: int
    txg: int
    properties: dict[str, str]


@dataclass
class Receiver:
    """It answers `zfs list` and `zfs get` of snapshots below ROOT."""

    lines: dict[str, Line] = field(default_factory=dict)
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def ship(self, path: str, instance: str, taken: datetime, *, number: int = 1, commit: bool = True) -> str:
        """A backup of two datasets arrives in ROOT/path/instance; the name of its first copy."""
        record = replace(
            PLAIN,
            backup=f"{abs(hash((path, instance, number))):032x}",
            instance=instance,
            taken=taken,
            as_of=taken - timedelta(seconds=2),
        )
        home = "/".join(filter(None, (ROOT, path, instance)))
        guids = [len(self.lines) + n + 1 for n in range(2)]
        properties = to_properties(record)
        if commit:
            properties = commit_properties(record, guids, taken.isoformat())
        names = [f"{home}/{member}@zbackup-{number}" for member, _ in record.members]
        for name, guid in zip(names, guids, strict=True):
            self.lines[name] = Line(name, guid, 100 + len(self.lines), dict(properties))
        return names[0]

    def __call__(self, argv: Sequence[str], **_: object) -> str:
        words = tuple(argv)
        self.asked.append(words)
        if words[:2] == ("zfs", "get"):
            values = words[words.index("-o") + 1] == "name,property,value"
            return "".join(
                f"{name}\t{key}\t{value}\n" if values else f"{name}\t{key}\n"
                for name in words[words.index("--") + 1 :]
                for key, value in self.lines[name].properties.items()
            )
        assert words[:2] == ("zfs", "list")
        columns = words[words.index("-o") + 1].split(",")
        chosen = (
            self.lines.values() if "-r" in words else [self.lines[n] for n in words[words.index("--") + 1 :]]
        )
        return "".join("\t".join(_cell(line, column) for column in columns) + "\n" for line in chosen)


def _cell(line: Line, column: str) -> str:
    match column:
        case "name":
            return line.name
        case "guid":
            return str(line.guid)
        case "createtxg":
            return str(line.txg)
        case "creation" | "used" | "written" | "userrefs":
            return "0"
    return line.properties.get(column, "-")


def many(instances: int, backups: int, now: datetime) -> Receiver:
    """So many instances, each with so many backups of two datasets, an hour apart."""
    there = Receiver()
    for number in range(instances):
        for each in range(backups):
            taken = now - timedelta(hours=backups - each, seconds=number)
            there.ship(f"host{number // 4:04}", f"db{number % 4}", taken, number=each)
    return there
