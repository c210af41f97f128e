"""From the configuration to what the daemon does."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup import app
from zbackup.config.load import parse
from zbackup.daemon.job_table import JobTable
from zbackup.daemon.service import fixed_at_start
from zbackup.daemon.tasks import drill_rules, histories, tasks
from zbackup.jobs.drills.scheduled_drill import _is_due
from zbackup.jobs.journal import JobState
from zbackup.model.cron import Cron
from zbackup.model.errors import ConfigError
from zbackup.model.schedule import Interval, Retry
from zbackup.plan.due import History, due, offset

SHOP = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/shop"]\n'
WIKI = '[instance.wiki]\nengine = "mariadb"\ndatasets = ["tank/wiki"]\n'
NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_what_is_not_scheduled_is_left_alone() -> None:
    settings = parse(
        f'timezone = "Asia/Tokyo"\n{SHOP}schedule = {{ snapshot = "5m", jitter = "9s" }}\n{WIKI}'
    )
    found = {task.key: task for task in tasks(settings)}
    assert list(found) == [("shop", "reconcile"), ("shop", "snapshot"), ("shop", "watch"), ("shop", "leases")]
    assert found["shop", "reconcile"].timing is None
    assert found["shop", "watch"].timing == Interval(300)
    snapshot = found["shop", "snapshot"]
    assert (snapshot.timing, snapshot.retry, snapshot.jitter) == (Interval(300), Retry(first=30, most=900), 9)
    assert snapshot.zone.key == "Asia/Tokyo"


def test_all_that_can_be_scheduled() -> None:
    settings = parse(f'{SHOP}schedule = {{ prune = "0 3 * * *", retry = "1m", retry_max = "2h" }}\n')
    found = {task.key[1]: task for task in tasks(settings)}
    assert found["prune"].timing == Cron.parse("0 3 * * *")
    assert found["prune"].retry == Retry(first=60, most=7200)
    assert "snapshot" not in found


SHIP = '[[instance.shop.ship]]\nto = "zfs:vault/b"\nname = "here"\nretention = { last = 3 }\n'


def test_a_host_that_only_receives_prunes_there_and_has_nothing_else_to_do() -> None:
    found = {task.key: task for task in tasks(parse(f'{SHOP}{SHIP}prune = "0 4 * * *"\n'))}
    assert list(found) == [("shop", "prune:here")]
    assert found["shop", "prune:here"].timing == Cron.parse("0 4 * * *")


def test_a_promise_is_watched_also_where_ship_is_not_on_schedule() -> None:
    found = [task.key[1] for task in tasks(parse(f'{SHOP}{SHIP}max_lag = "1h"\n'))]
    assert found == ["reconcile", "watch", "leases"]


def test_what_was_different_is_not_compared_again_every_minute() -> None:
    settings = parse(f'{SHOP}schedule = {{ ship = "15m" }}\n{SHIP}prune = "1d"\nverify = "7d"\n')
    found = {task.key[1]: task for task in tasks(settings)}
    assert list(found) == ["reconcile", "ship", "watch", "leases", "prune:here", "verify:here"]
    assert found["prune:here"].retry == Retry(first=30, most=900)
    assert found["verify:here"].retry == Retry(first=900, most=6 * 3600)


def test_nothing_to_do_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="no instance has a schedule"):
        tasks(parse(SHOP))


def test_prunes_are_remembered_and_snapshots_are_read_from_zfs() -> None:
    jobs = ("snapshot", "prune", "watch", "prune:here", "verify:here")
    rows = [JobState(instance="shop", job=job, last=NOW, failures=3) for job in jobs]
    kept = ("prune", "prune:here", "verify:here")
    assert histories(rows) == {("shop", job): History(last=NOW) for job in kept}


def test_a_difference_is_remembered_over_a_restart() -> None:
    failed = {"failures": 2, "failed": NOW, "message": "other data"}
    kinds = ("VerificationFailed", "ConnectionFailed")
    rows = [JobState(instance=e, job="verify:here", error=e, **failed) for e in kinds]  # type: ignore[arg-type]
    different = History(failures=2, failed=NOW, error="VerificationFailed", message="other data")
    assert histories(rows) == {
        ("VerificationFailed", "verify:here"): different,
        ("ConnectionFailed", "verify:here"): History(),
    }


def test_what_only_a_restart_takes_on() -> None:
    old = parse(f"{SHOP}")
    new = parse(f'run_dir = "/run/other"\ndaemon = {{ workers = 9, watch = "1m" }}\n{SHOP}')
    assert fixed_at_start(old, new) == ["daemon.workers", "run_dir"]
    assert fixed_at_start(old, old) == []


def test_drills_here_and_at_a_destination() -> None:
    settings = parse(f'{SHOP}schedule = {{ drill = "weekly", drill_limit = "2h" }}\n{SHIP}drill = "30d"\n')
    found = {task.key[1]: task for task in tasks(settings)}
    assert found["drill"].timing == Cron.parse("@weekly") and found["drill:here"].timing == Interval(
        30 * 86_400
    )
    assert found["drill"].retry == Retry(first=900, most=6 * 3600)
    assert app.drill_limits(settings) == {("shop", ""): 7200.0, ("shop", "here"): 7200.0}
    assert app.expected(settings, settings.instance["shop"], NOW).drills == (
        ("", 7 * 86_400.0),
        ("here", 30 * 86_400.0),
    )
    rows = [JobState(instance="shop", job="drill:here", last=NOW)]
    assert histories(rows) == {("shop", "drill:here"): History(last=NOW)}


def test_lateness_is_judged_by_the_slots_that_the_daemon_takes() -> None:
    by_day = "*/5 8-18 * * *"
    settings = parse(
        f'{SHOP}schedule = {{ snapshot = "{by_day}", drill = "weekly", jitter = "50m" }}\n'
        f'{SHIP}drill = "0 4 * * sun"\n{WIKI}schedule = {{ snapshot = "5m" }}\n'
    )
    shop, wiki = (app.expected(settings, settings.instance[name], NOW) for name in ("shop", "wiki"))
    found = {task.key[1]: task for task in tasks(settings) if task.key[0] == "shop"}
    assert shop.snapshot_slots and wiki.snapshot_slots is None
    slots = {"snapshot": shop.snapshot_slots, **{f"drill:{n}".strip(":"): s for n, s in shop.drill_slots}}
    assert list(slots) == ["snapshot", "drill", "drill:here"]
    for job, each in slots.items():
        task, last = found[job], History(last=NOW)
        share = offset(":".join(task.key), task.jitter)
        assert share and task.timing
        assert each.after(NOW) == due(task.timing, task.retry, last, NOW, task.zone, offset=share).at


@pytest.mark.parametrize("destination", ["", "here"])
def test_a_drill_is_due_in_the_table_of_jobs_when_it_is_due_for_its_maker(destination: str) -> None:
    """Else the table calls for a drill that is not made, and calls again at once."""
    ship = SHIP.replace("]]\n", ']]\ndrill = "1h"\n')
    settings = parse(f'{SHOP}schedule = {{ drill = "1h", jitter = "50m" }}\n{ship}')
    task = next(
        t for t in tasks(settings) if t.key[1] == (f"drill:{destination}" if destination else "drill")
    )
    rules = drill_rules(
        settings, "shop", cast(Any, SimpleNamespace(name=destination)) if destination else None
    )
    assert rules.offset > 60
    for late in range(0, 7200, 120):
        now = NOW + timedelta(seconds=late)
        table = JobTable(
            cast(Any, SimpleNamespace(now=lambda n=now: n, monotonic=float)), cast(Any, _Never()), _run
        )
        table.set_tasks([task], {task.key: History(last=NOW)})
        assert (table.due()[task.key].at <= now) == _is_due(NOW, rules, now), now


class _Never:
    """A scheduler that begins nothing."""

    def at(self, *_: object, **__: object) -> None:
        pass

    def forget(self, *_: object) -> None:
        pass


def _run(_: object) -> Any:
    raise AssertionError("nothing is begun")
