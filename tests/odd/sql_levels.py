"""Oddities of a MySQL or MariaDB server, its files and its datasets: factors, and their levels.

The first level of each factor is what is usual. What a level means is here when it is an option of the
server's or a property of a dataset, and in `sql_server` and `sql_story` otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BOTH = ("mysql", "mariadb")


@dataclass(frozen=True, kw_only=True)
class Level:
    """One level of a factor.

    `options` are the server's, `properties` of all its datasets. `refused` is what `check` says of a server
    that nothing can be restored of, by design (of the flavours in `refused_on`, where there are any); `named`
    is what it says where only some moments cannot be restored, and `broken` what it says as of an error then.
    """

    options: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, hash=False)
    kinds: tuple[str, ...] = BOTH
    refused: str = ""
    refused_on: tuple[str, ...] = ()
    named: str = ""
    broken: str = ""


USUAL = Level()
MYSQL = Level(kinds=("mysql",))
MARIADB = Level(kinds=("mariadb",))
UNNUMBERED = Level(refused="has no number", refused_on=("mysql-9.7",))


def _options(*options: str, kinds: tuple[str, ...] = BOTH, refused: str = "") -> Level:
    return Level(options=options, kinds=kinds, refused=refused)


def _zfs(**properties: str) -> Level:
    return Level(properties=properties)


LEVELS: dict[str, dict[str, Level]] = {
    # names, links and placements
    "dataset": {"db": USUAL, "my db": USUAL, "a.b:c_d-e": USUAL},
    "mount": {"inherited": USUAL, "odd": USUAL, "legacy": USUAL, "linked parent": USUAL},
    "datadir": {
        "directory": USUAL,
        "mountpoint": USUAL,
        "deep": USUAL,
        "odd": USUAL,
        "linked": USUAL,
        "linked inside": USUAL,
    },
    "log": {"beside": USUAL, "directory": USUAL, "nested": USUAL, "sibling": USUAL},
    "log link": {
        "none": USUAL,
        "directory": USUAL,
        "from outside": USUAL,
        "index elsewhere": USUAL,
        "relative": USUAL,
    },
    "log name": {
        "binlog": USUAL,
        "base.with.dots": UNNUMBERED,
        "my-bin.log.x": UNNUMBERED,
        "my bin": USUAL,
        "-bin": USUAL,
        "000001": USUAL,
    },
    "part": {
        "none": USUAL,
        "redo": USUAL,
        "schema": USUAL,
        "linked schema": MARIADB,
        "doublewrite": MYSQL,
        "data directory": USUAL,
        "tablespace": MYSQL,
    },
    "options": {"arguments": USUAL, "file": USUAL, "included": USUAL, "persisted": MYSQL},
    # the log
    "log size": {"usual": USUAL, "small": _options("--max-binlog-size=4096")},
    "format": {
        "row": USUAL,
        "minimal": _options("--binlog-row-image=MINIMAL", "--binlog-row-event-max-size=256"),
        "noblob": _options("--binlog-row-image=NOBLOB", "--binlog-row-metadata=FULL"),
        "mixed": _options("--binlog-format=MIXED"),
        "statement": _options("--binlog-format=STATEMENT"),
        "encrypted": Level(refused="the binlog is encrypted"),
        "off": Level(refused="the binlog is off"),
    },
    "payload": {
        "plain": USUAL,
        "compressed": Level(),
        "no checksum": _options("--binlog-checksum=NONE"),
    },
    "gtid": {"usual": USUAL, "off": MYSQL, "domain": _options("--gtid-domain-id=7", kinds=("mariadb",))},
    # times, and ends
    "clock": {
        "right": USUAL,
        "past": USUAL,
        "future": Level(named="times"),
        "ahead": Level(named="times"),
        "zone": _options("--default-time-zone=+05:30"),
    },
    "tail": {"whole": USUAL, "killed": USUAL, "torn": USUAL, "torn before": USUAL},
    # the server
    "account": {
        "socket": USUAL,
        "address": USUAL,
        "name": USUAL,
        "tls": USUAL,
        "tls refused": Level(refused="TLS"),
    },
    "plugin": {
        "none": USUAL,
        "semisync": Level(),
        "audit": _options("--plugin-load-add=server_audit", "--server-audit-logging=ON", kinds=("mariadb",)),
        "myisam": USUAL,
        "keys": USUAL,
    },
    "session": {
        "usual": USUAL,
        "sql_mode": Level(
            options=("--sql-mode=ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH",),
            named="NO_BACKSLASH_ESCAPES",
        ),
        "serializable": _options("--transaction-isolation=SERIALIZABLE", "--max-connections=12"),
        "small limits": Level(),
        "charset": _options("--character-set-server=utf16", "--collation-server=utf16_bin"),
        "events": _options("--event-scheduler=ON"),
    },
    "durability": {
        "full": USUAL,
        "lazy": _options("--innodb-flush-log-at-trx-commit=2", "--sync-binlog=0"),
        "none": Level(
            options=("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0"),
            refused="innodb_flush_log_at_trx_commit = 0",
            refused_on=("mariadb-10.11",),
        ),
        "grouped": Level(),
    },
    "files": {
        "usual": USUAL,
        "direct": _options("--innodb-flush-method=O_DIRECT"),
        "one": _options("--innodb-file-per-table=OFF"),
        "page compressed": Level(),
        "row compressed": Level(),
    },
    "work": {"load": USUAL, "everything": USUAL},
    # the datasets
    "recordsize": {
        "16K": _zfs(recordsize="16K"),
        "128K": USUAL,
        "4K": _zfs(recordsize="4K"),
        "1M": _zfs(recordsize="1M"),
    },
    "compression": {
        "lz4": _zfs(compression="lz4"),
        "off": _zfs(compression="off"),
        "zstd": _zfs(compression="zstd-9"),
        "gzip": _zfs(compression="gzip", checksum="sha512"),
    },
    "attributes": {
        "usual": USUAL,
        "sa": _zfs(xattr="sa", atime="on", relatime="on", acltype="posix"),
        "closed": _zfs(atime="off", exec="off", setuid="off", devices="off", xattr="off"),
        "dnodes": _zfs(dnodesize="auto", redundant_metadata="most", logbias="throughput"),
    },
    "case": {
        "sensitive": USUAL,
        "mixed": _zfs(casesensitivity="mixed"),
        "normalized": _zfs(utf8only="on", normalization="formD"),
    },
    "limit": {
        "none": USUAL,
        "quota": _zfs(quota="1500M"),
        "refquota": _zfs(refquota="1500M", refreservation="600M"),
        "copies": _zfs(copies="2"),
        "of the owner": USUAL,
    },
    "keys of datasets": {"none": USUAL, "encrypted": USUAL},
    "snapdir": {
        "hidden": USUAL,
        "visible": _zfs(snapdir="visible"),
        "disabled": Level(properties={"snapdir": "disabled"}, refused="has snapdir=disabled"),
    },
    "sync": {
        "standard": USUAL,
        "always": _zfs(sync="always"),
        "disabled": _zfs(sync="disabled"),
    },
    # what lies elsewhere, and what was undone
    "sent": {"nowhere": USUAL, "plain": USUAL, "encrypted": USUAL, "another root": USUAL},
    "past": {"kept": USUAL, "rolled back": USUAL, "data rolled back": USUAL},
    # how backups are taken, and what befalls them
    "lock": {"auto": USUAL, "ftwrl": USUAL},
    "incident": {
        "none": USUAL,
        "no room": USUAL,
        "promoted": USUAL,
        "leaked mount": USUAL,
        "mounted by hand": USUAL,
        "replica gone": Level(),
        "undone": USUAL,
        "log purged": USUAL,
        "log file gone": Level(broken="gap"),
    },
}


def factors(flavour: str) -> dict[str, list[str]]:
    """The levels that a kind of server can have."""
    kind = flavour.partition("-")[0]
    return {
        factor: [name for name, level in levels.items() if kind in level.kinds]
        for factor, levels in LEVELS.items()
    }


def alone(flavour: str) -> list[tuple[str, str]]:
    """Those that are refused by design."""
    return [
        (factor, name)
        for factor, levels in factors(flavour).items()
        for name in levels
        if refused(LEVELS[factor][name], flavour)
    ]


def refused(level: Level, flavour: str) -> str:
    """What `check` says when the level makes it refuse a server of the flavour; "" when it does not."""
    return level.refused if not level.refused_on or flavour in level.refused_on else ""


def allowed(flavour: str) -> Callable[[Mapping[str, str]], bool]:
    """Whether the levels of a row can be together at all."""
    never = NEVER + (NEVER_MYSQL if flavour.startswith("mysql") else ())
    return lambda row: not any(pair <= row.items() for pair in never)


def _pairs(*pairs: tuple[tuple[str, str], tuple[str, str]]) -> tuple[frozenset[tuple[str, str]], ...]:
    return tuple(frozenset(pair) for pair in pairs)


# The server itself cannot be so, or loses what it has acknowledged.
NEVER = _pairs(
    (("durability", "none"), ("tail", "torn before")),
    (("files", "one"), ("part", "data directory")),
    (("files", "one"), ("plugin", "keys")),
    (("format", "encrypted"), ("files", "one")),
    (("keys of datasets", "none"), ("sent", "another root")),
    # What is in two datasets, and goes back in one of them, InnoDB cannot open.
    *(
        (("past", "data rolled back"), ("part", part))
        for part in ("redo", "schema", "doublewrite", "data directory", "tablespace")
    ),
    # A refreservation that is larger than the refquota, ZFS refuses.
    (("incident", "no room"), ("limit", "refquota")),
)
# It compresses pages only where the file system's blocks are smaller than they are.
NEVER_MYSQL = _pairs(
    *((("files", "page compressed"), ("recordsize", size)) for size in ("16K", "128K", "1M")),
    (("plugin", "keys"), ("part", "tablespace")),
    (("files", "page compressed"), ("part", "tablespace")),
)
# Found when the plan was run, whose numbers would be others if this were among the pairs above. With O_DIRECT
# on ZFS MySQL ends itself when it writes an encrypted page ("OS error 22 in a file operation").
ENDS_ITSELF_MYSQL = _pairs((("files", "direct"), ("plugin", "keys")))


def lives(flavour: str, row: Mapping[str, str]) -> bool:
    """Whether a server of that row stays alive by itself for as long as its story takes."""
    ends = ENDS_ITSELF_MYSQL if flavour.startswith("mysql") else ()
    return not any(pair <= row.items() for pair in ends)
