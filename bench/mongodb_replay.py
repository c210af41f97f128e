"""Replay of an oplog measured against applyOps, which is how mongorestore and PBM replay one.

    python -m bench mongodb-replay [--entries 200000] [--rounds 3] [--server mongodb-6.0]

All replay the same oplog onto copies of the same cleanly stopped server, in turn, in one run. Of zbackup
all is timed that comes before handing over: starting two servers, merging the oplogs, the restart that
replays, the shutdown that makes it durable. Of applyOps nothing is timed but sending commands that were made
before, on a server that runs already, and one fsync: faster than any program can be that has to read the
oplog. mongorestore and Percona Backup for MongoDB send one entry in a command; here a thousand are sent, too.
The results are compared by dbHash with the original.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
from pymongo import InsertOne, UpdateOne

from bench import apply_ops
from bench.guest import end_in_order
from bench.quiet import Silent, quiet
from bench.report import circumstances, median, table, write
from tests.lab import servers
from tests.lab.mongo_fixture import MongoServer, MongoSettings, connect, dbhash, initiate
from tests.lab.server_user import SERVER_UID
from tests.lab.trusted import trusted
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.model.record import Record
from zbackup.model.recovery import RecoveryFiles, Serving
from zbackup.model.relocation import Relocation
from zbackup.model.target import Time
from zbackup.proc.detached import Process

SERVERS = ("mongodb-6.0",)
THREADS = 4
IN_ONE_COMMAND = 1000
CACHE = 1024**3


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A base, an oplog that goes on from it, and what the end must look like."""

    flavour: str
    work: Path
    original: MongoSettings
    version: str
    end: Any
    oplog: Path
    hashes: dict[str, str]


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m bench mongodb-replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--server", action="append", choices=SERVERS)
    options.add_argument("--entries", type=int, default=200_000)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--dry", action="store_true", help="print the table only")
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and put the table into the page."""
    said = parser().parse_args(argv)
    quiet()
    chosen = said.server or SERVERS
    servers.ensure(chosen)
    rows = [measure(flavour, said.entries, said.rounds) for flavour in chosen]
    head = ["server", "version", "zbackup", "applyOps", "/ zbackup", "in each round"]
    head += ["a thousand in one", "/ zbackup"]
    text = (
        f"{said.entries} entries, seconds, median of {said.rounds} rounds side by side\n\n{table(head, rows)}"
    )
    print(text)
    if not said.dry:
        write("mongodb-replay", f"{circumstances('python -m bench mongodb-replay')}; {text}")
    return 0


def measure(flavour: str, entries: int, rounds: int) -> list[str]:
    """One row of the table."""
    with tempfile.TemporaryDirectory(prefix="zbench-", ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        work.chmod(0o755)
        scene = prepare(flavour, work, entries)
        ours, theirs, batched = [], [], []
        for number in range(rounds):
            ours.append(by_zbackup(scene, number))
            theirs.append(by_apply_ops(scene, number, 1))
            batched.append(by_apply_ops(scene, number, IN_ONE_COMMAND))
            print(
                f"{flavour}: zbackup {ours[-1]:.2f} s, applyOps {theirs[-1]:.2f} s, "
                f"a thousand in one {batched[-1]:.2f} s",
                flush=True,
            )
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        return [
            flavour,
            scene.version,
            f"{median(ours):.2f}",
            f"{median(theirs):.2f}",
            f"{median(ratios):.2f}",
            ", ".join(f"{ratio:.2f}" for ratio in ratios),
            f"{median(batched):.2f}",
            f"{median([b / a for a, b in zip(ours, batched, strict=True)]):.2f}",
        ]


def prepare(flavour: str, work: Path, entries: int) -> Scene:
    settings = MongoSettings(
        flavour=flavour,
        datadir=work / "data",
        run_dir=work / "run",
        replica_set="bench",
        auth=False,
        oplog_mib=2000,
    )
    server = MongoServer(settings)
    with server:
        initiate([server])
        with server.client() as client:
            client.shop.items.create_index("k")
            newest = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
            version = client.server_info()["version"]
        server.stop()
    assert newest is not None
    keep(settings.datadir, work / "base")
    with server:
        write_entries(server, entries)
        with server.client() as client:
            hashes = dbhash(client)
            with (work / "oplog.bson").open("wb") as dumped:
                later: Any = client.local["oplog.rs"].find_raw_batches({"ts": {"$gt": newest["ts"]}})
                for batch in later:
                    dumped.write(batch)
        server.stop()
    keep(settings.datadir, work / "log")
    return Scene(
        flavour=flavour,
        work=work,
        original=settings,
        version=version,
        end=newest["ts"],
        oplog=work / "oplog.bson",
        hashes=hashes,
    )


def write_entries(server: MongoServer, entries: int) -> None:
    """Three inserts to an update, one document each and so one entry each, from several connections."""

    def one_writer(number: int) -> None:
        with server.client(retryWrites=False, w=1) as client:
            while not client.admin.command("hello")["isWritablePrimary"]:
                time.sleep(0.1)
            for begin in range(0, entries // THREADS, IN_ONE_COMMAND):
                client.shop.items.bulk_write(
                    [_written(number, n) for n in range(begin, begin + IN_ONE_COMMAND)], ordered=False
                )

    writers = [threading.Thread(target=one_writer, args=(number,)) for number in range(THREADS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()


def _written(writer: int, n: int) -> InsertOne[dict[str, Any]] | UpdateOne:
    if n % 4 == 3:
        return UpdateOne({"_id": f"{writer}.{n - 3}"}, {"$set": {"v": f"changed {n}"}})
    return InsertOne({"_id": f"{writer}.{n}", "k": n % 1000, "v": f"value {n} of this document"})


def by_zbackup(scene: Scene, number: int) -> float:
    """Seconds until the replayed data is on disk."""
    base, log = (_files(scene, name, number) for name in ("base", "log"))
    program = (str(trusted(scene.original.program)),)
    recovery = MongoRecovery(
        table=RecoveryTable.model_construct(server=program, memory=CACHE, workers=os.cpu_count() or 1)
    )
    clock = Silent()
    began = time.monotonic()
    recovery.recover(base, log, Time(datetime.now(UTC) + timedelta(seconds=1)), Serving(), clock)
    process = Process.parse(base.process.read_text())
    try:
        compare(scene, base.run / "mongod.sock")
    finally:
        process.stop(60)
        remove(scene.work / f"base{number}", scene.work / f"log{number}")
    return clock.began["handing over"] - began


def _files(scene: Scene, name: str, number: int) -> RecoveryFiles:
    where = scene.work / f"{name}{number}"
    keep(scene.work / name, where)
    home = scene.work / f"{name}{number}-home"
    home.mkdir()
    home.chmod(0o755)
    record = Record(
        backup=name,
        instance="bench",
        engine="mongodb",
        members=((str(scene.original.datadir), str(scene.original.datadir)),),
        taken=datetime.now(UTC),
        lock="none",
        server_uuid="bench",
        server_version=scene.version,
        server={"dbpath": str(scene.original.datadir)},
    )
    moves = ((str(scene.original.datadir), str(where)),)
    run = scene.work / f"{name}{number}-run"
    return RecoveryFiles(record=record, where=Relocation(moves), home=home, run=run, hide=())


def by_apply_ops(scene: Scene, number: int, in_one: int) -> float:
    """Seconds from the first command to the last answer."""
    target = _alone(scene, "base", number)
    with scene.oplog.open("rb") as entries:
        messages = apply_ops.commands(bson.decode_file_iter(entries), in_one)
    with target:
        _as_much_memory(target)
        began = time.monotonic()
        apply_ops.send(target.settings.socket, messages)
        with target.client() as client:
            client.admin.command("fsync")
        seconds = time.monotonic() - began
        compare(scene, target.settings.socket)
    remove(target.settings.datadir, target.settings.run_dir)
    return seconds


def _as_much_memory(server: MongoServer) -> None:
    """As zbackup gives its own."""
    with server.client() as client:
        client.admin.command("setParameter", 1, wiredTigerEngineRuntimeConfig=f"cache_size={CACHE}")


def _alone(scene: Scene, name: str, number: int) -> MongoServer:
    data = scene.work / f"apply-{name}{number}"
    keep(scene.work / name, data)
    run = scene.work / f"apply-{name}{number}-run"
    run.mkdir()
    shutil.chown(run, SERVER_UID, SERVER_UID)
    return MongoServer(
        MongoSettings(
            flavour=scene.flavour,
            datadir=data,
            run_dir=run,
            auth=False,
        )
    )


def compare(scene: Scene, socket: Path) -> None:
    with connect(socket) as client:
        found = dbhash(client)
    wanted = {name: value for name, value in scene.hashes.items() if name.startswith("shop.")}
    if {name: found.get(name) for name in wanted} != wanted:
        sys.exit(f"{scene.flavour}: at {socket} the data is not the original's")


def keep(source: Path, target: Path) -> None:
    """A copy that belongs to the user the server runs as."""
    shutil.copytree(source, target)
    subprocess.run(["chown", "-R", f"{SERVER_UID}:{SERVER_UID}", str(target)], check=True)


def remove(*directories: Path) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    end_in_order()
    sys.exit(main(sys.argv[1:]))
