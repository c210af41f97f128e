"""Prune on a real pool: what goes, what is left alone, and that it ends the same wherever it is killed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lab.mysql_fixture import Settings
from tests.lab.pool import Pool, run
from tests.lab.repeats import some
from tests.platform.contexts import context
from tests.unit.samples import PLAIN
from zbackup.clock import SystemClock
from zbackup.jobs.backup.prune import plan_prune, prune
from zbackup.jobs.cleanup.cleanup import reconcile
from zbackup.jobs.context import Context
from zbackup.model.record import to_properties
from zbackup.model.retention import CONDEMNED, Retention, Span
from zbackup.model.shipping import hold_tag
from zbackup.proc.run import run as really_run
from zbackup.zfs.datasets import Zfs

NOW = datetime.now(UTC)
RULES = Retention(last=2, minimum=1, window=Span(1, "hour"))
_numbers = iter(range(10**6))


class Killed(BaseException):
    """As if the process had died: nothing of zbackup's catches it."""


class Home:
    """Two datasets, one in the other, with spaces in their names, and backups of them."""

    def __init__(self, pool: Pool) -> None:
        number = next(_numbers)
        self.outer = pool.dataset(f"home {number}")
        self.inner = pool.dataset(f"home {number}/bin log")
        self.settings = Settings(flavour="mariadb-10.11", datadir=self.outer.mountpoint, run_dir=pool.home)
        self.pool = pool

    @property
    def members(self) -> tuple[tuple[str, str], ...]:
        return tuple((d.name, str(d.mountpoint)) for d in (self.outer, self.inner))

    def context(self, runner: Callable[..., str] = really_run, rules: Retention = RULES) -> Context:
        made = context(self.pool, self.settings, (self.outer.name,), runner=runner)
        return replace(made, retention=rules)

    def backup(self, number: int, *, instance: str = "shop", log: str = "log") -> None:
        """Number n was taken 8 - n days ago; each holds the log of all before it."""
        taken = NOW - timedelta(days=8 - number)
        (self.outer.mountpoint / "table").write_bytes(bytes([number]) * 200_000)
        record = replace(
            PLAIN,
            backup=f"backup-{number}",
            instance=instance,
            members=self.members,
            taken=taken,
            as_of=taken,
            complete_to=taken,
            log_id=log,
            log_from="binlog.000001:4",
            log_to=f"binlog.{number:06}:100",
        )
        names = [f"{d}@zbackup-{number}" for d, _ in self.members]
        Zfs().snapshot(names, to_properties(record), timeout=60)

    def snapshots(self) -> list[str]:
        """Of both datasets."""
        names = run("zfs", "list", "-Hrt", "snapshot", "-o", "name", self.outer.name).splitlines()
        return [name.removeprefix(self.outer.name) for name in names]

    def left(self) -> set[str]:
        """Names of snapshots that are still whole."""
        found = [name.partition("@")[2] for name in self.snapshots()]
        return {name for name in found if found.count(name) == 2}


@pytest.fixture
def home(pool: Pool) -> Iterator[Home]:
    made = Home(pool)
    for number in range(1, 7):
        made.backup(number)
    yield made
    run("zfs", "destroy", "-rR", made.outer.name)


class Door:
    """Runs commands, and dies before or after the Nth that changes something."""

    def __init__(self, number: int = 0, *, after: bool = False) -> None:
        self.number, self.after, self.calls = number, after, 0

    def __call__(self, argv: Sequence[str], *, mutates: bool, timeout: float) -> str:
        self.calls += mutates
        mine = mutates and self.calls == self.number
        if mine and not self.after:
            raise Killed
        said = really_run(argv, mutates=mutates, timeout=timeout)
        if mine:
            raise Killed
        return said


def test_the_dry_run_says_what_goes_and_what_it_frees_and_changes_nothing(home: Home) -> None:
    before = home.snapshots()
    plan = plan_prune(home.context())
    assert [b.name for b in plan.retention.destroy] == [f"zbackup-{n}" for n in range(1, 5)]
    # Four versions of a file of 200,000 bytes, which compress well; shared metadata is counted once.
    assert plan.freed is not None and plan.freed > 4 * 1000
    assert home.snapshots() == before


