"""MySQL and MongoDB brought back from a second host, as tests/system/test_come_back.py does with MariaDB."""

from collections.abc import Iterator

import pytest

from tests.lab.pool import Pool
from tests.lab.two_hosts import TwoHosts, hosts
from tests.lab.variants import Variant
from tests.system.come_back import offsite_of
from tests.system.conftest import end_clones
from tests.system.house import House, build, next_second
from tests.system.mongo_house import MongoHouse
from tests.system.mongo_story import mongo_house, opened

__all__ = ["hosts"]


@pytest.fixture
def mysql(pool: Pool) -> Iterator[House]:
    home = pool.home / "mysql"
    home.mkdir()
    data = pool.dataset("mysql")
    with build(pool, home, Variant(flavour="mysql-9.7"), data, data) as server:
        house = House(pool, home, server, (data.name,))
        yield house
        end_clones(house)


@pytest.fixture
def mongodb(pool: Pool) -> Iterator[MongoHouse]:
    with mongo_house(pool) as house:
        yield house
        end_clones(house)  # type: ignore[arg-type]


def test_a_mysql_comes_back_also_when_the_link_breaks(mysql: House, hosts: TwoHosts) -> None:
    with offsite_of(mysql, hosts) as offsite:
        mysql.server.sql("CREATE TABLE shop.told (n INT PRIMARY KEY)")
        for number in (0, 2):
            mysql.server.sql("INSERT INTO shop.told VALUES (%s)", (number,))
            moment = next_second()
            mysql.server.sql("INSERT INTO shop.told VALUES (%s)", (number + 1,))
            mysql.snapshot()
            offsite.send("ship", "--json").data  # noqa: B018  checks the exit status
        words = offsite.restoring(moment.isoformat(), "back")
        hosts.link.cut_after(3_000_000, back=True)
        cut = offsite.back(*words)
        assert cut.rc != 0 and "the same command continues" in cut.err, cut
        hosts.link.mend()
        report = offsite.back(*words)
        assert "continuing with what was fetched" in report.err, report
        with mysql.clone(report.data) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n FROM shop.told ORDER BY n")
            assert [row[0] for row in cursor.fetchall()] == [0, 1, 2]
        assert offsite.back("clone", "destroy", "back", "--yes").rc == 0
        assert offsite.left() == [f"{offsite.new.name}/back"]


def test_a_mongodb_comes_back(mongodb: MongoHouse, hosts: TwoHosts) -> None:
    with offsite_of(mongodb, hosts) as offsite:
        for number in (0, 2):
            _insert(mongodb, number)
            moment = next_second()
            _insert(mongodb, number + 1)
            mongodb.snapshot()
            offsite.send("ship", "--json").data  # noqa: B018  checks the exit status
        report = offsite.back(*offsite.restoring(moment.isoformat(), "back")).data
        with opened(report) as client:
            assert [d["_id"] for d in client.story.told.find().sort("_id")] == [0, 1, 2]
        assert offsite.back("clone", "destroy", "back", "--yes").rc == 0
        assert offsite.left() == [f"{offsite.new.name}/back"]


def _insert(house: MongoHouse, number: int) -> None:
    with house.server.client() as client:
        client.story.told.insert_one({"_id": number})
