"""Shipping of datasets that are not as plain as others, and to a destination with rules of its own."""

import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.lab.pool import Pool, run
from tests.platform.shipping import Yard
from zbackup.jobs.context import Context
from zbackup.jobs.ship.ship import ShipReport, preview, ship
from zbackup.model.errors import NotReceivable, Stopped
from zbackup.model.progress import Silent
from zbackup.model.retention import Retention, Span, Tier
from zbackup.plan.ship.ship import Abort, Send, Steps


def ship_now(yard: Yard, retention: Retention | None = None) -> ShipReport:
    ctx = yard.context(retention=retention) if retention else yard.context()
    return ship(ctx, ctx.destinations[0])


class Begun(Silent):
    """Knows when a part of a stream is under way."""

    there = False

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        self.there = self.there or done > 100_000


def begin(yard: Yard) -> Context:
    """Ship slowly, and stop when a part of the first stream has arrived."""
    begun = Begun()
    ctx = replace(yard.context(limit=1_000_000), progress=begun)
    with pytest.raises(Stopped):
        ship(ctx, ctx.destinations[0], stop=lambda: begun.there)
    return ctx


def test_encrypted_datasets_are_sent_raw_and_need_no_key_over_there(
    pool: Pool, vault: Pool, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("not a secret")
    encrypted = {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{key}"}
    yard = Yard(pool, vault, properties=encrypted)
    names = []
    for _ in range(2):
        names.append(yard.backup(2_000_000))
        begin(yard)
        sent = ship_now(yard).sent
        assert sent[0].step.token and all(one.step.part.raw for one in sent)
    assert yard.committed() == names
    copy = f"{yard.home}/{yard.inner.name}"
    assert run("zfs", "get", "-Ho", "value", "keystatus", copy).strip() == "unavailable"


def test_a_dataset_that_is_made_later_gets_a_full_copy_among_the_increments(yard: Yard) -> None:
    yard.backup()
    ship_now(yard)
    yard.members.append(yard.pool.dataset(yard.outer.name.partition("/")[2] + "/later"))
    newest = yard.backup()
    ctx = yard.context(initial=False)
    sent = ship(ctx, ctx.destinations[0]).sent
    assert [bool(s.step.origin) for s in sent] == [True, True, False]
    assert yard.committed()[-1] == newest and yard.same(newest)


def test_a_renamed_dataset_goes_on_under_its_old_name_over_there(yard: Yard) -> None:
    yard.backup()
    ship_now(yard)
    old, new = yard.inner.name, f"{yard.outer.name}/renamed"
    run("zfs", "rename", old, new)
    where = Path(run("zfs", "get", "-Ho", "value", "mountpoint", new).strip())
    yard.members[1] = type(yard.inner)(name=new, mountpoint=where)
    newest = yard.backup()
    assert all(s.step.origin for s in ship_now(yard).sent)
    assert yard.committed()[-1] == newest
    assert run("zfs", "list", "-H", "-o", "name", f"{yard.home}/{old}@{newest}")


def test_volumes_are_left_alone(yard: Yard) -> None:
    volume = f"{yard.outer.name}/volume"
    run("zfs", "create", "-sV", "1M", volume)
    run("zfs", "snapshot", f"{volume}@mine")
    newest = yard.backup()
    ship_now(yard)
    assert yard.committed() == [newest]
    assert not [copy for copy in yard.copies() if "volume" in copy]


def test_what_the_destinations_rules_want_is_sent_and_nothing_else(yard: Yard) -> None:
    """Six backups in three hours, and a destination that keeps one an hour."""
    names = [yard.backup(50_000, every=timedelta(minutes=30)) for _ in range(6)]
    hourly = Retention(tiers=(Tier(step=Span(1, "hour"), span=None),), minimum=1, window=Span(1, "minute"))
    ship_now(yard, hourly)
    # 0:30 is the first of its hour, then 1:00, 2:00 and 3:00, which is the newest too.
    assert yard.committed() == [names[n] for n in (0, 1, 3, 5)]


def test_a_copy_that_was_written_to_is_not_rolled_back(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    copy, where = f"{yard.home}/{yard.inner.name}", yard.pool.home / "mounted copy"
    for change in ("readonly=off", f"mountpoint={where}"):
        run("zfs", "set", change, copy)
    run("zfs", "mount", copy)
    (where / "somebody wrote this").write_text("x" * 100_000)
    run("zfs", "unmount", copy)
    second = yard.backup()
    with pytest.raises(NotReceivable, match="modified"):
        ship_now(yard)
    assert yard.committed() == [first]
    run("zfs", "rollback", f"{copy}@{first}")
    run("zfs", "inherit", "mountpoint", copy)
    ship_now(yard)
    assert yard.committed() == [first, second]
    shutil.rmtree(where, ignore_errors=True)


def test_a_snapshot_destroyed_in_the_middle_is_given_up_and_a_newer_one_sent(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    second = yard.backup(3_000_000)
    ctx = begin(yard)
    assert yard.committed() == [first]
    for member in yard.members:
        run("zfs", "release", ctx.destinations[0].tag, f"{member.name}@{second}")
        run("zfs", "destroy", f"{member.name}@{second}")
        run("zfs", "destroy", newest_bookmark(member.name))
    third = yard.backup()
    plan = preview(ctx, ctx.destinations[0]).plan
    assert isinstance(plan, Steps)
    assert [type(step) for step in plan.steps][:2] == [Abort, Send]
    ship_now(yard)
    assert yard.committed() == [first, third] and yard.same(third)


def newest_bookmark(dataset: str) -> str:
    rows = run("zfs", "list", "-Hpt", "bookmark", "-s", "createtxg", "-o", "name", dataset)
    return rows.splitlines()[-1]
