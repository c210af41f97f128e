"""The answer of `window`: up to where the server's own log leads, and what is at a destination."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.fast.archive import keep_archives
from tests.fast.server import FakeRecovery, position
from tests.fast.world import World
from zbackup.destinations.zfs_destination import ZfsSession
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch.window import WindowReport, window, window_at
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import LogDamage, LogSpan
from zbackup.model.record import Record

HOUR = timedelta(hours=1)


@pytest.fixture
def ctx(world: World) -> Context:
    """Two backups."""
    made = world.context()
    for _ in range(2):
        snapshot(made)
        world.state.elapsed += HOUR
    world.writing = False
    return made


def is_live(found: WindowReport) -> bool:
    """Whether there is no gap up to now."""
    return found.note == "" and not found.window.gaps and [r.live for r in found.window.ranges] == [True]


def test_the_servers_own_log_leads_up_to_now(world: World, ctx: Context) -> None:
    found = window(ctx)
    assert is_live(found) and found.window.ranges[-1].to == found.now
    empty = window(replace(ctx, instance="new"))
    assert empty.note == "no backup says which log it holds" and not empty.window.saw_live_log


@pytest.mark.parametrize("lacks", ["its end", "its log"])
def test_it_leads_on_from_the_newest_backup_that_is_whole(world: World, ctx: Context, lacks: str) -> None:
    newest = ctx.catalog().backups[-1]
    facts = ("as_of", "complete_to") if lacks == "its end" else ("log_id", "log_from", "log_to")
    for part in newest.snapshots:
        for fact in facts:
            world.pools.snapshot_called(str(part)).properties.pop(f"zbackup:{fact}")
    assert is_live(window(ctx))


def test_no_log_leads_across_a_backup_that_lost_a_part_as_by_a_rollback(world: World, ctx: Context) -> None:
    newest = ctx.catalog().backups[-1]
    world.pools.destroy_snapshot(str(newest.snapshots[1]))
    (gap,) = window(ctx).window.gaps
    assert (gap.cause, gap.newer) == ("not whole", "") and f"{newest.name} has lost its snapshot" in gap.why
    world.writing = True
    after = snapshot(ctx).backup.record
    world.writing = False
    assert after.log_id != newest.record.log_id and newest.name in after.server["log_restarts"]
    (gap,) = window(ctx).window.gaps
    assert (gap.cause, gap.newer) == ("reset", after.name)


def test_a_log_that_begins_behind_the_newest_backup_does_not_lead_on_from_it(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins = ctx.catalog().backups[-1].record.log_to
    monkeypatch.setattr(FakeRecovery, "live_log", lambda *_: LogSpan(begins, position(99)))
    assert is_live(window(ctx)), "it was rotated when the backup was taken, and what is older was purged"
    monkeypatch.setattr(FakeRecovery, "live_log", lambda *_: LogSpan(position(98), position(99)))
    world.server.damage = (LogDamage("binlog.000002 is damaged at 7"),)  # which is behind the gap
    found = window(ctx)
    assert [gap.cause for gap in found.window.gaps] == ["purged"] and found.note == ""


def test_a_log_that_only_the_server_can_read_is_not_looked_at(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRecovery, "live_log", lambda *_: None)
    found = window(ctx)
    assert found.note == "the live log cannot be read from its files"
    assert not found.window.saw_live_log and [r.live for r in found.window.ranges] == [False]


def test_behind_damage_nothing_is_promised(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.server.damage = (
        LogDamage("binlog.000001 is damaged at 7"),
        LogDamage("5 GiB were not read", unread=True),
    )
    found = window(ctx)
    (gap,) = found.window.gaps
    assert gap.cause == "damaged" and "binlog.000001 is damaged at 7" in gap.why and "5 GiB" not in gap.why
    world.server.damage = world.server.damage[1:]
    assert is_live(window(ctx)), "what nobody has read is not damaged"
    monkeypatch.setattr(FakeRecovery, "live_log_damage", lambda *_: None)
    assert is_live(window(ctx)), "nobody can tell"


def test_what_does_not_open_is_not_restored_as_it_is(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = ctx.catalog().backups
    assert window(ctx).as_they_are == (first, second)

    def check(_: FakeRecovery, record: Record) -> None:
        if record == second.record:
            raise Refused("its keyring is not in it")

    monkeypatch.setattr(FakeRecovery, "check_openable", check, raising=False)
    assert window(ctx).as_they_are == (first,)


@pytest.mark.parametrize("here", ["11.8", "10.11"])
def test_what_is_of_another_release_series_than_the_program_does_not_count(
    ctx: Context, monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    """As after an upgrade; or where recovery.server names the program of before."""
    found = ctx.catalog()
    older, newer = (
        replace(backup, record=replace(backup.record, server_version=f"{series}.6-MariaDB"))
        for backup, series in zip(found.backups, ("10.11", "11.8"), strict=True)
    )
    upgraded = replace(found, backups=(older, newer))
    monkeypatch.setattr(Context, "catalog", lambda _: upgraded)

    def check(_: FakeRecovery, record: Record) -> str:
        if not record.server_version.startswith(here):
            raise Refused("mariadbd is of another release series")
        return "mariadbd"

    monkeypatch.setattr(FakeRecovery, "check_program", check)
    report = window(ctx)
    counts = newer if here == "11.8" else older
    assert report.closed == "mariadbd is of another release series"
    assert report.as_they_are == (counts,)
    assert report.window.ranges[0].after == counts.record.as_of
    assert is_live(report) is (here == "11.8")
    monkeypatch.setattr(FakeRecovery, "check_program", lambda *_: "mariadbd")
    assert window(ctx).closed == "" and window(ctx).as_they_are == (older, newer)


def test_of_a_destination_it_is_told_what_is_believed_and_what_does_not_count(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_archives(monkeypatch, world)
    there = replace(ctx, destinations=(world.destination(),))
    (vault,) = there.destinations
    ship(there, vault)
    newest = ctx.catalog().backups[-1].record
    alone = window_at(there, vault)
    assert (alone.note, alone.on_trust) == ("only what is at zfs:vault/backups", "")
    assert [each.to for each in alone.window.ranges] == [newest.complete_to]
    for _ in range(3):
        world.commit()
    world.archive()
    reaches = window_at(there, vault)
    assert reaches.note == "" and "zbackup verify shop --at vault --read all proves it" in reaches.on_trust
    assert newest.complete_to and reaches.window.ranges[-1].to > newest.complete_to

    def broken(_: Any) -> None:
        raise VerificationFailed("its list is damaged")

    monkeypatch.setattr(ZfsSession, "archived", broken)
    unknown = window_at(there, vault)
    assert unknown.note == "the log archive at zfs:vault/backups cannot be read (its list is damaged)"
    assert unknown.on_trust == "" and unknown.window == alone.window
