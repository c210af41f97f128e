"""The story of a dropped collection, on real ZFS with a real mongod under load.

    tests/lab/lab run --disk 4G -- .venv/bin/python -m tests.lab.demo_mongodb

Exit status 0 when all of it was proven, 1 when anything was not as it must be.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from tests.lab import mongo_load, servers
from tests.lab.demo_stage import CLONE, NotProven, Zbackup, say
from tests.lab.load import Load, LoadFailed
from tests.lab.mongo_fixture import (
    ADMIN,
    ADMIN_PASSWORD,
    ZBACKUP_PASSWORD,
    ZBACKUP_USER,
    Client,
    MongoServer,
    MongoSettings,
    connect,
    dbhash,
    start_single,
)
from tests.lab.mysql_fixture import ServerFailed
from tests.lab.pool import PoolError, create_pool
from tests.lab.trusted import trusted

FLAVOUR = "mongodb-6.0"
ZONE = ZoneInfo("Europe/Berlin")
RATE = 40.0
CONFIG = """\
timezone = "Europe/Berlin"
run_dir = "{home}/zbackup"

[instance.shop]
engine = "mongodb"
datasets = ["{dataset}"]
socket = "{socket}"
user = "{user}"
password = {{ file = "{home}/password" }}
lock = "{lock}"

[instance.shop.recovery]
mountpoint = "{home}/clones"
server = "{program}"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(Zbackup):
    """A pool, a mongod on it, and a configuration for zbackup."""

    server: MongoServer
    kind = "mongodb"

    def configure(self, lock: str) -> None:
        """Write zbackup's configuration."""
        settings = self.server.settings
        text = CONFIG.format(
            home=self.home,
            dataset=self.pool.data.name,
            socket=settings.socket,
            user=ZBACKUP_USER,
            lock=lock,
            program=trusted(settings.program),
        )
        (self.home / "zbackup.toml").write_text(text)

    def clone(self) -> Client:
        """A client of the recovered server, with the account that the original had."""
        socket = self.home / "zbackup" / CLONE / "mongod.sock"
        return connect(socket, username=ADMIN, password=ADMIN_PASSWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The moment to come back to, and dbHash of the shop's collections at it."""

    at: datetime
    hashes: dict[str, str]


def title(text: str) -> None:
    say(f"\n=== {text}")


@contextmanager
def stage() -> Iterator[Stage]:
    """A pool of its own, a server on it, all gone afterwards."""
    pool = create_pool()
    try:
        settings = MongoSettings(
            flavour=FLAVOUR,
            datadir=pool.data.mountpoint / "data",
            run_dir=pool.home / "run",
            replica_set="shop",
        )
        with start_single(settings) as server:
            secret = pool.home / "password"
            secret.touch(mode=0o600)
            secret.write_text(ZBACKUP_PASSWORD)
            made = Stage(pool=pool, server=server)
            made.configure("auto")
            say(f"{FLAVOUR} runs on the dataset {pool.data.name!r}")
            yield made
    finally:
        pool.destroy()


def shop(client: Client) -> dict[str, str]:
    """dbHash of the shop's collections, which only this story writes to."""
    return {name: value for name, value in dbhash(client).items() if name.startswith("shop.")}


def orders(client: Client, first: int, count: int) -> None:
    """Orders come in, each with what it takes from the stock, in one transaction."""
    for number in range(first, first + count):
        with client.start_session() as session, session.start_transaction():
            client.shop.orders.insert_one({"_id": number, "item": number % 10}, session=session)
            client.shop.stock.update_one({"_id": number % 10}, {"$inc": {"left": -1}}, session=session)


def remember(client: Client) -> Remembered:
    """Now, in whole milliseconds, which is what an oplog knows; later entries have a later one."""
    hashes = shop(client)
    now = datetime.now(UTC)
    time.sleep(0.05)
    at = now.replace(microsecond=now.microsecond // 1000 * 1000)
    return Remembered(at=at, hashes=hashes)


def accident(client: Client) -> None:
    """What must not be there afterwards: later orders, a wrong update, and the drop."""
    orders(client, 1000, 20)
    client.shop.stock.update_many({}, {"$set": {"left": "oops"}})
    say("\nshop> db.orders.drop()")
    client.shop.orders.drop()


def prove(made: Stage, remembered: Remembered, load: Load) -> None:
    """Compare the recovered server with what was remembered and journalled. Raises NotProven."""
    with made.clone() as client:
        found = shop(client)
        for name, then in remembered.hashes.items():
            now = found.get(name)
            say(f"  dbHash of {name:<12}  then {then}, now {now}: {'equal' if now == then else 'DIFFERENT'}")
        if found != remembered.hashes:
            raise NotProven("the shop is not what it was")
        try:
            verdict = mongo_load.verify(client, load.journal, remembered.at)
        except AssertionError as wrong:
            raise NotProven(str(wrong)) from wrong
    say(f"  journal of the write load, document by document, {verdict.present} transactions recovered:")
    say(f"    {verdict.required} were acknowledged before the moment: all are there")
    say(f"    {verdict.undecided} were under way at the moment: each is there entirely or not at all")


def bring_back(made: Stage, client: Client, remembered: Remembered) -> None:
    """Copy the dropped collection from the recovered server into the one that lost it."""
    with made.clone() as recovered:
        copied: list[dict[str, Any]] = list(recovered.shop.orders.find())
    client.shop.orders.insert_many(copied)
    if shop(client)["shop.orders"] != remembered.hashes["shop.orders"]:
        raise NotProven("shop.orders in production is not what it was")
    say(f"  {len(copied)} orders are back in production, with the dbHash they had")


def tell(made: Stage) -> None:
    """The story. Raises NotProven."""
    title("Is everything set up for a backup that can be restored?")
    made.zbackup("check")
    with made.server.client() as client, mongo_load.start(made.server, rate=RATE) as load:
        client.shop.stock.insert_many([{"_id": item, "left": 1000} for item in range(10)])
        try:
            title(f"A consistent snapshot under a write load of {RATE:.0f} transactions a second")
            time.sleep(2)
            made.zbackup("snapshot")

            title("Orders come in; then somebody makes a mistake")
            orders(client, 0, 30)
            remembered = remember(client)
            local = remembered.at.astimezone(ZONE).replace(tzinfo=None).isoformat(" ")
            say(f"remembered: at {local} ({ZONE.key}) all was well; then 20 more orders, a wrong update, and")
            accident(client)

            title("Back to the moment before, beside the server, which keeps serving its writers")
            made.zbackup("restore", "--to", local, "--name", CLONE)
            made.zbackup("clone", "list")
            load.stop()
            if load.messages:
                raise NotProven(f"production did not keep serving its writers: {load.messages}")

            title("Proof")
            prove(made, remembered, load)
            title("And back into production")
            bring_back(made, client, remembered)
            title("Clean up")
        finally:
            for clone in made.ask("clone", "list"):
                made.zbackup("clone", "destroy", clone["name"], "--yes")
    say(f"\nPROVEN: everything committed before {local} is back, and nothing later is.")


def main() -> int:
    """Tell the story; returns the exit status."""
    began = time.monotonic()
    try:
        with stage() as made:
            tell(made)
    except NotProven as wrong:
        say(f"\nNOT PROVEN: {wrong}")
        return 1
    except (servers.ServerUnavailable, ServerFailed, PoolError, LoadFailed) as trouble:
        say(f"\nthe demonstration cannot be shown: {trouble}")
        return 1
    say(f"({time.monotonic() - began:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
