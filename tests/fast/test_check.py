"""Findings of `check`: what it tells of an instance, and what it finds when it tries."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fast.breaking import every_break
from tests.fast.right import portrait, require_nothing_left
from tests.fast.test_reconcile import unfinished
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch import check as room
from zbackup.jobs.watch.check import check
from zbackup.model.cloning import Mask
from zbackup.model.errors import CommandFailed, ConfigError, DatabaseError, Refused, VerificationFailed
from zbackup.model.finding import Finding
from zbackup.model.log import LogDamage
from zbackup.model.server import DataPath
from zbackup.plan.health.advice_on_arrangements import Expected


def test_it_tries_a_restore_when_it_is_asked_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no setting tells is critical, with the exit status of the restore that failed."""
    monkeypatch.setattr("zbackup.jobs.watch.check.examine", lambda *_: [])
    ctx = world.context()
    snapshot(ctx)
    tried = {f.subject: f for f in check(ctx, Expected(), with_drill=True).findings}
    assert tried["restore"].severity == "ok" and "was recovered" in tried["restore"].text, tried
    assert "restore" not in {f.subject for f in check(ctx, Expected()).findings}

    world.damaged_tables = ("shop.orders: a page has a wrong checksum",)
    report = check(ctx, Expected(), with_drill=True)
    (found,) = (f for f in report.findings if f.subject == "restore")
    assert found.severity == "critical" and "shop.orders" in found.text
    assert report.exit_status == VerificationFailed.exit_status
    require_nothing_left(world)


@pytest.fixture
def ctx(world: World, monkeypatch: pytest.MonkeyPatch) -> Context:
    """One backup, and no advice but what is looked for here."""
    monkeypatch.setattr(room, "examine", lambda *_: [])
    made = world.context()
    snapshot(made)
    return made


def of(ctx: Context, subject: str) -> Sequence[tuple[str, str]]:
    """What is said of it; nothing is ever changed."""
    return [(f.severity, f.text) for f in check(ctx, Expected()).findings if f.subject == subject]


def test_where_all_is_well_each_part_says_so(world: World, ctx: Context) -> None:
    before = portrait(world)
    report = check(ctx, Expected())
    assert portrait(world) == before
    said = {f.subject: f.text for f in report.findings if f.severity == "ok"}
    assert said["datasets"] == "tank/db, tank/db/log"
    assert said["server"] == "mysql 9.7.4, primary"
    assert said["placement"] == "all files lie on 2 datasets of one pool"
    assert said["lock"] == "ftwrl: it is exact" and said["server program"] == "mysqld"
    assert said["privileges"] == "the account has what the lock ftwrl needs"
    assert said["log"] == f"it can be read on from {ctx.catalog().backups[-1].name}"
    assert (said["clones"], said["pins"]) == ("0 below tank/zbackup", "0 for destinations that are gone")
    assert said["settings"] == "no problems found" and report.exit_status == 0


def test_what_is_hidden_by_one_problem_is_left_out(world: World, ctx: Context) -> None:
    gone = replace(ctx, datasets=("tank/none",))
    report = check(gone, Expected())
    assert {f.subject for f in report.findings} == {
        "datasets", "server", "lock", "privileges", "server program"
    }  # fmt: skip
    assert [severity for severity, _ in of(gone, "datasets")] == ["critical"]
    there = replace(gone, destinations=(world.destination(),))
    assert any("see zbackup received" in text for _, text in of(there, "datasets"))
    world.server.running = False
    down = {f.subject: f for f in check(ctx, Expected()).findings}
    assert down["server"].exit_status == DatabaseError.exit_status and "placement" not in down
    assert down["log"].severity == "ok"


