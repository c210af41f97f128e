"""The ways back of a MongoDB that are measured beside each other.

mongodump and mongorestore cannot be had where the lab gets its servers, so pymongo does what they do: it
writes and reads collections as raw BSON, a thousand documents in a command, each collection in a thread of
its own, makes indexes at the end, and sends the oplog with applyOps, one entry in a command.
"""

import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp

from bench import apply_ops
from bench.disaster_turns import Spent, Stopwatch, size_of
from bench.disaster_ways import zbackup
from tests.lab.demo_mongodb import Stage, shop
from tests.lab.mongo_fixture import ADMIN, ADMIN_PASSWORD, Client, MongoServer, MongoSettings, connect
from tests.lab.pool import run
from tests.lab.server_user import SERVER_UID

RECOVERS = tuple(
    f"--setParameter={name}=true"
    for name in ("recoverFromOplogAsStandalone", "takeUnstableCheckpointOnShutdown")
)
"""A member's files without its set: replays its own oplog, and keeps what came of it."""
OPLOG = "oplog"
AT_ONCE = 1000
RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A server with a base and what was written since; what a server has to hold that was brought back.

    `last` is the oplog's last entry that is wanted, `dump` where the dump is if one was taken. The oplog is
    read from the snapshot `later`, or where that is "" from one that is taken for it.
    """

    made: Stage
    base: str
    last: Timestamp
    dump: Path | None
    wanted: Mapping[str, str]
    later: str = ""

    def read_from(self, later: str) -> "Scene":
        """The same with the oplog of that snapshot."""
        return replace(self, later=later)

    @property
    def stop_words(self) -> str:
        """The first cluster time that is not wanted any more, as commands take it."""
        return f"{self.last.time},{self.last.inc + 1}"


def newest_entry(client: Client) -> Timestamp:
    """The cluster time of the oplog's last entry."""
    entry = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
    assert entry is not None
    found: Timestamp = entry["ts"]
    return found


def by_zbackup(scene: Scene, words: tuple[str, ...], name: str) -> Spent:
    """The command of a user with these words, and a query."""
    made = scene.made
    watch = Stopwatch()
    zbackup(made, "restore", *words, "--name", name)
    socket = made.home / "zbackup" / name / "mongod.sock"
    with connect(socket, username=ADMIN, password=ADMIN_PASSWORD) as client:
        ask(client)
        spent = watch.spent()
        compare(scene, client)
    zbackup(made, "clone", "destroy", name, "--yes")
    return spent


def by_hand(scene: Scene, name: str) -> Spent:
    """zfs clone of base and log, a server on each, and the entries of the one sent to the other."""
    data, pool = scene.made.pool.data.name, scene.made.pool.name
    with _home(scene, name) as home:
        watch = Stopwatch()
        later = scene.later or name
        if not scene.later:
            run("zfs", "snapshot", f"{data}@{name}")
        for part, snapshot in (("base", scene.base), ("log", later)):
            place = f"mountpoint={home / part}"
            run("zfs", "clone", "-o", place, f"{data}@{snapshot}", f"{pool}/{name}-{part}")
        with MongoServer(_settings(scene, home, "base", *RECOVERS)) as recovering:
            recovering.stop(timeout=600)
        base, log = (MongoServer(_settings(scene, home, part)) for part in ("base", "log"))
        with base, log, base.client() as target, log.client() as source:
            entries = list(_entries(source, newest_entry(target), scene.last))
            apply_ops.send(base.settings.socket, apply_ops.commands(entries, 1))
            ask(target)
            spent = watch.spent()
            compare(scene, target)
        for part in ("base", "log"):
            run("zfs", "destroy", f"{pool}/{name}-{part}")
        if not scene.later:
            run("zfs", "destroy", f"{data}@{name}")
        return spent


def take_dump(made: Stage, where: Path) -> int:
    """All collections of the shop, after the oplog's place at their beginning. Returns its size in bytes."""
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir()
    with made.server.client() as client:
        begin = newest_entry(client)
        (where / "begin").write_bytes(bson.encode({"ts": begin}))
        for name in client.shop.list_collection_names():
            with (where / f"{name}.bson").open("wb") as sink:
                batches: Any = client.shop[name].find_raw_batches()
                for batch in batches:
                    sink.write(batch)
    return size_of(where)


def take_oplog(client: Client, where: Path, last: Timestamp) -> None:
    """The oplog since the dump began, as if it had been stored while it was written."""
    begin: Timestamp = bson.decode((where / "begin").read_bytes())["ts"]
    with (where / OPLOG).open("wb") as sink:
        for entry in _entries(client, begin, last):
            sink.write(bson.encode(entry))


def by_pymongo(scene: Scene, dump: Path, name: str) -> Spent:
    """The dump into a new server, indexes, and the oplog."""
    with _home(scene, name, "files") as home:
        watch = Stopwatch()
        with MongoServer(_settings(scene, home, "files")) as server, server.client() as client:
            files = sorted(dump.glob("*.bson"))
            workers = [threading.Thread(target=_load, args=(client, file)) for file in files]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            with (dump / OPLOG).open("rb") as entries:
                messages = apply_ops.commands(bson.decode_file_iter(entries), 1)
            apply_ops.send(server.settings.socket, messages)
            ask(client)
            spent = watch.spent()
            compare(scene, client)
        run("zfs", "destroy", f"{scene.made.pool.name}/{name}-files")
        return spent


def _load(client: Client, file: Path) -> None:
    collection = client.shop.get_collection(file.stem, codec_options=RAW)
    with file.open("rb") as source:
        documents = bson.decode_file_iter(source, RAW)
        while batch := list(islice(documents, AT_ONCE)):
            collection.insert_many(batch, ordered=False)
    client.shop[file.stem].create_index("k")


def _entries(client: Client, begin: Timestamp, last: Timestamp) -> Iterator[dict[str, Any]]:
    """Read the oplog's entries after `begin`, up to `last` and with it."""
    yield from client.local["oplog.rs"].find({"ts": {"$gt": begin, "$lte": last}})


def ask(client: Client) -> None:
    """The first question of a user."""
    client.shop.t.count_documents({})


def compare(scene: Scene, client: Client) -> None:
    """Ends with a message unless the server holds what it has to."""
    if (found := shop(client)) != scene.wanted:
        sys.exit(f"the collections have hashes {found}, not {scene.wanted}")


def _settings(scene: Scene, home: Path, part: str, *options: str) -> MongoSettings:
    """Those of a server alone, without logins, on files below `home`."""
    original = scene.made.server.settings
    datadir = home / part / ("db" if part == "files" else original.datadir.name)
    run_dir = home / f"{part}.run"
    run_dir.mkdir(exist_ok=True)
    shutil.chown(run_dir, SERVER_UID, SERVER_UID)
    return MongoSettings(
        flavour=original.flavour, datadir=datadir, run_dir=run_dir, auth=False, options=options
    )


@contextmanager
def _home(scene: Scene, name: str, dataset: str = "") -> Iterator[Path]:
    """A directory, and a dataset mounted in it if one is named."""
    home = scene.made.home / name
    home.mkdir()
    if dataset:
        run("zfs", "create", "-o", f"mountpoint={home / dataset}", f"{scene.made.pool.name}/{name}-{dataset}")
    yield home
    shutil.rmtree(home, ignore_errors=True)