def test_what_no_rule_wants_goes_and_a_second_run_finds_nothing(home: Home) -> None:
    report = prune(home.context())
    assert [b.name for b in report.destroyed] == [f"zbackup-{n}" for n in range(1, 5)]
    assert report.skipped == ()
    assert home.left() == {"zbackup-5", "zbackup-6"} and len(home.snapshots()) == 4
    assert prune(home.context()).destroyed == ()


def test_a_backup_of_which_a_part_is_mounted_by_hand_stays_whole(home: Home, tmp_path: Path) -> None:
    """The message names the mount, and the others go."""
    run("mount", "-t", "zfs", f"{home.outer.name}@zbackup-2", str(tmp_path))
    try:
        report = prune(home.context())
        assert [b.name for b in report.destroyed] == ["zbackup-1", "zbackup-3", "zbackup-4"]
        (skipped,) = report.skipped
        assert f"{home.outer.name}@zbackup-2 is also mounted at {tmp_path}" in skipped.why
        assert home.left() == {"zbackup-2", "zbackup-5", "zbackup-6"}
        (kept,) = (b for b in home.context().catalog().backups if b.name == "zbackup-2")
        assert kept.complete and not [s for s in kept.snapshots if CONDEMNED in dict(s.properties)]
    finally:
        run("umount", str(tmp_path))
    assert [b.name for b in prune(home.context()).destroyed] == ["zbackup-2"]


def test_holds_that_nobody_will_release_are_reported(home: Home) -> None:
    ctx = home.context()
    gone, other = (hold_tag("db1", name, "offsite") for name in ("shop", "other"))
    for tag in (gone, other, "audit"):
        run("zfs", "hold", tag, f"{home.outer.name}@zbackup-2")
    found = reconcile(ctx)
    assert [text for text in found.reported if "held by" in text] == [
        f"{home.outer.name}@zbackup-2 is held by {gone}, a destination that is not configured any more: "
        f"zbackup release {ctx.instance} --stale"
    ]
    for tag in (gone, other, "audit"):
        run("zfs", "release", tag, f"{home.outer.name}@zbackup-2")


def test_what_does_not_fit_into_a_turn_is_left_for_the_next(home: Home) -> None:
    class Slow(SystemClock):
        """Ten seconds go by between two looks."""

        looks = 0

        def monotonic(self) -> float:
            self.looks += 1
            return 10.0 * self.looks

    report = prune(replace(home.context(), clock=Slow()), 25.0)
    assert [b.name for b in report.destroyed] == ["zbackup-1"]
    assert (report.left, report.more) == (3, True)
    assert home.left() == {f"zbackup-{n}" for n in range(2, 7)}
    report = prune(home.context(), 0.0)
    assert (report.destroyed, report.left, report.more) == ((), 3, False)
    report = prune(home.context())
    assert (len(report.destroyed), report.left, report.more) == (3, 0, False)


def test_without_a_policy_nothing_goes(home: Home) -> None:
    before = home.snapshots()
    assert prune(home.context(rules=Retention())).destroyed == ()
    assert home.snapshots() == before


@pytest.mark.parametrize("after", some([False, True], True), ids=lambda after: "after" if after else "before")
def test_killed_at_any_command_and_run_again_it_ends_the_same(pool: Pool, after: bool) -> None:
    """Four snapshots of two backups, each backup condemned first: six commands."""
    for number in range(1, 7):
        home = Home(pool)
        for made in range(3, 7):
            home.backup(made)
        door = Door(number, after=after)
        with pytest.raises(Killed):
            prune(home.context(door))
        incomplete = [b for b in home.context().catalog().backups if not b.complete]
        assert len(incomplete) <= 1
        assert all(CONDEMNED in dict(s.properties) for b in incomplete for s in b.snapshots)
        prune(home.context())
        assert home.left() == {"zbackup-5", "zbackup-6"} and len(home.snapshots()) == 4
        run("zfs", "destroy", "-r", home.outer.name)


