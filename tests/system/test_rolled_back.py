"""Production rolled back by hand: both histories have the same names, positions and GTIDs in their logs."""

from collections.abc import Callable
from datetime import datetime

import pytest

from tests.lab.pool import run
from tests.system.archive_story import ONCE, on_another_pool
from tests.system.house import House, local, next_second
from tests.system.program import Result

VARIANTS = ("mariadb-10.11", "mysql-9.7")
TOLD_WITH = ("mariadb-10.11", "mysql-9.7")


class Story:
    """Ten rows at a time, each known by the history that they are of."""

    def __init__(self, house: House, table: str) -> None:
        self.house, self.table, self.number = house, table, 0
        house.server.sql(f"CREATE TABLE {table} (n INT PRIMARY KEY, history VARCHAR(9))")

    def write(self, history: str) -> datetime:
        """Returns a moment behind it."""
        rows = ", ".join(f"({n}, '{history}')" for n in range(self.number, self.number + 10))
        self.house.server.sql(f"INSERT INTO {self.table} VALUES {rows}")
        self.number += 10
        return next_second()

    def roll_back(self, datasets: list[str], backup: str) -> None:
        self.house.server.stop()
        for dataset in datasets:
            run("zfs", "rollback", "-r", f"{dataset}@{backup}")
        self.house.server.start()

    def restored(self, zb: Callable[..., Result], at: datetime, *words: str) -> dict[str, int]:
        report = zb("restore", "shop", *words, "--to", local(at), "--name", "back", "--json").data
        with self.house.clone(report) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT history, COUNT(*) FROM {self.table} GROUP BY history")
            found = {str(history): int(rows) for history, rows in cursor.fetchall()}
        assert zb("clone", "destroy", "back", "--yes").rc == 0
        return found


@pytest.mark.told_with(*TOLD_WITH)
def test_the_data_alone_is_rolled_back(house: House) -> None:
    """`zfs rollback` leaves what is below a dataset as it is: data and log are of two histories."""
    with on_another_pool(house) as (config, back):

        def zb(*words: str) -> Result:
            return house.zb(*words, config=config)

        story = Story(house, "shop.data_alone")
        story.write("both")
        first = house.snapshot(config)
        assert zb("ship").rc == 0 and zb(*ONCE).rc == 0
        in_old = story.write("old")
        assert zb(*ONCE).rc == 0
        house.snapshot(config)
        assert zb("ship").rc == 0
        story.roll_back(run("zfs", "list", "-Hro", "name", house.datasets[0]).splitlines()[:1], first["name"])
        in_new = story.write("new")
        status = zb("status")
        assert status.rc == 0 and "critical" in status.out and "has lost its snapshot of" in status.out, (
            status
        )
        checked = zb("check")
        assert checked.rc != 0 and "has lost its snapshot of" in checked.out, checked
        assert "zbackup snapshot shop" in zb(*ONCE).err, "the log may hold two histories"
        for moment in (in_old, in_new):
            refused = zb("restore", "shop", "--to", local(moment), "--name", "mixed")
            assert refused.rc == 5 and "has lost its snapshot of" in refused.err, refused
        house.snapshot(config)
        behind = story.write("newer")
        once = zb(*ONCE, "--json")
        assert "has lost its snapshot of" in once.data[0]["new_epoch"], once
        refused = zb("restore", "shop", "--to", local(in_old), "--name", "mixed")
        assert refused.rc == 5, refused
        assert story.restored(zb, in_new) == {"both": 10, "new": 10}, "the new backup is of that moment"
        assert story.restored(zb, behind) == {"both": 10, "new": 10, "newer": 10}
        assert story.restored(back, in_old, "--from", "here") == {"both": 10, "old": 10}
        refused = back("restore", "shop", "--from", "here", "--to", local(behind), "--name", "mixed")
        assert refused.rc == 5, refused


@pytest.mark.told_with(*TOLD_WITH)
def test_data_and_log_are_rolled_back(house: House) -> None:
    with on_another_pool(house) as (config, back):

        def zb(*words: str) -> Result:
            return house.zb(*words, config=config)

        story = Story(house, "shop.all_of_it")
        story.write("both")
        first = house.snapshot(config)
        assert zb("ship").rc == 0 and zb(*ONCE).rc == 0
        in_old = story.write("old")
        assert zb(*ONCE).rc == 0
        house.snapshot(config)
        assert zb("ship").rc == 0
        story.roll_back(run("zfs", "list", "-Hro", "name", house.datasets[0]).splitlines(), first["name"])
        in_new = story.write("new")
        refused = zb("restore", "shop", "--to", local(in_old), "--name", "lost")
        assert refused.rc == 5 and f"--to-backup {first['name']}" in refused.err, refused
        assert story.restored(zb, in_new) == {"both": 10, "new": 10}
        assert "new epoch" in zb(*ONCE).succeeded
        house.snapshot(config)
        behind = story.write("newer")
        assert zb(*ONCE).rc == 0
        refused = zb("restore", "shop", "--to", local(in_old), "--name", "lost")
        assert refused.rc == 5, refused
        assert story.restored(zb, behind) == {"both": 10, "new": 10, "newer": 10}
        assert story.restored(back, in_old, "--from", "here") == {"both": 10, "old": 10}
        for moment in (in_new, behind):
            refused = back("restore", "shop", "--from", "here", "--to", local(moment), "--name", "mixed")
            assert refused.rc == 5, refused
        assert "no backup there leads to it" in zb("archive", "status").out
        status = zb("status")
        assert "critical" in status.out and "no backup there leads to it" in status.out, status
