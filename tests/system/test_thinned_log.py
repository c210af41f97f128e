"""A backup that is gone, and with it log that no other one holds: such gaps are what retention leaves."""

from datetime import timedelta

import pytest

from tests.lab.pool import run
from tests.system.house import House, local, next_second, now, wait_until

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7",)


@pytest.mark.told_with("mariadb-10.11", "mysql-9.7")
def test_what_is_asked_for_and_was_read_is_no_gap_and_a_real_one_is_told(house: House) -> None:
    server = house.server
    house.snapshot()
    server.sql("UPDATE shop.customers SET email = CONCAT('one', id)")
    server.sql("UPDATE shop.customers SET email = CONCAT('two', id)")
    moment = next_second()
    house.snapshot()
    server.sql("DELETE FROM shop.orders ORDER BY id LIMIT 1")
    for _ in range(3):
        server.sql("FLUSH BINARY LOGS")
    middle, held = house.snapshot(), str(server.sql("SHOW BINARY LOGS")[-1][0])
    server.sql("DELETE FROM shop.orders ORDER BY id LIMIT 1")
    server.sql(f"PURGE BINARY LOGS TO '{held}'")
    house.snapshot()
    taken = now()
    assert house.zb("log", "-q").rc == 0
    for name in sorted(house.snapshots()):
        if name.endswith(f"@{middle['name']}"):
            run("zfs", "destroy", name)
    gone = house.zb("log", "-q").refused(9)
    assert gone.count("is gone") == 1 and f"and {held} " in gone
    shown, _ = house.log("--until", local(moment), "--table", "shop.customers")
    one = shown[-2]["gtid"]
    # No later transaction on its tables ends the look.
    said = house.zb("restore", "--skip", one, "--to", local(moment), "--dry-run").succeeded
    assert f"left out: {one}" in said
    # It takes a minute until nobody promises what lay there.
    config = house.configure("thinned", retention={"last": 9, "window": "1 minute"})
    wait_until("it is old", lambda: now() - taken > timedelta(minutes=1), 90)
    told = house.zb("log", config=config)
    assert told.rc == 0 and "the log has 1 gap between" in told.err + told.out, told
    assert "is gone" not in str(told)
    assert house.zb("log", "-q", "--since", local(moment), config=config).refused(9) == gone
