"""Twenty dev clones side by side."""

import pymysql
import pytest

from tests.slow.many_clones import destroy, make, password
from tests.system.clone_story import ADMIN
from tests.system.conftest import house
from tests.system.house import House, checksums

VARIANTS = ("mysql-9.7", "mariadb-11.8")

__all__ = ["house"]


def test_twenty_side_by_side(house: House) -> None:
    house.snapshot()
    before, sums = house.names(), house.server.checksum()
    made = make(house)
    for number, clone in enumerate(made):
        with pymysql.connect(
            host="127.0.0.1", port=clone["port"], user=ADMIN, password=password(clone), autocommit=True
        ) as connection:
            assert checksums(connection, list(sums)) == sums
            connection.query("DELETE FROM shop.orders WHERE id > 10")
        other = made[number - 1]
        with pytest.raises(pymysql.MySQLError):
            pymysql.connect(host="127.0.0.1", port=clone["port"], user=ADMIN, password=password(other))
    assert house.server.checksum() == sums
    sessions = house.server.sql("SELECT USER FROM information_schema.PROCESSLIST")
    assert {row[0] for row in sessions} <= {"root", "event_scheduler", "system user"}
    destroy(house, made)
    assert house.names() == before | {house.clones}
