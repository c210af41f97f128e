"""A mongod in memory on a clone's files: it replays its oplog as one that is started alone to do that.

That drops what is behind the point up to which its oplog is sure, and applies what is behind its checkpoint.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import bson
from bson.timestamp import Timestamp

from zbackup.model.recovery import RecoveryFiles, Serving

_NUMBERS = itertools.count()


@dataclass
class Disk:
    """What is in the files. `tables` has the place of each write that is in them, in the order of writing.

    `checkpoint` is where they are, None where no checkpoint is. `indexes` are by collection, and the
    `unfinished` ones among them.
    """

    oplog: list[bytes] = field(default_factory=list)
    checkpoint: Timestamp | None = None
    tables: list[Timestamp] = field(default_factory=list)
    sure: Timestamp | None = None
    replica_set: str = "rs0"
    set_id: str = "65f0c0ffee"
    indexes: dict[str, list[str]] = field(default_factory=dict)
    unfinished: set[str] = field(default_factory=set)
    documents: dict[tuple[str, str], list[dict[str, Any]]] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)

    def copy(self) -> "Disk":
        return Disk(
            oplog=list(self.oplog),
            checkpoint=self.checkpoint,
            tables=list(self.tables),
            sure=self.sure,
            replica_set=self.replica_set,
            set_id=self.set_id,
            indexes={name: list(found) for name, found in self.indexes.items()},
            unfinished=set(self.unfinished),
            damaged=set(self.damaged),
            documents={name: list(found) for name, found in self.documents.items()},
        )

    def replay(self) -> None:
        if self.sure is not None:
            self.oplog = [each for each in self.oplog if place(each) <= self.sure]
            self.sure = None
        if self.checkpoint is None:
            return
        self.tables += [place(each) for each in self.oplog if place(each) > self.checkpoint]
        self.checkpoint = place(self.oplog[-1])


def place(data: bytes) -> Timestamp:
    found: Timestamp = bson.decode(data)["ts"]
    return found


_COMPARED = {
    "$ne": lambda a, b: a != b,
    "$gt": lambda a, b: a > b,
    "$gte": lambda a, b: a >= b,
    "$lt": lambda a, b: a < b,
    "$lte": lambda a, b: a <= b,
    "$in": lambda a, b: a in b,
    "$exists": lambda a, b: (a is not None) == b,
}


def matches(document: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """As the server looks at a document."""
    for name, asked in wanted.items():
        if name == "$or":
            if not any(matches(document, each) for each in asked):
                return False
            continue
        value: Any = document
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        asked = asked if isinstance(asked, dict) else {"$in": [asked]}
        if not all(_COMPARED[how](value, bound) for how, bound in asked.items()):
            return False
    return True


@dataclass
class Mongod:
    """`did` is all that was done to it, in order; `serving` as what it was started for its users."""

    files: RecoveryFiles
    disk: Disk
    stall: float = 600.0
    did: list[str] = field(default_factory=list)
    serving: list[Serving] = field(default_factory=list)
    asks_for_login: bool = False
    login: str = "original"
    by_socket: str = "by the socket"
    key: str = ""
    ends_replay_at: Timestamp | None = None
    begins_replay_at: Timestamp | None = None
    watched: int = 0
    patience: list[float] = field(default_factory=list)
    """For how long it may stand still while it starts for its users."""

    def by_key(self, key: str = "") -> str:
        return f"by the key {key}"

    def make_room(self) -> None:
        self.did.append("make room")

    def serve(self, serving: Serving) -> Any:
        assert self.disk.replica_set == "" or not serving.replica_set
        self.did.append("serve")
        self.serving.append(serving)
        self.patience.append(self.stall)
        return SimpleNamespace(close=lambda: self.did.append("close"))

    @contextmanager
    def temporary(self, purpose: str, *, disposable: bool = False) -> Iterator[Any]:
        self.did.append(f"start to {purpose}" + (", and throw away" if disposable else ""))
        begin = self.disk.checkpoint
        if purpose == "replay":
            self.disk.replay()
            if self.ends_replay_at:
                self.disk.oplog = [each for each in self.disk.oplog if place(each) <= self.ends_replay_at]
            begin = self.begins_replay_at or begin
        yield SimpleNamespace(
            connection=Session(self),
            process=SimpleNamespace(pid=next(_NUMBERS)),
            recovered_from=begin,
            server=self,
            login=SimpleNamespace(
                socket="/run/mongod.sock", user="", password=(lambda: self.key) if self.key else None
            ),
            progressing=self.progressing,
            shut_down=lambda: self.did.append("shut down"),
        )

    @contextmanager
    def progressing(self, *_: object) -> Iterator[None]:
        self.watched += 1
        try:
            yield
        finally:
            self.watched -= 1


@dataclass
class Session:
    """A connection to it."""

    mongod: Mongod

    @property
    def disk(self) -> Disk:
        return self.mongod.disk

    def close(self) -> None:
        self.mongod.did.append("leave")

    def _there(self, collection: tuple[str, str]) -> list[dict[str, Any]]:
        if collection == ("local", "oplog.rs"):
            codec = bson.CodecOptions(tz_aware=True)  # type: ignore[type-arg]
            return [bson.decode(each, codec) for each in self.disk.oplog]
        if collection == ("local", "replset.oplogTruncateAfterPoint"):
            return [{"_id": "oplogTruncateAfterPoint", "oplogTruncateAfterPoint": self.disk.sure}]
        if collection == ("local", "system.replset"):
            said = {"_id": self.disk.replica_set, "settings": {"replicaSetId": self.disk.set_id}}
            return [said] if self.disk.replica_set else []
        return self.disk.documents.get(collection, [])

    def find(
        self,
        collection: tuple[str, str],
        wanted: Mapping[str, Any],
        *,
        fields: Sequence[str] = (),
        backwards: bool = False,
        most: int = 1,
        limit_s: float | None = None,
    ) -> list[dict[str, Any]]:
        found = [each for each in self._there(collection) if matches(each, wanted)]
        return (found[::-1] if backwards else found)[:most]

    def in_order(self, collection: tuple[str, str], wanted: Mapping[str, Any], _: object) -> Iterator[Any]:
        yield from (each for each in self._there(collection) if matches(each, wanted))

    def raw_batches(self, _: object, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        found = [each for each in self.disk.oplog if matches(bson.decode(each, _AWARE), wanted)]
        yield b"".join(found[:3])
        yield b"".join(found[3:])

    def insert_raw(self, _: object, documents: Sequence[bytes]) -> None:
        known = set(map(place, self.disk.oplog))
        assert not known & set(map(place, documents)), "an entry is there twice"
        self.disk.oplog = sorted([*self.disk.oplog, *documents], key=place)

    def command(self, command: Mapping[str, Any]) -> dict[str, Any]:
        return self.run("admin", command)

    def run(self, database: str, command: Mapping[str, Any], *, limit_s: float = 0) -> dict[str, Any]:
        name = next(iter(command))
        if name == "listDatabases":
            names = {each.partition(".")[0] for each in self.disk.indexes} | {"local"}
            return {"databases": [{"name": each} for each in sorted(names)]}
        if name == "listCollections":
            assert database != "local" and command["filter"] == {"type": "collection"}
            held = [each.partition(".")[2] for each in self.disk.indexes if each.startswith(f"{database}.")]
            return {"cursor": {"id": 0, "firstBatch": [{"name": each} for each in held]}}
        if name == "listIndexes":
            held = self.disk.indexes[f"{database}.{command[name]}"]
            listed = [
                {"spec": {"name": each}, "buildUUID": 1} if each in self.disk.unfinished else {"name": each}
                for each in held
            ]
            return {"cursor": {"id": 0, "firstBatch": listed}}
        if name == "dropIndexes":
            self.disk.indexes[f"{database}.{command[name]}"].remove(command["index"])
        elif name == "update":
            (update,) = command["updates"]
            assert command[name] == "replset.oplogTruncateAfterPoint"
            self.disk.sure = update["u"]["$set"]["oplogTruncateAfterPoint"]
        elif name == "validate":
            return {"valid": f"{database}.{command[name]}" not in self.disk.damaged}
        elif name == "count":
            return {"n": len(self.find(("local", "oplog.rs"), command["query"], most=10**9))}
        elif name == "collStats":
            return {"size": sum(map(len, self.disk.oplog)), "maxSize": 990 << 20}
        elif name == "dropDatabase":
            assert database == "local"
            self.disk.oplog, self.disk.replica_set, self.disk.sure = [], "", None
        else:
            assert name in ("delete", "replSetResizeOplog"), command
        return {}


_AWARE: Any = bson.CodecOptions(tz_aware=True)
