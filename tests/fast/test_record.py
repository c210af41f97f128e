"""The record of a backup when it is finished, and what becomes of logs that were taken alone."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fast.server import FakeRecovery
from tests.fast.world import World
from zbackup.jobs.backup.prune import decide
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle as clones
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.log import Transaction
from zbackup.model.record import LABEL, REPLAY_STOPS, TIMES_OUT_OF_ORDER, Record
from zbackup.model.recovery import Reach
from zbackup.model.retention import Retention, Span
from zbackup.model.unreplayable import Unreplayable, to_lines


@pytest.fixture
def ctx(world: World) -> Context:
    """With one backup."""
    made = world.context()
    snapshot(made)
    world.state.elapsed += timedelta(minutes=1)
    return made


def newest(ctx: Context) -> Record:
    return ctx.catalog().backups[-1].record


def test_a_log_that_is_not_proven_to_go_on_is_another(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeRecovery, "is_same_log", lambda *_: False)
    snapshot(ctx)
    first, second = ctx.catalog().backups
    assert first.record.log_id and second.record.log_id and first.record.log_id != second.record.log_id
    monkeypatch.setattr(FakeRecovery, "is_same_log", lambda *_: True)
    snapshot(ctx)
    assert ctx.catalog().backups[-1].record.log_id == second.record.log_id


def test_logs_that_a_newer_backup_replaces_go_with_a_policy_and_stay_without(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"))
    clones.destroy([ctx], "r1")
    after = world.keep()
    snapshot(ctx)
    assert [b.record.purpose for b in ctx.catalog().backups] == ["base", "base"], "it goes on the way"
    world.put_back(after)
    monkeypatch.setattr("zbackup.jobs.backup.snapshot.drop_replaced_logs", lambda *_: None)
    snapshot(ctx)
    backups = ctx.catalog().backups
    assert [b.record.purpose for b in backups] == ["base", "log", "base"]
    assert decide(ctx, backups).destroy == ()
    rules = replace(ctx, retention=Retention(last=9, minimum=1, window=Span(7, "day")))
    assert decide(rules, backups).destroy == (backups[1],)
    asked: list[object] = []
    with monkeypatch.context() as patch:
        rule = "zbackup.jobs.backup.prune.without_replaced_logs"
        patch.setattr(rule, lambda plan, _: asked.append(plan) or plan)
        for each in (ctx, rules):
            decide(each, backups)
    assert len(asked) == 1, "a rule of a policy"
    ctx.zfs.hold("mine", backups[1].snapshots[0])
    assert decide(rules, ctx.catalog().backups).destroy == ()


def test_times_that_contradict_the_order_are_written_down(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may destroy what alone says so."""
    assert TIMES_OUT_OF_ORDER not in newest(ctx).server
    reach = FakeRecovery.reach

    def odd(*given: Any) -> Reach:
        return replace(reach(*given), out_of_order=("7 is earlier than 6", "9 is earlier than 8"))

    monkeypatch.setattr(FakeRecovery, "reach", odd)
    snapshot(ctx)
    assert newest(ctx).server[TIMES_OUT_OF_ORDER] == "7 is earlier than 6\n9 is earlier than 8"


def test_what_no_server_can_replay_is_written_down(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    transaction = Transaction(start="binlog.000001:2", end="binlog.000001:3", committed=ctx.clock.now())
    stops = (Unreplayable(transaction=transaction, why="its function is gone"),)
    monkeypatch.setattr(FakeRecovery, "unreplayable", lambda *_, **__: stops)
    snapshot(ctx)
    assert newest(ctx).server[REPLAY_STOPS] == to_lines(stops)


def test_since_when_there_are_backups_is_the_first_ones_moment(ctx: Context) -> None:
    first = newest(ctx)
    for _ in range(2):
        snapshot(ctx)
        assert newest(ctx).since == first.since == first.as_of != newest(ctx).as_of
    assert LABEL not in newest(ctx).server


def test_a_backup_without_a_log_has_none(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeRecovery, "log_span", lambda *_: None)
    snapshot(ctx)
    assert (newest(ctx).log_id, newest(ctx).log_to) == ("", "")


def test_a_log_that_is_written_with_delay_is_waited_for(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was acknowledged before is in the snapshot that is taken behind it."""
    waited: list[tuple[float, int]] = []
    monkeypatch.setattr(FakeRecovery, "log_delay_s", 1.5)
    monkeypatch.setattr(
        "zbackup.jobs.backup.log_snapshot.time",
        SimpleNamespace(sleep=lambda s: waited.append((s, len(ctx.catalog().backups)))),
    )
    restore(ctx, LOCAL.latest(ctx, RestoreOptions()), RestoreOptions(name="r1"))
    assert waited == [(1.5, 1)] and len(ctx.catalog().backups) == 2
