"""The command line of a mongod on a clone: the original's way to lay out its files, made safe. Pure.

Safe means: never a member of the original's replica set, no network unless asked for, and then on 127.0.0.1
only unless it is a member of a cluster over several hosts, no TTL monitor, which would delete what was not
yet expired at the target.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from zbackup.model.mongod_settings import recorded_settings, setting
from zbackup.model.recovery import NO_LIMITS, Limits

Purpose = Literal["open", "replay", "serve"]

LOOPBACK = "127.0.0.1"
SMALLEST_CACHE = 256 * 1024**2
_ENGINE = "storage.wiredTiger.engineConfig"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPaths:
    """The directories of a server on a clone for what is its own: `home` on the clone, `run` for the
    socket."""

    home: Path
    run: Path

    @property
    def socket(self) -> Path:
        return self.run / "mongod.sock"

    @property
    def output(self) -> Path:
        return self.home / "server.log"

    @property
    def key(self) -> Path:
        return self.home / "key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The purpose of a server on a clone.

    "open": looked into and written to by zbackup only. "replay": applies its oplog while it starts, is read
    only then, and puts what it applied on disk when it ends. "serve": for its users; `port` 0 is no network,
    `auth` asks for logins, and `key` lets whoever has the key log
    in as the server itself. `replica_set` is the set it is the only member of, "" for standalone, and
    `role` what that is in a sharded cluster; `host` is where other hosts reach the port.
    """

    purpose: Purpose
    memory: int
    workers: int = 0
    port: int = 0
    read_only: bool = False
    auth: bool = False
    key: bool = False
    replica_set: str = ""
    role: str = ""
    host: str = ""
    limits: Limits = NO_LIMITS


def arguments(recorded: Mapping[str, str], own: OwnPaths, shape: Shape) -> list[str]:
    """All options, without the program. `recorded` is Record.server."""
    options = [
        f"--dbpath={recorded['dbpath']}",
        f"--wiredTigerCacheSizeGB={max(shape.memory, SMALLEST_CACHE) / 1024**3:g}",
        f"--bind_ip={_addresses(own, shape)}",
        # The one in /tmp, under the original's name; ours is among the addresses.
        "--nounixsocket",
        "--setParameter=diagnosticDataCollectionEnabled=false",
        "--setParameter=ttlMonitorEnabled=false",
    ]
    options += [f"--{flag}" for flag in _layout(recorded)]
    match shape.purpose:
        case "replay":
            options += _replaying(shape)
        case "serve":
            options += _serving(shape)
        case "open":
            # Thousands of oplog entries are inserted: fewer storage transactions (256 KiB each at most).
            options.append("--setParameter=internalInsertMaxBatchSize=1000")
    if shape.auth:
        options.append("--auth")
    if shape.key:
        options.append(f"--keyFile={own.key}")
    return options


def _layout(recorded: Mapping[str, str]) -> list[str]:
    """Return the options for how files are written: those of the original, for mongod refuses to open them
    otherwise.

    The journal has one compressor for all of it, which is not written down in it (zlib's read as snappy's
    ends mongod 6.0 in recovery); collections and indexes know their own.
    """
    settings = recorded_settings(recorded)
    compressor = setting(settings, f"{_ENGINE}.journalCompressor")
    wanted = {
        "directoryperdb": setting(settings, "storage.directoryPerDB"),
        "wiredTigerDirectoryForIndexes": setting(settings, f"{_ENGINE}.directoryForIndexes"),
        f"wiredTigerJournalCompressor={compressor}": compressor,
    }
    return [flag for flag, given in wanted.items() if given]


def _addresses(own: OwnPaths, shape: Shape) -> str:
    reached = [LOOPBACK, *([shape.host] if shape.host not in ("", LOOPBACK) else [])] if shape.port else []
    return ",".join([*reached, str(own.socket)])


def _replaying(shape: Shape) -> list[str]:
    parameters = {
        "recoverFromOplogAsStandalone": "true",
        "takeUnstableCheckpointOnShutdown": "true",
        # Appliers wait for each other at the end of each batch, which may take 100 MiB in any case.
        "replBatchLimitOperations": "50000",
    }
    if shape.workers:
        parameters["replWriterThreadCount"] = str(shape.workers)
    return [f"--setParameter={name}={value}" for name, value in parameters.items()]


def _serving(shape: Shape) -> list[str]:
    options = [f"--port={shape.port}"] if shape.port else []
    if shape.auth:
        # Whoever reaches the socket has to log in, as at the original.
        options.append("--filePermissions=0777")
    if shape.replica_set:
        options.append(f"--replSet={shape.replica_set}")
    if shape.role:
        options.append(f"--{shape.role}")
    if shape.read_only:
        options.append("--queryableBackupMode")
    return options
