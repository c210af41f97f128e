"""The whole story on real ZFS with a real server: a table is dropped under load, and it is back.

    tests/lab/lab run --disk 4G -- .venv/bin/python -m tests.lab.demo [--flavour mariadb-11.8]

Exit status 0 when all of it was proven, 1 when anything was not as it must be.
"""

import argparse
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pymysql

from tests.lab import servers
from tests.lab.demo_stage import CLONE, NotProven, Stage, say, stage
from tests.lab.load import Load, LoadFailed, verify
from tests.lab.load_journal import nanoseconds, read, summarise
from tests.lab.mysql_fixture import FLAVOURS, DatabaseServer, ServerFailed
from tests.lab.pool import PoolError

ZONE = ZoneInfo("Europe/Berlin")
TABLES = ("shop.customers", "shop.orders")
TRANSACTIONS_A_SECOND = 50.0
ORDER = "INSERT INTO shop.orders (customer_id, amount, state, placed) VALUES (%s, %s, 'new', NOW())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """The moment to come back to, and what the tables' checksums were at it."""

    at: datetime
    checksums: dict[str, int | None]


def title(text: str) -> None:
    say(f"\n=== {text}")


@contextmanager
def no_clone_left(made: Stage) -> Iterator[None]:
    """Whatever happened, no server stays on the pool."""
    try:
        yield
    finally:
        for clone in made.ask("clone", "list"):
            made.zbackup("clone", "destroy", clone["name"], "--yes")


def snapshot(made: Stage, load: Load) -> None:
    """Take one, and say how long the lock was held and what the writers saw of it."""
    before = datetime.now(UTC)
    made.zbackup("snapshot")
    taken = made.ask("list")[0]["backups"][-1]
    asked = datetime.fromisoformat(taken["taken"])
    quiet = _longest_stall(load, before - timedelta(seconds=2), before)
    around = _longest_stall(load, asked - timedelta(seconds=0.5), asked + timedelta(seconds=1.5))
    say(
        f"  lock {taken['lock']} was held for {taken['lock_held_ms']} ms; longest time without an answer to "
        f"any writer: {around:.0f} ms around the snapshot, {quiet:.0f} ms in the 2 s before"
    )


def _longest_stall(load: Load, begin: datetime, end: datetime) -> float:
    first, last = nanoseconds(begin), nanoseconds(end)
    within = [e for e in read(load.journal) if e.acked is not None and first <= e.acked <= last]
    return summarise(within).stall


def remember(server: DatabaseServer) -> Remembered:
    """Now: checksums of the shop's tables, which only this story writes to, and the time."""
    checksums = server.checksum(TABLES)
    at = datetime.now(UTC)
    if server.settings.kind == "mariadb":
        # Its log knows whole seconds only, so a moment between two of them cannot be told from the earlier.
        at = at.replace(microsecond=0) + timedelta(seconds=1)
        time.sleep((at - datetime.now(UTC)).total_seconds())
    return Remembered(at=at, checksums=checksums)


def work(server: DatabaseServer, first: int, orders: int) -> None:
    """Orders come in."""
    for number in range(first, first + orders):
        server.sql(ORDER, (1 + number % 1000, number))


def accident(server: DatabaseServer) -> None:
    """What must not be there afterwards: later orders, a wrong update, and the drop."""
    work(server, 1000, 20)
    server.sql("UPDATE shop.customers SET name = 'oops'")
    say("\nmysql> DROP TABLE shop.orders;")
    server.sql("DROP TABLE shop.orders")


def prove(made: Stage, remembered: Remembered, load: Load) -> None:
    """Compare the recovered server with what was remembered and journalled. Raises NotProven."""
    connection = pymysql.connect(unix_socket=str(made.clone_socket), user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {', '.join(TABLES)}")
        found = dict(cursor.fetchall())
        for table in TABLES:
            then, now = remembered.checksums[table], found.get(table)
            equal = now is not None and then == now
            say(f"  checksum of {table:<14}  then {then}, now {now}: {'equal' if equal else 'DIFFERENT'}")
            if not equal:
                raise NotProven(f"{table} is not what it was")
        try:
            verdict = verify(connection, load.journal, remembered.at)
        except AssertionError as wrong:
            raise NotProven(str(wrong)) from wrong
    moment = nanoseconds(remembered.at)
    later = sum(entry.sent >= moment for entry in read(load.journal))
    say(f"  journal of the write load, row by row, {verdict.present} transactions recovered:")
    say(f"    {verdict.required} were acknowledged before the moment: all are there")
    say(f"    {verdict.undecided} were under way at the moment: each is there entirely or not at all")
    say(f"    {later} were sent at it or later: none is there")


def bring_back(made: Stage, remembered: Remembered) -> None:
    """Copy the dropped table from the recovered server into the one that lost it."""
    dump = ["mysqldump", "--set-gtid-purged=OFF"] if made.kind == "mysql" else ["mariadb-dump"]
    dump += [f"--socket={made.clone_socket}", "--user=root", "shop", "orders"]
    load = ["mysql" if made.kind == "mysql" else "mariadb"]
    load += [f"--socket={made.server.settings.socket}", "--user=root", "shop"]
    say(f"\n$ {shlex.join(dump)} | {shlex.join(load)}")
    table = subprocess.run(made.installed(dump), stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(made.installed(load), input=table, check=True)
    if made.server.checksum(["shop.orders"]) != {"shop.orders": remembered.checksums["shop.orders"]}:
        raise NotProven("shop.orders in production is not what it was")
    say("  shop.orders is back in production, with the checksum it had")


def tell(made: Stage) -> None:
    """The story. Raises NotProven."""
    title("Is everything set up for a backup that can be restored?")
    made.zbackup("check")
    with Load.start(made.server, rate=TRANSACTIONS_A_SECOND) as load, no_clone_left(made):
        title(f"Consistent snapshots under a write load of {TRANSACTIONS_A_SECOND:.0f} transactions a second")
        time.sleep(2)
        snapshot(made, load)
        say('\nThe same with the strictest lock there is (lock = "ftwrl" in the configuration):')
        made.configure("ftwrl")
        snapshot(made, load)

        title("Orders come in; then somebody makes a mistake")
        work(made.server, 0, 30)
        remembered = remember(made.server)
        local = remembered.at.astimezone(ZONE).replace(tzinfo=None).isoformat(" ")
        say(f"remembered: at {local} ({ZONE.key}) all was well; then 20 more orders, a wrong update, and")
        accident(made.server)

        title("Back to the moment before, beside the server, which keeps serving its writers")
        made.zbackup("restore", "--to", local, "--name", CLONE)
        made.zbackup("clone", "list")
        summary = load.stop()
        if load.messages:
            raise NotProven(f"production did not keep serving its writers: {load.messages}")
        say(f"\nthe writers had {summary.transactions} transactions answered meanwhile, without an error")

        title("Proof")
        prove(made, remembered, load)
        title("And back into production")
        bring_back(made, remembered)
        title("Clean up")
    say(f"\nPROVEN: everything committed before {local} is back, and nothing later is.")


def main(arguments: list[str]) -> int:
    """Tell the story; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.demo", description=__doc__.splitlines()[0])
    parser.add_argument("--flavour", choices=FLAVOURS, default=FLAVOURS[0], help="which server to show")
    flavour = parser.parse_args(arguments).flavour
    began = time.monotonic()
    try:
        with stage(flavour) as made:
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
    sys.exit(main(sys.argv[1:]))
