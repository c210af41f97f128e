"""The story of a dropped collection, on real ZFS with a real mongod under load.

    tests/lab/lab run --disk 4G -- .venv/bin/python -m tests.lab.demo_mongodb

Exit status 0 when all of it was proven, 1 when anything was not as it must be.
"""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

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
from zbackup.engines.mongodb.production.account import ROLES

FLAVOUR = "mongodb-6.0"
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

[instance.shop.copy_back]
user = "copier"
password = {{ file = "{home}/password" }}

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
class Lost:
    """The shop's dbHash before the drop, and between which moments the drop came about."""

    hashes: dict[str, str]
    sent: datetime
    answered: datetime


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
            with server.client() as client:
                roles = [{"role": role, "db": "shop"} for role in ROLES]
                client.admin.command({"createUser": "copier", "pwd": ZBACKUP_PASSWORD, "roles": roles})
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


def accident(client: Client) -> Lost:
    """The collection goes, while others write."""
    hashes = shop(client)
    sent = datetime.now(UTC)
    say("\nshop> db.orders.drop()")
    client.shop.orders.drop()
    return Lost(hashes=hashes, sent=sent, answered=datetime.now(UTC))


def prove(made: Stage, client: Client, lost: Lost, load: Load) -> None:
    """Compare production's collection, and the recovered server, with what was there. Raises NotProven."""
    _compare("production", lost.hashes, {"shop.orders": shop(client).get("shop.orders")})
    with made.clone() as recovered:
        found = shop(recovered)
        _compare("recovered server", lost.hashes, {name: found.get(name) for name in lost.hashes})
        try:
            verdict = mongo_load.verify(recovered, load.journal, lost.sent, lost.answered)
        except AssertionError as wrong:
            raise NotProven(str(wrong)) from wrong
    say(f"  journal of the write load, by document, {verdict.present} transactions in the recovered server:")
    say(f"    {verdict.required} were acknowledged before the drop: all are there")
    say(f"    {verdict.undecided} were under way beside it: each is there entirely or not at all")


def _compare(where: str, then: dict[str, str], now: Mapping[str, str | None]) -> None:
    for name, found in now.items():
        equal = found == then[name]
        say(f"  {where}: dbHash of {name} then {then[name]}, now {found}: {'equal' if equal else 'OTHER'}")
        if not equal:
            raise NotProven(f"{name} is not what it was ({where})")


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
            lost = accident(client)

            title("What happened?")
            made.zbackup("log", "shop", "--table", "shop.orders", "--since", "-1m", "--kind", "drop")

            title("The collection is back, and production keeps serving its writers")
            made.zbackup("restore", "shop", "--before-drop", "shop.orders", "--name", CLONE, "--yes")
            made.zbackup("copy", CLONE, "shop.orders")
            load.stop()
            if load.messages:
                raise NotProven(f"production did not keep serving its writers: {load.messages}")

            title("Proof")
            prove(made, client, lost, load)
            title("Clean up")
        finally:
            for clone in made.ask("clone", "list"):
                made.zbackup("clone", "destroy", clone["name"], "--yes")
    say("\nPROVEN: shop.orders is back in production, as it was when it was dropped.")


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
