"""MongoDB's disasters, and the ways back in turn: see bench.disaster, which starts this in a guest.

    python -m bench.disaster_mongodb FILE SERVER GIB ROUNDS TRANSACTIONS SCENE...

The oplog lies with the data, so that it is a later backup that leads from the base to the moment wanted.
"""

import json
import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import InsertOne, UpdateOne

from bench.disaster_mongodb_ways import (
    Scene,
    by_hand,
    by_pymongo,
    by_zbackup,
    newest_entry,
    take_dump,
    take_oplog,
)
from bench.disaster_taking import Take, add_costs, standstills, take_all
from bench.disaster_turns import Asked, Rows, Turn, asked_for, in_turn, noting
from bench.disaster_ways import APPLY_OPS, LARGEST_DUMP, PYMONGO, ZBACKUP
from bench.guest import end_in_order
from bench.quiet import quiet
from tests.lab.demo_mongodb import Stage, shop, stage

COLLECTIONS, PAD, BATCH = 4, 480, 1000
DOCUMENT = 512
"""Bytes that a document takes, with what is around those that pad it."""
DROPPED = "shop.c4"


def main(out: Path, server: str, asked: Asked) -> None:
    """Measure, and leave rows for bench.disaster in the file, each as soon as it is known."""
    quiet()
    end_in_order()
    rows: Rows = []
    note = noting(rows, server, asked.gib, out)
    with stage() as made:
        load(made, asked.gib)
        dump = dump_below(made.pool.dataset("others").mountpoint, asked.gib)
        ways_to_take = takes(made, dump)
        taking = "taking" in asked.scenes
        still = standstills(made, ways_to_take) if taking else {}
        take_all(ways_to_take, note if taking else lambda *_: None)
        scene = after(made, dump, asked.transactions)
        if "dropped" in asked.scenes:
            with made.server.client() as client:
                client.shop.drop_collection(DROPPED.partition(".")[2])
            in_turn(
                "dropped",
                turns(scene, "--before-drop", DROPPED, "--yes"),
                asked.rounds,
                note,
                once=frozenset({PYMONGO}),
            )
        if "destroyed" in asked.scenes:
            later = str(made.ask("snapshot")[0]["snapshot"]["name"])
            with gone(made):
                again = turns(scene.read_from(later), "--to-timestamp", scene.stop_words)
                in_turn("destroyed", again, asked.rounds, note, once=frozenset({PYMONGO}))
        if taking:
            add_costs(made, rows, still, partial(write, made, asked.transactions))
            out.write_text(json.dumps(rows))


def dump_below(others: Path, gib: float) -> Path | None:
    """Name the directory for a dump of that size, if one is taken."""
    return others / "dump" if gib <= LARGEST_DUMP else None


def takes(made: Stage, dump: Path | None) -> dict[str, Take]:
    """The backups that are taken; a dump if there is a place for one."""
    found: dict[str, Take] = {ZBACKUP: partial(_snapshot, made)}
    return found | ({PYMONGO: partial(take_dump, made, dump)} if dump else {})


def turns(scene: Scene, *words: str) -> dict[str, Turn]:
    """The ways back, from a dump if there is one; `words` are for zbackup."""
    found: dict[str, Turn] = {
        ZBACKUP: partial(by_zbackup, scene, words),
        APPLY_OPS: partial(by_hand, scene),
    }
    return found | ({PYMONGO: partial(by_pymongo, scene, scene.dump)} if scene.dump else {})


def load(made: Stage, gib: float) -> None:
    """Collections with an index, of what cannot be compressed; all of it in a checkpoint."""
    each = int(gib * (1 << 30) / COLLECTIONS / DOCUMENT)
    with made.server.client(w=1) as client:
        for number in range(1, COLLECTIONS + 1):
            collection = client.shop[f"c{number}"]
            collection.create_index("k")
            for begin in range(0, each, BATCH):
                numbers = range(begin, min(begin + BATCH, each))
                documents = [
                    {"_id": n, "k": random.randrange(1_000_000), "pad": os.urandom(PAD)} for n in numbers
                ]
                collection.insert_many(documents, ordered=False)
        client.shop.t.create_index("k")
        client.admin.command("fsync")


def write(made: Stage, transactions: int) -> None:
    """Small ones, three inserts to one update, each an entry of the oplog."""
    with made.server.client(w=1, retryWrites=False) as client:
        newest = client.shop.t.find_one(sort=[("_id", -1)])
        first = newest["_id"] + 1 if newest else 0
        client.shop.t.bulk_write([_written(first, n) for n in range(transactions)])


def _written(first: int, n: int) -> InsertOne[dict[str, Any]] | UpdateOne:
    if n % 4 == 3:
        return UpdateOne({"_id": first + n - 1}, {"$set": {"v": f"changed {n}"}})
    return InsertOne({"_id": first + n, "k": n, "v": f"value {n} of this document"})


def _snapshot(made: Stage) -> int:
    made.ask("snapshot")
    return 0


def after(made: Stage, dump: Path | None, transactions: int) -> Scene:
    """Small transactions since the newest base, and what has to be there in the end."""
    base = str(made.ask("list")[0]["backups"][-1]["name"])
    write(made, transactions)
    with made.server.client() as client:
        wanted, last = shop(client), newest_entry(client)
        if dump:
            take_oplog(client, dump, last)
        # Not wanted any more, so that the log goes on behind the moment.
        client.behind.t.insert_one({})
    return Scene(made=made, base=base, last=last, dump=dump, wanted=wanted)


@contextmanager
def gone(made: Stage) -> Iterator[None]:
    """Without the server, and without its files."""
    data = made.server.settings.datadir
    made.server.kill()
    data.rename(data.with_name("gone"))
    yield
    data.with_name("gone").rename(data)
    made.server.start()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], asked_for(sys.argv[3:]))
