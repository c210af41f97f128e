"""Output of `zbackup ship`, in words and as JSON."""

from tests.unit.plan.worlds import World
from tests.unit.shipped import CONTEXT, DESTINATION, diverged, looked, reported, shape
from zbackup.cli import ship
from zbackup.jobs.ship.ship import ShipPreview, ShipReport, diverged_text
from zbackup.model.errors import ConnectionFailed
from zbackup.plan.ship.ship import Divergence, UpToDate


def words(result: ShipReport | ShipPreview) -> str:
    return "\n".join(ship._lines(CONTEXT, result))


def test_a_report_in_words() -> None:
    assert words(reported()).splitlines() == [
        "shop to offsite: s11",
        "  tank/a@s11 in full: 2.0 MiB in 2.0 s",
        "  tank/a/log@s11 in full: 2.0 MiB in 2.0 s",
        "  4.0 MiB in all, 1.0 MiB/s",
    ]


def test_plans_in_words() -> None:
    world = World()
    assert words(looked(world)) == "shop to offsite: there is no backup to ship yet"
    world.take()
    assert "--initial would send all of tank/a, tank/a/log" in words(looked(world, initial=False))
    assert words(looked(world)).splitlines() == [
        "shop to offsite: would",
        "  send tank/a@s11 in full: 1.0 MiB",
        "  send tank/a/log@s11 in full: 1.0 MiB",
        "  commit s11",
    ]
    world.do(world.plan())
    assert words(looked(world)) == "shop to offsite: up to date, s11 is there"
    world.take()
    assert "send tank/a@s12 since tank/a@s11: 1.0 MiB" in words(looked(world))
    world.do(world.plan(), cut=0, partly=True)
    assert "send tank/a@s12, the rest of it: 1.0 MiB" in words(looked(world))


def test_a_divergence_names_both_sides_and_the_way_on() -> None:
    plan = diverged().plan()
    assert isinstance(plan, Divergence)
    said = diverged_text("shop", DESTINATION, plan)
    for part in (
        "tank/a@s11 (guid 1001)",
        "@mine (guid 7)",
        "Nothing was changed",
        "--initial",
        "zfs rename",
    ):
        assert part in said
    assert "\n" not in said
    assert said in words(looked(diverged()))


def test_a_failure_is_in_the_document() -> None:
    error = shape(ConnectionFailed(("zfs", "list"), 255, "timed out", "vault"))["error"]
    assert (error["exit_status"], error["message"]) == (12, "no connection to vault: timed out")


def test_up_to_date_in_json() -> None:
    world = World()
    backup = world.take()
    world.do(world.plan())
    assert shape(ShipPreview(destination=DESTINATION, plan=UpToDate(backup)))["newest"] == backup.name
