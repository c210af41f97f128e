"""Settings and sizes of datasets and pools. Looks only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from zbackup.model.errors import CommandFailed, DatasetNotFound
from zbackup.model.space import DatasetSettings, Pool
from zbackup.proc.run import Runner, run
from zbackup.zfs.errors import translate

SETTINGS = (
    "recordsize", "compression", "atime", "logbias", "primarycache", "sync", "usedbydataset",
    "usedbysnapshots", "logicalused", "used", "referenced", "available", "quota", "refquota",
    "reservation", "refreservation", "usedbyrefreservation",
    "encryption", "dedup", "keystatus", "encryptionroot",
)  # fmt: skip
POOL_COLUMNS = "name,size,free,fragmentation,health,readonly"


@dataclass(frozen=True)
class ZfsFacts:
    """Raises CommandFailed, or the kind of it that names what is wrong (see zfs.errors)."""

    runner: Runner = run
    arcstats: Path = Path("/proc/spl/kstat/zfs/arcstats")

    def settings(self, datasets: Sequence[str]) -> tuple[DatasetSettings, ...]:
        """SETTINGS of each dataset, in the order they are named, and of those above it."""
        columns = ("-o", "name,property,value", ",".join(SETTINGS))
        found: dict[str, dict[str, str]] = {name: {} for name in datasets}
        found.update({above: {} for name in datasets for above in _above(name) if above not in found})
        listing = self._run("zfs", "get", "-Hp", *columns, "--", *found)
        for line in listing.splitlines():
            name, key, value = line.split("\t", 2)
            found[name][key] = value
        known = {name: DatasetSettings(name=name, values=values) for name, values in found.items()}
        above = {name: tuple(known[each] for each in _above(name)) for name in datasets}
        return tuple(replace(known[name], above=above[name]) for name in dict.fromkeys(datasets))

    def pool(self, name: str) -> Pool:
        """The pool as it is now."""
        listing = self._run("zpool", "list", "-Hp", "-o", POOL_COLUMNS, "--", name)
        return pool(listing.strip())

    def used(self, name: str) -> int:
        """Bytes in the dataset and everything below it; 0 when there is none."""
        try:
            return int(self._run("zfs", "get", "-Hp", "-o", "value", "used", "--", name))
        except DatasetNotFound:
            return 0

    def arc_limit(self) -> int | None:
        """Bytes the ARC may grow to; None when the module does not say."""
        try:
            lines = self.arcstats.read_text().splitlines()
        except OSError:
            return None
        rows = (line.split() for line in lines)
        return next((int(row[2]) for row in rows if len(row) == 3 and row[0] == "c_max"), None)

    def _run(self, *argv: str) -> str:
        try:
            return self.runner(argv, mutates=False)
        except CommandFailed as failure:
            raise translate(failure) from failure


def _above(name: str) -> list[str]:
    """The names of the datasets above it, the nearest first."""
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts) - 1, 0, -1)]


def pool(line: str) -> Pool:
    """Parse one line of `zpool list` with POOL_COLUMNS. Pure."""
    name, size, free, fragmentation, health, readonly = line.split("\t")
    return Pool(
        name=name,
        size=int(size),
        free=int(free),
        fragmentation=int(fragmentation.rstrip("%")) if fragmentation.rstrip("%").isdigit() else 0,
        health=health,
        readonly=readonly == "on",
    )