def test_a_server_of_another_kind_or_with_files_elsewhere_is_critical(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((severity, text),) = of(replace(ctx, engine_name="mariadb"), "engine")
    assert severity == "critical" and text == "the configuration says mariadb, and it is mysql 9.7.4"
    assert of(ctx, "engine") == []
    facts = replace(
        ctx.engine.inspect(), role="replica", applier_running=True, warnings=("it lags",),
        data_paths=(DataPath("data", "/elsewhere/data"),),
    )  # fmt: skip
    monkeypatch.setattr(type(ctx.engine), "inspect", lambda _: facts)
    monkeypatch.setattr(type(ctx.zfs), "homes", lambda *_: {"/elsewhere/data": "tank/other"})
    found = {f.subject: f for f in check(ctx, Expected()).findings}
    assert found["server"].text == "it lags"
    assert of(ctx, "server")[0] == ("ok", "mysql 9.7.4, replica, applier running")
    assert found["placement"].severity == "critical"
    assert found["placement"].fix == '[instance.shop] datasets = ["tank/db", "tank/other"]'
    monkeypatch.setattr(type(ctx.zfs), "homes", lambda *_: {"/elsewhere/data": ""})
    ((no_fix,),) = ([f.fix for f in check(ctx, Expected()).findings if f.subject == "placement"],)
    assert no_fix == "", "on no dataset"
    facts = replace(facts, applier_running=False)
    assert of(ctx, "server")[0] == ("ok", "mysql 9.7.4, replica, applier stopped")


def test_why_no_moment_can_be_recovered_is_critical_once(world: World, ctx: Context) -> None:
    why = "the binlog leaves databases out (shop)"
    world.server.blockers = (why,)
    assert of(ctx, "recovery") == [("critical", why)]
    snapshot(ctx)
    assert of(ctx, "log") == [], "the server says it already"
    world.server.blockers = ()
    ((severity, text),) = of(ctx, "log")
    assert severity == "warning" and text.endswith(f"can be restored: when it was taken, {why}")


def test_the_log_behind_the_newest_backup_is_looked_at(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.server.damage = (LogDamage("binlog.000001 is damaged at 7"),)
    ((severity, text),) = of(ctx, "log")
    assert severity == "critical" and "binlog.000001 is damaged at 7" in text

    def fails(*_: object) -> None:
        raise Refused("it is encrypted")

    monkeypatch.setattr(type(ctx.log_reader), "live_log_damage", fails)
    ((severity, text),) = of(ctx, "log")
    assert severity == "warning" and "it cannot be told that it leads on from" in text
    monkeypatch.setattr(type(ctx.log_reader), "live_log_damage", lambda *_: None)
    assert of(ctx, "log") == []
    world.pools.destroy_snapshot(f"tank/db@{ctx.catalog().backups[-1].name}")
    assert of(ctx, "log") == [], "there is no whole backup"
    assert of(ctx, "drills") == []


def test_backups_that_are_no_use_are_named(world: World, ctx: Context) -> None:
    assert of(ctx, "backups") == []
    whole = ctx.catalog().backups[-1]
    world.state.elapsed += timedelta(minutes=1)
    for _ in every_break(world, lambda: snapshot(ctx), ("killed after",)):
        if any(not b.finished for b in ctx.catalog().backups):
            break
    ((severity, text),) = of(ctx, "backups")
    assert severity == "warning" and "was not finished; the next zbackup snapshot does that" in text
    snapshot(ctx)
    world.pools.destroy_snapshot(str(whole.snapshots[0]))
    ((severity, text),) = of(ctx, "backups")
    assert f"misses a dataset's snapshot and restores nothing; it still has {whole.snapshots[1]}" in text
    world.pools.snapshot_called(str(whole.snapshots[1])).properties["zbackup:version"] = "99"
    ((severity, text),) = of(ctx, "backups")
    assert severity == "warning" and text.startswith(f"{whole.snapshots[1]} cannot be read: ")


def test_clones_and_pins_that_nobody_needs_are_named(world: World, ctx: Context) -> None:
    unfinished(ctx, "half")
    ((severity, text),) = of(ctx, "clones")
    assert severity == "warning" and "half" in text
    with_one = replace(ctx, destinations=(world.destination(),))
    ship(with_one, with_one.destinations[0])
    assert of(with_one, "pins") == [("ok", "0 for destinations that are gone")]
    found = of(ctx, "pins")
    assert found[0] == ("ok", f"{len(found) - 1} for destinations that are gone")
    assert (
        all(s == "warning" and text.endswith("; zbackup release --stale") for s, text in found[1:])
        and found[1:]
    )


def test_files_that_are_needed_on_the_day_are_looked_for(
    world: World, ctx: Context, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, gone = tmp_path / "there", tmp_path / "gone"
    there.touch()
    steps = (Mask(sql=str(there)), Mask(run=(str(gone), "x")))
    key: Any = SimpleNamespace(name="away", address="ssh://h/b", files=(there, gone), here="")
    made = replace(
        ctx, cloning=replace(ctx.cloning, mask=steps),
        destinations=(replace(world.destination(), adapter=key),),
    )  # fmt: skip
    monkeypatch.setattr(room, "ready", lambda *_: "it answers")
    report = check(made, Expected())
    lacking = [(f.subject, f.text) for f in report.findings if "is not there, or cannot be seen" in f.text]
    assert [subject for subject, _ in lacking] == [f"mask {gone}", "destination away"]
    assert ("ok", "ssh://h/b: it answers") in of(made, "destination away")
    assert report.exit_status == ConfigError.exit_status

    def hidden(_: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(Path, "is_file", hidden)
    assert sum("is not there" in f.text for f in check(made, Expected()).findings) == 4


def test_what_else_is_logged_in_to_is_looked_at(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier: Any = SimpleNamespace(configured=False, require_account=lambda: "shop@localhost")
    given = replace(ctx, copier=lambda: copier, destinations=(world.destination(),))
    assert of(given, "copying back") == []
    copier.configured = True
    assert of(given, "copying back") == [("ok", "shop@localhost")]
    monkeypatch.setattr(room, "archive_destinations", lambda ctx: ctx.destinations)
    monkeypatch.setattr(room, "archive_ready", lambda *_: "it is archived")
    assert of(given, "archive vault") == []
    archiving = replace(given, archive=object())  # type: ignore[arg-type]
    assert of(archiving, "archive vault") == [("ok", "zfs:vault/backups: it is archived")]
    assert of(given, "destination vault")[0][0] == "ok"


def test_advice_counts_and_is_told(world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    for found, said in ((1, "1 remark"), (2, "2 remarks")):
        advice = [Finding(severity="warning", subject="pool", text="it is full")] * found
        monkeypatch.setattr(room, "examine", lambda *_, advice=advice: advice)
        assert of(ctx, "settings") == [("ok", said)] and len(of(ctx, "pool")) == found

    def fails(*_: object) -> None:
        raise CommandFailed(("zfs",), 1, "no")

    monkeypatch.setattr(room, "examine", fails)
    assert of(ctx, "settings")[0][0] == "critical"


def test_a_drill_that_failed_is_told_and_that_there_was_none(world: World, ctx: Context) -> None:
    assert [severity for severity, _ in of(ctx, "drills")] == ["advice"]
    check(ctx, Expected(), with_drill=True)
    assert of(ctx, "drills")[0][0] == "ok"
    world.damaged_tables = ("shop.orders: a page has a wrong checksum",)
    check(ctx, Expected(), with_drill=True)
    ((severity, text),) = of(ctx, "drill")
    assert severity == "critical" and "shop.orders" in text
