"""The whole story on real ZFS with a real server: a table is dropped under load, and it is back.

    tests/lab/lab run --disk 4G -- .venv/bin/python -m tests.lab.demo [--flavour mariadb-11.8]

Exit status 0 when all of it was proven, 1 when anything was not as it must be.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pymysql

from tests.lab import servers
from tests.lab.demo_stage import CLONE, NotProven, Stage, say, stage
from tests.lab.load import Load, LoadFailed, verify
from tests.lab.load_journal import nanoseconds, read, summarise
from tests.lab.mysql_fixture import FLAVOURS, DatabaseServer, ServerFailed
from tests.lab.pool import PoolError

TABLES = ("shop.customers", "shop.orders")
TRANSACTIONS_A_SECOND = 50.0
ORDER = "INSERT INTO shop.orders (customer_id, amount, state, placed) VALUES (%s, %s, 'new', NOW())"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """What the tables' checksums were before the drop, and between which moments the drop came about."""

    checksums: dict[str, int | None]
    sent: datetime
    answered: datetime


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


def work(server: DatabaseServer, first: int, orders: int) -> None:
    """Orders come in."""
    for number in range(first, first + orders):
        server.sql(ORDER, (1 + number % 1000, number))


def accident(server: DatabaseServer) -> Lost:
    """The table goes, while others write."""
    checksums = server.checksum(TABLES)
    sent = datetime.now(UTC)
    say("\nmysql> DROP TABLE shop.orders;")
    server.sql("DROP TABLE shop.orders")
    return Lost(checksums=checksums, sent=sent, answered=datetime.now(UTC))


def prove(made: Stage, lost: Lost, load: Load) -> None:
    """Compare production's table, and the recovered server, with what was there. Raises NotProven."""
    _compare("production", lost.checksums, made.server.checksum(["shop.orders"]))
    connection = pymysql.connect(unix_socket=str(made.clone_socket), user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"CHECKSUM TABLE {', '.join(TABLES)}")
        _compare("recovered server", lost.checksums, dict(cursor.fetchall()))
        try:
            verdict = verify(connection, load.journal, lost.sent, lost.answered)
        except AssertionError as wrong:
            raise NotProven(str(wrong)) from wrong
    moment = nanoseconds(lost.answered)
    later = sum(entry.sent >= moment for entry in read(load.journal))
    say(f"  journal of the write load, row by row, {verdict.present} transactions in the recovered server:")
    say(f"    {verdict.required} were acknowledged before the drop: all are there")
    say(f"    {verdict.undecided} were under way beside it: each is there entirely or not at all")
    say(f"    {later} were sent after it: none is there")


def _compare(where: str, then: dict[str, int | None], now: dict[str, int | None]) -> None:
    for table, found in now.items():
        equal = found is not None and found == then[table]
        say(f"  {where}: {table} had checksum {then[table]}, now {found}: {'equal' if equal else 'OTHER'}")
        if not equal:
            raise NotProven(f"{table} is not what it was ({where})")


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
        lost = accident(made.server)

        title("What happened?")
        made.zbackup("log", "shop", "--table", "shop.orders", "--since", "-1m", "--kind", "drop")

        title("The table is back, and production keeps serving its writers")
        made.zbackup("restore", "shop", "--before-drop", "shop.orders", "--name", CLONE, "--yes")
        made.zbackup("copy", CLONE, "shop.orders")
        summary = load.stop()
        if load.messages:
            raise NotProven(f"production did not keep serving its writers: {load.messages}")
        say(f"\nthe writers had {summary.transactions} transactions answered meanwhile, without an error")

        title("Proof")
        prove(made, lost, load)
        title("Clean up")
    say("\nPROVEN: shop.orders is back in production, as it was when it was dropped.")


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
