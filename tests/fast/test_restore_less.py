"""A restore where the log does not lead to what is asked for: nothing less passes for that."""

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.fast.right import portrait, require_nothing_left
from tests.fast.test_reconcile import unfinished
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import plan_restore, restore
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch.window import window
from zbackup.model.errors import NotRecoverable, Taken
from zbackup.model.log import LogDamage
from zbackup.model.moment import Moment

OPTIONS = RestoreOptions(name="r1")
ROWS = "/srv/clones/r1/0"


@pytest.fixture
def ctx(world: World) -> Context:
    """Production with two backups, both shipped."""
    made = world.context(destinations=(world.destination(),), elsewhere=("vault/zbackup",))
    for _ in range(2):
        snapshot(made)
        ship(made, made.destinations[0])
        world.state.elapsed += timedelta(minutes=1)
    return made


OFF = "the binlog is off: set log_bin"


def test_nothing_less_is_restored_where_the_server_stopped_to_log(world: World, ctx: Context) -> None:
    """What was logged until then can be had, and nobody later takes its end for that of what was written."""
    world.commit()
    logged = max(world.server.times)
    before = Moment(world.server.times[logged], "before", ZoneInfo("UTC"))
    world.server.blockers = (OFF,)
    world.state.elapsed += timedelta(minutes=1)
    after = Moment(world.now, "after", ZoneInfo("UTC"))
    now = Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)
    kept = portrait(world)
    for less in (after, now):
        for asked in (plan_restore, restore):
            with pytest.raises(NotRecoverable, match=r"binlog is off.*--to latest.*; the recovery window is"):
                asked(ctx, less, OPTIONS)
    assert portrait(world) == kept
    restore(ctx, before, OPTIONS)
    assert max(world.content(ROWS)["rows"]) == logged - 1
    clones.destroy([ctx], "r1")
    restore(ctx, LOCAL.latest(ctx, OPTIONS), OPTIONS)
    assert max(world.content(ROWS)["rows"]) == logged
    clones.destroy([ctx], "r1")
    planned = plan_restore(ctx, LOCAL.latest(ctx, OPTIONS), OPTIONS)
    assert planned.log and planned.log.record.log_ended == OFF
    world.server.blockers = ()
    world.commit()
    for less in (after, replace(now, at=world.now)):
        for asked in (plan_restore, restore):
            with pytest.raises(NotRecoverable, match=r"when zbackup-[^ ]* was taken, the binlog is off"):
                asked(ctx, less, OPTIONS)
    require_nothing_left(world)


def test_nothing_less_is_restored_where_a_server_that_is_down_alone_can_read_its_log(
    world: World, ctx: Context
) -> None:
    """What was read of it before can be had, and all of it when it is asked for as that."""
    world.commit()
    read = max(world.server.times)
    before = Moment(world.server.times[read], "before", ZoneInfo("UTC"))
    world.server.sealed, world.server.running = True, False
    world.state.elapsed += timedelta(minutes=1)
    after = Moment(world.now, "after", ZoneInfo("UTC"))
    kept = portrait(world)
    for less in (after, Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)):
        for asked in (plan_restore, restore):
            with pytest.raises(NotRecoverable, match=r"has to send.*does not answer.*--to latest"):
                asked(ctx, less, OPTIONS)
    assert portrait(world) == kept
    missing = "what the server wrote last is missing, as its log is read from it: it does not answer"
    restore(ctx, before, OPTIONS)
    assert max(world.content(ROWS)["rows"]) == read - 1 and missing not in world.notes
    clones.destroy([ctx], "r1")
    restore(ctx, LOCAL.latest(ctx, OPTIONS), OPTIONS)
    assert max(world.content(ROWS)["rows"]) == read and world.notes.count(missing) == 1
    clones.destroy([ctx], "r1")
    require_nothing_left(world)


def test_a_live_log_that_cannot_be_read_is_not_promised(world: World, ctx: Context) -> None:
    """`status` and `window` ask the same."""
    promised = window(ctx).window
    assert promised.gaps == () and promised.overall and promised.overall.end is None
    world.server.damage = (LogDamage("binlog.000001 is damaged at 7"), LogDamage("far back", unread=True))
    found = window(ctx).window
    assert found.overall and found.overall.end
    assert [(gap.cause, gap.why) for gap in found.gaps] == [
        ("damaged", "the server's log is damaged: binlog.000001 is damaged at 7")
    ]


def test_a_log_that_leaves_out_what_is_written_leads_nowhere(world: World, ctx: Context) -> None:
    world.server.blockers = ("the binlog leaves databases out (shop)",)
    now = Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)
    with pytest.raises(NotRecoverable, match=r"not whole: the binlog leaves databases out.*--to-backup"):
        restore(ctx, now, OPTIONS)
    # One that does not answer cannot be asked, and its log is what there is.
    world.server.running = False
    restore(ctx, now, OPTIONS)
    clones.destroy([ctx], "r1")


def test_a_port_is_free_or_it_is_refused(world: World, ctx: Context) -> None:
    moment = Moment(world.now, "now", ZoneInfo("UTC"), is_now=True)
    unfinished(ctx, "other", port=4000, state="ready")
    for job in (plan_restore, restore):
        with pytest.raises(Taken, match="port 4000 belongs to the clone other"):
            job(ctx, moment, replace(OPTIONS, port=4000))
    plan_restore(ctx, moment, replace(OPTIONS, port=4001))
