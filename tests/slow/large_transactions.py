"""Transactions of more than 1 GiB of row events, told once for each kind of server.

They exceed every buffer on the way: the binlog cache, an applier's queue, the size at which a log file ends.
"""

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.lab.pool import Pool
from tests.lab.server_user import SERVER_UID
from tests.lab.variants import Variant
from tests.system.house import House, build, checksums, next_second, utc

ROWS, ROW = 1100, 1 << 20


@pytest.fixture(scope="module")
def house(pool: Pool, variant: Variant) -> Iterator[House]:
    """A server whose temporary files, where a large transaction is kept until its commit, are on the pool."""
    scratch = pool.data.mountpoint / "scratch"
    scratch.mkdir()
    os.chown(scratch, SERVER_UID, SERVER_UID)
    options = (f"--tmpdir={scratch}", "--max-allowed-packet=64M", *variant.options)
    server = build(pool, pool.home, Variant(flavour=variant.flavour, options=options), pool.data, pool.log)
    with server:
        yield House(pool, pool.home, server, (pool.data.name,))


class LargeTransactions:
    """The tests."""

    @pytest.mark.timeout(3600)
    def test_a_transaction_of_more_than_a_gibibyte_is_in_or_out_as_a_whole(self, house: House) -> None:
        server = house.server
        server.sql("CREATE TABLE shop.big (id INT PRIMARY KEY, b LONGBLOB) ENGINE=InnoDB")
        server.sql("INSERT INTO shop.big VALUES (0, 'before')")
        house.snapshot()
        before = next_second()
        before_sums = server.checksum()
        size = log_size(house)
        insert_large(house)
        assert log_size(house) - size > 1 << 30
        after = next_second()
        after_sums = server.checksum()
        server.sql("UPDATE shop.big SET b = CONCAT('u', b) WHERE id % 4 = 0")
        next_second()
        assert _restored(house, before, "before") == before_sums
        assert _restored(house, after, "after") == after_sums


def insert_large(house: House) -> None:
    """Commit more than 1 GiB at once into shop.big."""
    with house.server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for number in range(1, ROWS + 1):
            cursor.execute(
                f"INSERT INTO shop.big VALUES ({number}, REPEAT(SHA2({number}, 256), {ROW // 64}))"
            )
        cursor.execute("COMMIT")


def log_size(house: House) -> int:
    """Return the bytes of all of the server's log files."""
    return sum(int(row[1]) for row in house.server.sql("SHOW BINARY LOGS"))


def _restored(house: House, moment: datetime, name: str) -> dict[str, int | None]:
    """Checksums of what was restored; the clone is gone again."""
    run = house.begin(*house.restoring(moment, name)).end(timeout=1800)
    report: dict[str, Any] = run.data
    assert utc(report["replay"]["effective_target"]) == moment
    with house.clone(report) as clone:
        found = checksums(clone, house.server.tables())
    house.destroy(name)
    return found
