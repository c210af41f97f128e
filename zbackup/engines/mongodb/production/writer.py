"""Writes to production, gently."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from bson.raw_bson import RawBSONDocument

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.server.connection import CommandRefused, Connection, Document, PrivilegeMissing
from zbackup.model.errors import DatabaseError
from zbackup.model.progress import Progress
from zbackup.model.table_name import TableName

MAJORITY = {"w": "majority", "wtimeout": 60_000}
WRITE_LIMIT_S = 600
INDEX_LIMIT_S = 7 * 86_400.0
ASK_EVERY_S = 1.0
KEEP_EVERY_S = 60.0


@dataclass(slots=True)
class Writer:
    """Writes to production, each time to a majority of its members, and waits while one lags.

    `keep` is called while it waits, for whatever is read meanwhile.
    """

    production: Connection
    progress: Progress
    rate: int = 0
    max_lag: float = 10.0
    sleep: Callable[[float], None] = time.sleep
    now: Callable[[], float] = time.monotonic
    keep: Callable[[], object] = lambda: None
    _kept: float = field(default=float("-inf"))
    _asked: float = field(default=float("-inf"))
    _since: float = 0.0
    _bytes: int = 0
    _told: set[str] = field(default_factory=set)

    def insert(
        self, name: TableName, documents: list[RawBSONDocument], *, ordered: bool = False
    ) -> list[Document]:
        """Insert them all, or with `ordered` up to the first that is refused; those that are refused come
        back as the server says why."""
        self.wait(sum(len(each.raw) for each in documents))
        errors: list[Document] = []
        before = 0
        for altered, group in groupby(documents, collections.has_empty_timestamp):
            alike = list(group)
            command = unaltered(name, alike) if altered else {"insert": name.table, "documents": alike}
            said = self.run(name, {**command, "ordered": ordered})
            errors += [{**each, "index": each["index"] + before} for each in said.get("writeErrors", ())]
            if errors and ordered:
                break
            before += len(alike)
        return errors

    def run(self, name: TableName, command: Mapping[str, Any], limit_s: float = WRITE_LIMIT_S) -> Document:
        """Raise CommandRefused when it did not reach a majority."""
        told = {**command, "writeConcern": MAJORITY}
        said = self.production.run(name.schema, told, limit_s=limit_s)
        if failed := said.get("writeConcernError"):
            raise CommandRefused(
                f"{name} was written, but not to a majority of the members: {failed.get('errmsg')}",
                int(failed.get("code", 0)),
            )
        return said

    def wait(self, size: int) -> None:
        """Return when `size` more bytes may be written."""
        if self.rate:
            now = self.now()
            self._since = self._since or now
            self._bytes += size
            if (ahead := self._bytes / self.rate - (now - self._since)) > 0:
                self._pause(ahead)
        if self.now() - self._asked < ASK_EVERY_S:
            return
        while (lag := self._lag()) > self.max_lag:
            self._tell(f"waiting: a member is {lag:.0f} s behind")
            self._pause(ASK_EVERY_S)
        self._asked = self.now()

    def _pause(self, seconds: float) -> None:
        """Sleep, and let nobody forget meanwhile that we are reading."""
        while seconds > 0:
            if self.now() - self._kept >= KEEP_EVERY_S:
                self.keep()
                self._kept = self.now()
            self.sleep(min(seconds, KEEP_EVERY_S))
            seconds -= KEEP_EVERY_S

    def _lag(self) -> float:
        try:
            status = self.production.command({"replSetGetStatus": 1})
        except PrivilegeMissing:
            self._tell("how far members lag is not known: the copy's account lacks clusterMonitor")
            return 0.0
        except DatabaseError:
            return 0.0  # no replica set
        return member_lag(status)

    def _tell(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.progress.note(text)


def unaltered(name: TableName, documents: list[RawBSONDocument]) -> dict[str, Any]:
    """An insert of exactly these documents; as with any insert, one that is there already is an error."""
    updates = [
        {
            "q": {"_id": {"$eq": each["_id"]}, "$nor": [{}]},
            "u": replacement(each),
            "upsert": True,
        }
        for each in documents
    ]
    return {"update": name.table, "updates": updates}


def replacement(document: RawBSONDocument) -> list[dict[str, Any]]:
    """An update to exactly this document: a plain one takes no fields that begin with $, and writes the time
    into empty timestamps."""
    return [{"$replaceWith": {"$literal": document}}]


def member_lag(status: Mapping[str, Any]) -> float:
    """Seconds by which the slowest member that answers and follows is behind the primary."""
    members = status.get("members", ())
    ahead = [m["optimeDate"] for m in members if m.get("stateStr") == "PRIMARY"]
    behind = [m["optimeDate"] for m in members if m.get("stateStr") == "SECONDARY" and m.get("health")]
    return max(((ahead[0] - each).total_seconds() for each in behind), default=0.0) if ahead else 0.0
