"""A MySQL in memory on a clone's files: it applies what it is given as relay logs, and tells what it has.

It reads the files as an applier does, from the index that it was given, one event after the other.
"""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from zbackup.engines.mysql.binlog.reader import check_events, transactions
from zbackup.engines.mysql.clone.server_options import OwnPaths
from zbackup.engines.mysql.server.connection import StatementFailed
from zbackup.model.log import LogPosition
from zbackup.model.progress import Silent
from zbackup.model.recovery import RecoveryFiles, Serving

_FROM = re.compile(r"RELAY_LOG_FILE = '(?P<file>[^']+)', RELAY_LOG_POS = (?P<offset>\d+)")
_SETTING = re.compile(r"SET GLOBAL `?(\w+)`? = (.*)")
_EVENTS = "information_schema.EVENTS"
INT = {"name": "c", "kind": "int", "full": "int", "nullable": "YES", "digits": 10, "scale": 0}
"""A column as information_schema has it."""


@dataclass
class Notes(Silent):
    """What people are told."""

    notes: list[str] = field(default_factory=list)
    phases: list[tuple[str, str]] = field(default_factory=list)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def phase(self, name: str, detail: str = "") -> None:
        self.phases.append((name, detail))


@dataclass
class Applying:
    """`has` are the GTIDs that were applied, in order; of those in `empty` it has nothing but the name.

    `did` is all that was done to it, in order.
    """

    files: RecoveryFiles
    held: list[str] = field(default_factory=list)
    has: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    channels: list[str] = field(default_factory=list)
    prepared: Callable[["Applying"], list[str]] = lambda _: []
    events: list[str] = field(default_factory=list)
    files_read: list[Path] = field(default_factory=list)
    serving: Serving | None = None
    end: LogPosition | None = None
    error: str = ""
    beyond: bool = False
    """It does not stop where it was told to."""
    says: LogPosition | None = None
    """Where it says that it is, whatever it did."""
    flavor: str = "mysql"
    variables: dict[str, str] = field(default_factory=dict)
    """Its global variables; what is set is noted here."""
    columns: int = 0
    """How many each of its tables has; 0: it does not tell."""
    archived: int = 0
    """Its tables of the engine ARCHIVE."""
    fixed: tuple[str, ...] = ()
    """Those that cannot be set."""
    _next: str = ""
    _begin: tuple[str, int] = ("", 0)

    # as the server that is started on the files

    @property
    def own(self) -> OwnPaths:
        return OwnPaths(home=self.files.home, run=self.files.run)

    owner = (os.getuid(), os.getgid())

    def make_room(self) -> None:
        self.did.append("make room")
        self.own.relay.mkdir(exist_ok=True, parents=True)

    def forget_identity(self) -> None:
        self.did.append("forget identity")

    def name_log_files(self) -> None:
        self.did.append("name log files")

    def make_room_outside(self, directories: tuple[str, ...]) -> None:
        self.did.append(f"make room outside {' '.join(directories)}".rstrip())

    def serve(self, serving: Serving) -> None:
        self.did.append("serve")
        self.serving = serving

    @contextmanager
    def recovering(self, serving: Serving | None) -> Iterator[Any]:
        self.did.append("start")
        yield self._temporary()
        self.did.append("hand over")
        self.serving = serving

    @contextmanager
    def temporary(self, *, recovers: bool = False) -> Iterator[Any]:
        self.did.append("start")
        yield self._temporary()
        self.did.append("stop")

    def _temporary(self) -> Any:
        account = SimpleNamespace(
            user="u", password="p", drop_leftovers=lambda _: self.did.append("drop left accounts")
        )
        return SimpleNamespace(
            connection=self,
            server=self,
            process=None,
            account=account,
            progressing=self.progressing,
            hand_over=lambda: self.did.append("hand over"),
            discard=lambda: self.did.append("discard"),
        )

    @contextmanager
    def progressing(self) -> Iterator[Callable[[object], None]]:
        yield lambda _: None

    # as a connection

    version = "9.7.4"

    def execute(self, statement: str) -> None:
        self.did.append(statement)
        if found := _SETTING.fullmatch(statement):
            if found[1] in self.fixed:
                raise StatementFailed("it is a read only variable", 1238)
            self.variables[found[1]] = found[2].strip("'")
        elif found := _FROM.search(statement):
            place = found["file"], int(found["offset"])
            if statement.startswith("CHANGE REPLICATION"):
                self._begin = place
                self.channels.append("zbackup")
            else:
                self._apply(LogPosition.of(*place))
        elif statement.startswith("SET SESSION gtid_next = "):
            self._next = statement.partition("'")[2].rstrip("'")
        elif statement == "COMMIT":
            self.empty.append(self._next)
        elif statement.startswith("RESET REPLICA ALL FOR CHANNEL "):
            self.channels.remove(statement.rpartition(" ")[2].strip("'"))

    def _apply(self, until: LogPosition) -> None:
        assert self._next in ("", "AUTOMATIC"), "an applier has its own names, and this session has not"
        index = self.own.relay / "relay-zbackup.index"
        given = [Path(line) for line in index.read_text().splitlines()]
        file, offset = self._begin
        begin = next(number for number, path in enumerate(given) if str(path) == file)
        for path in given[begin:]:
            if LogPosition.of(path.name, 0).sequence > until.sequence:
                break
            self.files_read.append(path)
            start = offset if str(path) == file else 4
            for found in transactions(path, start=start):
                if found.end > until and not self.beyond:
                    break
                if found.gtid not in self.empty:
                    self.has.append(found.gtid)
            self.end = LogPosition.of(path.name, check_events(path, start=start))
            if self.end.offset < path.stat().st_size:
                self.error = f"{path.name} is torn at {self.end.offset}"
                return
        self.end = until if self.end and self.end > until and not self.beyond else self.end or until

    def one(self, statement: str) -> dict[str, Any]:
        there = [*self.held, *self.has, *self.empty]
        if found := re.search(r"GTID_SUBSET\('([^']*)', @@global.gtid_executed\)", statement):
            return {"there": int(found[1] in there)}
        if "ENGINE = 'ARCHIVE'" in statement:
            return {"n": self.archived}
        if statement == "SELECT @@global.gtid_executed AS gtid":
            return {"gtid": ",".join(there)}
        if "CONVERT_TZ" in statement:
            return {"offsets": " ".join(["3600"] * statement.count("CONVERT_TZ"))}
        raise AssertionError(statement)

    def rows(self, statement: str, _: object = ()) -> list[dict[str, Any]]:
        if statement == "SHOW GLOBAL VARIABLES":
            return [{"Variable_name": name, "Value": value} for name, value in self.variables.items()]
        if "information_schema.TABLES" in statement:
            return [{"kind": "BASE TABLE"}] if self.columns else [{"kind": "SEQUENCE"}]
        if "information_schema.COLUMNS" in statement:
            return [INT | {"name": f"c{place}"} for place in range(self.columns)]
        if "information_schema.COLLATION" in statement:
            return [{"ID": 8, "CHARACTER_SET_NAME": "latin1"}, {"ID": 63, "CHARACTER_SET_NAME": "binary"}]
        if "information_schema.STATISTICS" in statement:
            return []
        if statement == "SHOW REPLICA STATUS":
            return [self._channel(name) for name in self.channels]
        if statement.startswith("XA RECOVER"):
            return [
                {
                    "formatID": 1,
                    "gtrid_length": len(name),
                    "bqual_length": 0,
                    "data": "0x" + name.encode().hex(),
                }
                if "CONVERT" in statement
                else {"data": f"'{name}'"}
                for name in self.prepared(self)
            ]
        if _EVENTS in statement:
            return [{"s": "shop", "e": name} for name in self.events]
        if "replication_applier_status_by_worker" in statement:
            return []
        raise AssertionError(statement)

    def _channel(self, name: str) -> dict[str, Any]:
        end = self.says or self.end
        return {
            "Channel_Name": name,
            "Replica_SQL_Running": "No",
            "Replica_SQL_Running_State": "",
            "Relay_Log_File": end.file if end else "binlog.000001",
            "Relay_Log_Pos": end.offset if end else 4,
            "Last_SQL_Errno": 13 if self.error else 0,
            "Last_SQL_Error": self.error,
        }


def as_any(server: Applying) -> Any:
    """For what asks for a CloneServer or a Connection."""
    return cast(Any, server)
