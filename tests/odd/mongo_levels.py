"""Oddities of a mongod, its files and its datasets: factors, and their levels. See sql_levels."""

from collections.abc import Callable, Mapping

from tests.odd.sql_levels import LEVELS as SQL
from tests.odd.sql_levels import USUAL, Level

SHARED = (
    "dataset",
    "mount",
    "datadir",
    "recordsize",
    "compression",
    "attributes",
    "case",
    "limit",
    "keys of datasets",
    "snapdir",
    "sync",
)


def _options(*options: str) -> Level:
    return Level(options=options)


LEVELS: dict[str, dict[str, Level]] = {
    **{factor: SQL[factor] for factor in SHARED},
    "journal": {"beside": USUAL, "nested": USUAL, "sibling": USUAL, "linked": USUAL},
    "layout": {
        "flat": USUAL,
        "directories": _options("--directoryperdb"),
        "indexes apart": _options("--directoryperdb", "--wiredTigerDirectoryForIndexes"),
    },
    "compressor": {
        "snappy": USUAL,
        "zlib": _options("--wiredTigerCollectionBlockCompressor=zlib", "--wiredTigerJournalCompressor=zlib"),
        "none": _options("--wiredTigerCollectionBlockCompressor=none", "--wiredTigerJournalCompressor=none"),
        "zstd": _options("--wiredTigerCollectionBlockCompressor=zstd", "--journalCommitInterval=500"),
    },
    "options": {"arguments": USUAL, "file": USUAL},
    "logins": {"key": USUAL, "none": USUAL},
    "members": {"set": USUAL, "alone": Level(refused="keeps no oplog")},
    "tail": {"whole": USUAL, "killed": USUAL},
    "incident": {name: USUAL for name in ("none", "no room", "promoted", "leaked mount", "mounted by hand")},
}


def factors(_: str) -> dict[str, list[str]]:
    """All levels."""
    return {factor: list(levels) for factor, levels in LEVELS.items()}


def alone(_: str) -> list[tuple[str, str]]:
    """Those that are refused by design."""
    return [(factor, name) for factor, levels in LEVELS.items() for name in levels if levels[name].refused]


def allowed(_: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether the levels of a row can be together at all."""
    return lambda row: not {("incident", "no room"), ("limit", "refquota")} <= row.items()


def lives(flavour: str, row: Mapping[str, str]) -> bool:
    """Whether a server of that row stays alive by itself: all do."""
    return True
