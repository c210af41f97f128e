"""Log that was purged before it was archived, and of which a backup here has a part: what is archived of it
reaches up to that backup, and no further."""

import json

import pytest

from tests.system.archive_story import ONCE, on_another_pool
from tests.system.house import House, local, next_second, utc, wait_until

VARIANTS = ("mariadb-10.11", "mysql-9.7")


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7")
def test_a_moment_behind_what_a_snapshot_had_is_not_promised(house: House) -> None:
    server = house.server

    def ten(first: int) -> None:
        rows = ", ".join(f"({n})" for n in range(first, first + 10))
        server.sql(f"INSERT INTO shop.counted VALUES {rows}")

    with on_another_pool(house) as (config, back):
        server.sql("CREATE TABLE shop.counted (n INT PRIMARY KEY)")
        ten(0)
        house.snapshot(config)
        assert house.zb("ship", config=config).rc == 0
        ten(10)
        assert house.zb(*ONCE, config=config).rc == 0
        ten(20)
        in_snapshot = next_second()
        house.snapshot(config)
        lost = []
        for first in (30, 40, 50):
            ten(first)
            lost.append(next_second())
            server.sql("FLUSH BINARY LOGS")
        newest = str(server.sql("SHOW BINARY LOGS")[-1][0])

        def purged() -> bool:
            server.sql(f"PURGE BINARY LOGS TO '{newest}'")
            return [str(row[0]) for row in server.sql("SHOW BINARY LOGS")] == [newest]

        wait_until("nobody reads what is purged", purged, 60)
        house.snapshot(config)
        assert house.zb("ship", config=config).rc == 0
        behind = next_second()
        once = house.zb(*ONCE, "--json", config=config)
        assert once.rc == 5 and json.loads(once.out)["data"][0]["gap"], once
        assert house.zb(*ONCE, config=config).rc == 0
        ranges = [
            (utc(r["after"]), utc(r["to"]))
            for r in back("window", "--at", "here", "--json").data[0]["ranges"]
        ]
        for moment in (in_snapshot, *lost, behind):
            promised = any(after < moment <= end for after, end in ranges)
            assert promised is (moment not in lost), (moment, ranges)
        for moment in lost:
            refused = back("restore", "shop", "--from", "here", "--to", local(moment), "--name", "lost")
            assert refused.rc == 5 and "nothing was archived from" in refused.err, refused
        for moment, rows in ((in_snapshot, 30), (behind, 60)):
            words = ("--from", "here", "--to", local(moment), "--name", "there", "--json")
            report = back("restore", "shop", *words).data
            with house.clone(report) as connection:
                cursor = connection.cursor()
                cursor.execute("SELECT COUNT(*) FROM shop.counted")
                assert cursor.fetchall() == ((rows,),)
            assert back("clone", "destroy", "there", "--yes").rc == 0