def test_each_backup_takes_three_commands(home: Home) -> None:
    """So the test before this one has missed none."""
    door = Door()
    prune(home.context(door))
    assert door.calls == 4 * 3


def test_the_held_the_cloned_and_the_foreign_stay_with_their_reasons(pool: Pool, home: Home) -> None:
    run("zfs", "hold", "my tag", f"{home.inner.name}@zbackup-1")
    run("zfs", "clone", f"{home.outer.name}@zbackup-2", f"{pool.name}/cl one")
    run("zfs", "snapshot", "-r", f"{home.outer.name}@by hand")
    home.backup(7, instance="other")
    try:
        report = prune(home.context())
        reasons = {k.backup.name: tuple(map(str, k.reasons)) for k in report.plan.retention.keep}
        assert reasons["zbackup-1"] == ("held by my tag",)
        assert reasons["zbackup-2"] == (f"origin of clone {pool.name}/cl one",)
        assert home.left() == {
            "zbackup-1", "zbackup-2", "zbackup-5", "zbackup-6", "zbackup-7", "by hand",
        }  # fmt: skip
    finally:
        run("zfs", "release", "my tag", f"{home.inner.name}@zbackup-1")
        run("zfs", "destroy", f"{pool.name}/cl one")


def test_one_that_becomes_busy_is_skipped_and_the_others_go(home: Home) -> None:
    held = f"{home.inner.name}@zbackup-2"

    def runner(argv: Sequence[str], *, mutates: bool, timeout: float) -> str:
        if mutates and argv[-1] == held:
            really_run(("zfs", "hold", "late", held), mutates=True, timeout=60)
        return really_run(argv, mutates=mutates, timeout=timeout)

    report = prune(home.context(runner))
    assert [b.name for b in report.destroyed] == ["zbackup-1", "zbackup-3", "zbackup-4"]
    assert [s.backup.name for s in report.skipped] == ["zbackup-2"]
    assert "is needed by now, held by late: left for the next prune" in report.skipped[0].why
    assert home.left() == {"zbackup-2", "zbackup-5", "zbackup-6"}
    again = prune(home.context())
    assert {k.backup.name: tuple(map(str, k.reasons)) for k in again.plan.retention.keep}["zbackup-2"] == (
        "held by late",
    )
    (spared,) = [b for b in home.context().catalog().backups if b.name == "zbackup-2"]
    assert not any(CONDEMNED in dict(s.properties) for s in spared.snapshots)
    run("zfs", "release", "late", held)
    assert [b.name for b in prune(home.context()).destroyed] == ["zbackup-2"]


def test_remains_that_no_prune_left_stay(home: Home) -> None:
    run("zfs", "destroy", f"{home.inner.name}@zbackup-1")
    report = prune(home.context())
    assert "zbackup-1" not in [b.name for b in report.destroyed]
    assert "@zbackup-1" in home.snapshots()


def test_a_name_that_another_snapshot_has_by_now_is_not_touched(home: Home) -> None:
    """Somebody destroys a snapshot and takes one of the same name between the look and the act."""
    name = f"{home.outer.name}@zbackup-1"
    swapped: list[str] = []

    def runner(argv: Sequence[str], *, mutates: bool, timeout: float) -> str:
        if argv[1] == "get" and argv[-1] == name and "guid" in argv and not swapped:
            swapped.append(name)
            run("zfs", "destroy", name)
            run("zfs", "snapshot", name)
        return really_run(argv, mutates=mutates, timeout=timeout)

    report = prune(home.context(runner))
    assert [s.backup.name for s in report.skipped] == ["zbackup-1"]
    assert "is not the one expected" in report.skipped[0].why
    assert {"@zbackup-1", "/bin log@zbackup-1"} <= set(home.snapshots())
