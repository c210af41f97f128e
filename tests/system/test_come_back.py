"""Shipped through the gate of a second host, and brought back from there when the first has lost all."""

import signal
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.lab.pool import run
from tests.lab.two_hosts import TwoHosts, hosts
from tests.system.come_back import Offsite, offsite_of
from tests.system.house import House, Variant, next_second, wait_until

__all__ = ["hosts"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


@pytest.fixture(scope="module")
def moments() -> dict[int, datetime]:
    """Before the second row of each backup."""
    return {}


@pytest.fixture(scope="module")
def offsite(house: House, hosts: TwoHosts, moments: dict[int, datetime]) -> Iterator[Offsite]:
    """Two backups of a growing table, all shipped by the append-only key."""
    with offsite_of(house, hosts) as made:
        house.server.sql("CREATE DATABASE story")
        house.server.sql("CREATE TABLE story.told (n INT PRIMARY KEY)")
        for number in range(2):
            house.server.sql("INSERT INTO story.told VALUES (%s)", (number * 2,))
            moments[number] = next_second()
            house.server.sql("INSERT INTO story.told VALUES (%s)", (number * 2 + 1,))
            house.snapshot()
            sent = made.send("ship")
            assert sent.rc == 0, sent
        yield made


def test_the_real_sender_passes_the_real_gate(offsite: Offsite) -> None:
    listed = offsite.send("list", "--at", "offsite", "--json").data[0]["backups"]
    assert [b["name"] for b in listed] == [b["name"] for b in offsite.house.backups()]
    assert all(b["complete"] and b["finished"] for b in listed)
    assert offsite.send("ship", "--json").data[0]["committed"] == []


def test_the_window_at_the_destination_is_without_a_gap(offsite: Offsite) -> None:
    report = offsite.back("window", "--at", "offsite", "--json").data[0]
    assert len(report["ranges"]) == 1 and report["gaps"] == []


def test_a_dry_run_fetches_nothing(offsite: Offsite) -> None:
    planned = offsite.back("restore", "--from", "offsite", "--to", "latest", "--dry-run", "--json").data
    assert planned["fetch"] > 1_000_000
    assert offsite.left() == []


def test_a_restore_is_cut_off_while_it_fetches_and_goes_on(
    offsite: Offsite, moments: dict[int, datetime]
) -> None:
    """To a moment between two backups, on a host that has nothing of the instance."""
    words = offsite.restoring(moments[1].isoformat(), "back")
    link = offsite.hosts.link
    link.cut_after(3_000_000, back=True)
    cut = offsite.back(*words)
    assert cut.rc != 0 and "the same command goes on" in cut.err, cut
    assert link.is_cut
    link.mend()
    report = offsite.back(*words)
    assert "going on with what was fetched" in report.err, report
    with offsite.house.clone(report.data) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM story.told ORDER BY n")
        assert [row[0] for row in cursor.fetchall()] == [0, 1, 2]


def test_a_moment_after_the_last_backup_is_not_promised(offsite: Offsite) -> None:
    refused = offsite.back("restore", "--from", "offsite", "--to", "now", "-q").refused(5)
    assert "do not reach that moment" in refused and "--to latest" in refused


def test_the_clone_goes_and_what_was_fetched_with_it(offsite: Offsite) -> None:
    before = offsite.hosts.pool.name
    names = {c["name"] for c in offsite.back("clone", "list", "--json").data}
    assert names == {"back", "back.copy"}
    refused = offsite.back("clone", "destroy", "back.copy", "--yes").refused(9)
    assert "has children: destroy back first" in refused
    assert offsite.back("clone", "destroy", "back", "--yes").rc == 0
    assert offsite.left() == [f"{offsite.new.name}/back"]
    assert before in run("zpool", "list", "-Ho", "name")


def test_the_newest_state_comes_back(offsite: Offsite) -> None:
    report = offsite.back(*offsite.restoring("latest", "newest")).data
    with offsite.house.clone(report) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM story.told ORDER BY n")
        assert [row[0] for row in cursor.fetchall()] == [0, 1, 2, 3]
    assert offsite.back("clone", "destroy", "newest", "--yes").rc == 0


def test_only_a_trusted_key_prunes_there(offsite: Offsite) -> None:
    """By the destination's rules, and what is sent goes on from the newest."""
    rules = {"keep": [], "last": 1, "minimum": 1, "window": "1 minute"}
    names = [b["name"] for b in offsite.house.backups()]
    for key, left in (("append-only", names), ("trusted", names[-1:])):
        ship = {**offsite.ship(key), "retention": rules}
        config = offsite.house.configure(f"pruning {key}", ship=[ship])
        pruned = offsite.send("prune", "--at", "offsite", "--json", config=config)
        listed = [b["name"] for b in offsite.send("list", "--at", "offsite", "--json").data[0]["backups"]]
        assert (key == "append-only") == ("refused by the gate" in pruned.out), pruned
        assert listed == left, pruned
    offsite.house.snapshot()
    assert len(offsite.send("ship", "--json").data[0]["committed"]) == 1


def test_the_daemon_ships_on_schedule_and_goes_on_after_it_was_killed(offsite: Offsite) -> None:
    schedule = {"snapshot": "10s", "ship": "5s"}
    config = offsite.house.configure("daily", ship=[offsite.ship("append-only")], schedule=schedule)

    def there() -> set[str]:
        return {b["name"] for b in offsite.send("list", "--at", "offsite", "--json").data[0]["backups"]}

    before = there()
    for wanted in (1, 2):
        run = offsite.house.begin("daemon", config=config, environment=offsite.hosts.environment)
        try:
            wait_until("one more is there", lambda many=wanted: len(there() - before) >= many, 150)
        finally:
            run.signal_group(signal.SIGKILL)
            print(run.end())
    # What received the stream that was cut may be there for a moment yet.
    wait_until("the next ship goes on", lambda: offsite.send("ship", "--json").rc == 0, 60)
    assert [b["name"] for b in offsite.house.backups() if b["finished"]][-1] in there()
