"""Questions of `check`: whom it asks what, and what it makes of an answer that is not the usual one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fast.server import DATA, LOG, FakeEngine, FakeRecovery
from tests.fast.test_check import ctx, of
from tests.fast.test_drill import POOL
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.watch import check as checking
from zbackup.jobs.watch.check import check, examine
from zbackup.model.errors import CommandFailed, LockNotTaken
from zbackup.model.log import LogDamage
from zbackup.model.recovery import CheckedTables
from zbackup.model.server import OplogFacts, ServerFacts, Tuning
from zbackup.model.shipping import hold_tag
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.zfs.facts import ZfsFacts

__all__ = ["ctx"]


def test_where_no_lock_can_be_chosen_nobody_asks_for_its_privileges(
    ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise LockNotTaken("there is no lock for it")

    monkeypatch.setattr(FakeEngine, "choose_lock", refuses)
    assert of(ctx, "lock") == [("critical", "there is no lock for it")] and of(ctx, "privileges") == []


def test_the_server_program_is_looked_for_with_the_datasets_that_are_mounted(
    world: World, ctx: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def check_version(
        _: FakeRecovery, server: Mapping[str, str], version: str, members: Sequence[str] = ()
    ) -> str:
        asked.append(list(members))
        return "mysqld"

    monkeypatch.setattr(FakeRecovery, "check_version", check_version)
    check(ctx, Expected())
    check(replace(ctx, datasets=("tank/none",)), Expected())
    world.writing = False
    world.pools.datasets["tank/db/log"].mounted = None
    check(ctx, Expected())
    assert asked == [[DATA, LOG], [], [DATA]]


def test_a_backup_that_does_not_say_which_log_it_holds_hides_no_other(world: World, ctx: Context) -> None:
    older = ctx.catalog().backups[-1]
    snapshot(ctx)
    for part in ctx.catalog().backups[-1].snapshots:
        for fact in ("log_id", "log_from", "log_to"):
            world.pools.snapshot_called(str(part)).properties.pop(f"zbackup:{fact}")
    assert of(ctx, "log") == [("ok", f"it can be read on from {older.name}")]


def test_a_torn_end_is_damage_only_while_the_server_runs(world: World, ctx: Context) -> None:
    world.server.damage = (LogDamage("binlog.000001 ends at 7", torn=True),)
    assert of(ctx, "log") == [("critical", "the server's log is damaged: binlog.000001 ends at 7")]
    world.server.running = False
    assert of(ctx, "log") == [("warning", "the end of the server's log is torn: binlog.000001 ends at 7")]


def test_times_that_contradict_the_logs_order_are_told(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of(ctx, "log times") == []
    reach = FakeRecovery.reach
    monkeypatch.setattr(
        FakeRecovery, "reach", lambda *asked: replace(reach(*asked), out_of_order=("7 is older than 6",))
    )
    snapshot(ctx)
    assert of(ctx, "log times") == [("warning", "times in the log contradict its order: 7 is older than 6")]


def test_a_pin_is_named_by_its_tag_where_it_has_one(world: World, ctx: Context) -> None:
    there = replace(ctx, destinations=(world.destination(),))
    ship(there, there.destinations[0])
    tag = hold_tag("this.host", "shop", "gone")
    (held, _) = ctx.catalog().backups[-1].snapshots
    world.pools.snapshot_called(str(held)).holds[tag] = 0
    said = [text for severity, text in of(there, "pins") if severity == "warning"]
    assert len(said) == 1 and said[0].startswith(f"hold {tag} on {held}: ")
    marks = [text for _, text in of(ctx, "pins") if text.startswith("bookmark ")]
    assert marks and all(text.startswith("bookmark tank/db") for text in marks)


def test_how_many_tables_a_drill_checked_is_said(ctx: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    def said() -> str:
        (text,) = (f.text for f in check(ctx, Expected(), with_drill=True).findings if f.subject == "restore")
        return text

    assert said().endswith(" was recovered, 1 table checked, and removed")
    found = CheckedTables(tables=3, unchecked=("shop.u",))
    monkeypatch.setattr(FakeRecovery, "check_tables", lambda *_: found)
    assert said().endswith("3 tables checked, 1 NOT CHECKED (to be upgraded first), and removed")


@pytest.fixture
def asked(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Context]:
    """A host whose pool, ARC and clock are as they should be."""
    monkeypatch.setattr(ZfsFacts, "pool", lambda *_: POOL)
    monkeypatch.setattr(ZfsFacts, "arc_limit", lambda _: 1 << 40)
    monkeypatch.setattr(checking, "run", lambda *_, **__: "yes\n")
    monkeypatch.setattr(checking, "NET", tmp_path)
    made = world.context()
    snapshot(made)
    yield made


def looks(ctx: Context, server: ServerFacts | None, expected: Expected | None = None) -> dict[str, str]:
    """By subject what the doctor says."""
    return {f.subject: f.text for f in examine(ctx, ctx.catalog(), server, expected or Expected())}


def test_the_doctor_looks_at_the_servers_settings_where_it_answers(asked: Context) -> None:
    plain = asked.engine.inspect()
    assert looks(asked, None) == looks(asked, plain) == {}
    tuning = Tuning(
        log_retention_s=60.0, retention_setting="binlog_expire_logs_seconds", page_size=4096,
        data_directory=f"{DATA}/data", double_write=False, keep_setting="SET PERSIST",
    )  # fmt: skip
    assert looks(asked, replace(plain, tuning=tuning)).keys() == {"log retention", "recordsize"}
    oplog = OplogFacts(used=99, most=100, span_s=60.0, kept_s=0.0, data_directory=f"{DATA}/data")
    assert "oplog" in looks(asked, replace(plain, flavor="mongodb", oplog=oplog))


def test_the_doctor_says_that_the_newest_lock_was_long(asked: Context) -> None:
    assert "lock" in looks(asked, None, Expected(lock_ceiling=0.003))
    assert "lock" not in looks(asked, None, Expected(lock_ceiling=0.005))
    assert looks(replace(asked, instance="new"), None, Expected(lock_ceiling=0.003)) == {}


def test_the_doctor_tells_of_a_clock_that_nobody_keeps_right(
    asked: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "run", lambda *_, **__: "no\n")
    assert looks(asked, None).keys() == {"clock"}

    def fails(*_: object, **__: object) -> str:
        raise CommandFailed(("timedatectl",), 127, "not found")

    monkeypatch.setattr(checking, "run", fails)
    assert looks(asked, None) == {}, "nobody can tell"


def test_the_doctor_tells_of_ports_that_connections_take(asked: Context) -> None:
    first, last = asked.cloning.ports
    (checking.NET / "ip_local_port_range").write_text(f"{first}\t{last}\n")
    assert looks(asked, None).keys() == {"clones"}
    (checking.NET / "ip_local_reserved_ports").write_text(f"{first}-{last}\n")
    assert looks(asked, None) == {}
