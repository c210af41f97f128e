"""Reports of each command, as people read them."""

import dataclasses
import re
from typing import cast

import pytest
import typer

from tests.unit.reports import (
    ASKED,
    BERLIN,
    DEV,
    DRILLED,
    LISTING,
    PLAN,
    PRUNED,
    REPLAY,
    REPORT,
    SOUND,
    STALE,
    STATUS,
    VERIFIED,
    WINDOW,
    Place,
    a_backup,
    a_status,
    a_transaction,
    at,
    done,
)
from zbackup.catalog.local import Catalog
from zbackup.cli import (
    check,
    clone,
    clone_create,
    listing,
    prune,
    release,
    restore_report,
    snapshot,
    status,
    verify,
    window,
)
from zbackup.cli.options import Options
from zbackup.cli.window import LEGEND
from zbackup.jobs.backup.prune import PrunePlan, PruneReport
from zbackup.jobs.backup.snapshot import SnapshotReport
from zbackup.jobs.clones.lifecycle import CloneList
from zbackup.jobs.context import Context
from zbackup.jobs.watch.check import CheckReport
from zbackup.model.errors import UsageError
from zbackup.model.finding import Finding
from zbackup.model.moment import parse_moment
from zbackup.model.recovery import LaterStop
from zbackup.model.server import LockChoice
from zbackup.model.target import BeforeTransaction, UnseenTransaction
from zbackup.model.transaction_name import parse_transaction
from zbackup.plan.recovery.window import RecoveryWindow, Window
from zbackup.plan.retention.retention import RetentionPlan


def test_restore_report_for_people() -> None:
    assert restore_report.render_report(ASKED, REPORT).splitlines() == [
        "Restored shop as of 2024-05-01 10:02:00 CEST (Europe/Berlin) = 2024-05-01T08:02:00Z",
        "  base           zbackup-20240501T080000Z (last transaction 2024-05-01 10:00:00.500000 CEST)",
        "  log from       a snapshot to be taken now",
        "  replayed       32 transactions, 3.0 MiB of log",
        "  last applied   2024-05-01 10:01:59.250000 CEST, binlog.000012:5000 to 5100, GTID u:41",
        "  first skipped  none: the log ends before",
        "  position       binlog.000012:5100",
        "  GTIDs          u:1-41",
        "  clone          shop-x",
        "  socket         /run/zbackup/shop-x/mysqld.sock",
        "  port           127.0.0.1:3307",
        "  took           1 min 1 s: inspecting 250 ms, replaying 1 min 1 s",
        "  newest before",
        "",
        "Connect with:",
        "  mysql --socket=/run/zbackup/shop-x/mysqld.sock",
    ]


def test_restore_plan_says_what_is_unusual() -> None:
    asked = restore_report.Asked("shop", BERLIN, parse_moment("2024-05-01 10:02:00.5", BERLIN, at(30)))
    replay = dataclasses.replace(REPLAY, last_applied=None, out_of_order=2)
    plan = dataclasses.replace(PLAN, replay=replay, log=a_backup(), warnings=("2 channels write one log",))
    text = restore_report.render_plan(asked, plan)
    assert text.startswith("Plan for shop as of 2024-05-01 10:02:00.500000 CEST")
    assert "log from       zbackup-20240501T080000Z" in text
    assert "none: the base is the newest state before" in text
    assert "the replay stops at 2024-05-01 10:02:00 CEST" in text
    assert "warning: 2 channels write one log" in text
    assert restore_report.plan_shape(asked, plan)["warnings"] == ["2 channels write one log"]


def test_a_restore_before_a_transaction_names_it_as_it_was_asked_for() -> None:
    left_out = a_transaction(2, 5100, "u:42")
    recovered = dataclasses.replace(REPORT.recovered, first_skipped=left_out)
    report = dataclasses.replace(REPORT, recovered=recovered)
    name = parse_transaction("binlog.000012:5150")
    asked = dataclasses.replace(ASKED, target=UnseenTransaction(name, ASKED.target.at))
    assert restore_report.headline(asked).startswith(
        "shop before binlog.000012:5150, which was committed before 2024-05-01 10:02:00 CEST"
    )
    found = BeforeTransaction(name=name, transaction=left_out, logs=frozenset())
    known = dataclasses.replace(ASKED, target=found)
    assert restore_report.headline(known).startswith(
        "shop before binlog.000012:5150, committed 2024-05-01 10:02:59.250000 CEST"
    )
    for each in (asked, known):
        shape = restore_report.report_shape(each, report)
        assert (shape["before"], shape["cluster_time"]) == ("binlog.000012:5150", None)
    assert restore_report.report_shape(ASKED, report)["before"] is None


def test_one_transaction_is_one() -> None:
    later = LaterStop(first_skipped=None, transactions=2)
    one = dataclasses.replace(PLAN, replay=dataclasses.replace(REPLAY, transactions=1, later=later))
    text = restore_report.render_plan(ASKED, one)
    assert "would replay   1 transaction," in text
    assert "disputed, and were accepted: the stop point may be 1 transaction later" in text
    assert restore_report.plan_shape(ASKED, one)["clock_accepted"]


def test_another_time_zone_is_a_warning_and_no_success() -> None:
    recovered = dataclasses.replace(REPORT.recovered, other_zone="the original's own time zone is not known")
    report = dataclasses.replace(REPORT, recovered=recovered)
    assert "warning: the original's own time zone is not known" in restore_report.render_report(ASKED, report)
    assert restore_report.report_shape(ASKED, report)["other_zone"] == recovered.other_zone
    assert restore_report.report_shape(ASKED, REPORT)["other_zone"] is None
    assert restore_report.exit_status(report) == 18
    assert restore_report.exit_status(REPORT) == restore_report.exit_status(PLAN) == 0
    disputed = dataclasses.replace(recovered, clock_accepted=True)
    assert restore_report.exit_status(dataclasses.replace(REPORT, recovered=disputed)) == 16


@pytest.mark.parametrize("key", ["other_settings", "other_tables"])
def test_other_settings_and_tables_are_warnings_and_no_success(key: str) -> None:
    recovered = dataclasses.replace(REPORT.recovered, **{key: "it is another one"})
    report = dataclasses.replace(REPORT, recovered=recovered)
    assert "warning: it is another one" in restore_report.render_report(ASKED, report)
    assert restore_report.report_shape(ASKED, report)[key] == "it is another one"
    assert restore_report.report_shape(ASKED, REPORT)[key] is None
    assert restore_report.exit_status(report) == 19


def test_list_for_people() -> None:
    text = listing.render("shop", LISTING, BERLIN)
    lines = text.splitlines()
    assert lines[0] == "Instance shop"
    assert re.split(r"  +", lines[1]) == [h.upper() for h in listing.HEADER]
    assert re.split(r"  +", lines[2]) == [
        "zbackup-20240501T080000Z", "2024-05-01 10:00:00 CEST", "backup-lock (waited 3 ms, held 41 ms)",
        "binlog.000012:4567", "2.0 KiB", "4.0 KiB", "2", "1",
    ]  # fmt: skip
    assert lines[3].endswith("log only; unfinished")
    assert "after 2024-05-01 10:00:00.500000 CEST and up to now can be restored (Europe/Berlin)" in text
    assert lines[-2].endswith("can be restored as it is: zbackup restore shop --to-backup NAME.")
    assert lines[-1] == "t@x cannot be read: newer"
    assert "Nothing can be restored yet" in listing.render(
        "x", listing.Listing(Catalog((), (), ()), None), BERLIN
    )


def test_a_list_does_not_contradict_itself() -> None:
    """It said "any moment … up to now", and then that there were two gaps."""
    hole = (at(5), at(9))
    found = dataclasses.replace(LISTING, window=Window(start=at(0), end=None, gaps=1, holes=(hole,)))
    assert listing.render("shop", found, BERLIN).splitlines()[4:6] == [
        "Any moment after 2024-05-01 10:00:00 CEST and up to now, except after 2024-05-01 10:05:00 CEST "
        "up to 2024-05-01 10:09:00 CEST, can be restored (Europe/Berlin).",
        "See why not the others: zbackup window shop.",
    ]
    many = dataclasses.replace(LISTING, window=Window(start=at(0), end=at(59), gaps=5, holes=(hole,) * 4))
    assert "and up to 2024-05-01 10:59:00 CEST, except in 4 gaps, can be" in listing.render(
        "shop", many, BERLIN
    )
    tail = dataclasses.replace(LISTING, window=Window(start=at(0), end=at(5), gaps=1))
    text = listing.render("shop", tail, BERLIN)
    assert "and up to 2024-05-01 10:05:00 CEST can be restored" in text
    assert "See why there is nothing after that: zbackup window shop." in text


def test_a_list_folds_what_restores_took_to_read_the_log_from() -> None:
    logs = tuple(a_backup(purpose="log", backup=f"log-{n}") for n in range(3))
    found = dataclasses.replace(LISTING, catalog=Catalog((), (a_backup(), *logs), ()))
    lines = listing.render("shop", found, BERLIN).splitlines()
    assert lines[3].startswith("3 log snapshots of restores (") and "zbackup list --logs" in lines[3]
    assert sum("log only" in line for line in lines) == 0
    lines = listing.render("shop", found, BERLIN, logs=True).splitlines()
    assert sum(line.endswith("log only") for line in lines) == 3


def test_snapshot_for_people() -> None:
    report = SnapshotReport(
        backup=a_backup(), lock=LockChoice("backup-lock", "all InnoDB"), warnings=("careful",)
    )
    assert snapshot._report_text([done(report)]).splitlines() == [
        "shop: zbackup-20240501T080000Z of tank/my db, tank/my db/log",
        "  last transaction 2024-05-01 10:00:00.500000 CEST, log position binlog.000012:4567",
        "  lock backup-lock, waited 3 ms, held 41 ms: all InnoDB",
        "  warning: careful",
    ]


def test_how_long_a_snapshot_is_kept_is_asked_for_or_usual() -> None:
    asked = snapshot.wishes("before-deploy", "12h", by_hand=False)
    assert (asked.label, asked.keep) == ("before-deploy", 43_200.0)
    usual = [("", False, None), ("", True, 86_400.0), ("v2.1", False, 30 * 86_400.0)]
    for label, by_hand, seconds in usual:
        assert snapshot.wishes(label, "", by_hand=by_hand).keep == seconds
    assert snapshot.wishes("", "0s", by_hand=True).keep is None
    for label, keep in (("a b", ""), ("-x", ""), ("", "soon"), ("é", "")):
        with pytest.raises(UsageError, match="is no "):
            snapshot.wishes(label, keep, by_hand=True)
    assert snapshot.wishes("", "3650d", by_hand=True).keep == 3650 * 86_400.0
    with pytest.raises(UsageError, match="longer than 10 years"):
        snapshot.wishes("", "60000d", by_hand=True)


def test_check_for_people() -> None:
    findings = (
        Finding(severity="ok", subject="datasets", text="tank/my db"),
        Finding(severity="critical", subject="server", text="down", exit_status=7),
    )
    assert check.render(CheckReport(instance="shop", findings=findings)).splitlines() == [
        "Instance shop: critical (1 critical, 0 warnings)",
        "  ok        datasets: tank/my db",
        "  critical  server: down",
    ]


def test_clones_for_people() -> None:
    text = clone.render(CloneList((STATUS, dataclasses.replace(STATUS, running=False))), BERLIN, at(30))
    assert re.split(r"  +", text.splitlines()[1]) == [
        "shop-x", "shop", "2024-05-01 10:02:00 CEST", "running", "3307", "4.0 KiB", "-",
        "zbackup-20240501T080000Z",
    ]  # fmt: skip
    assert "stopped" in text
    assert clone.render(CloneList(()), BERLIN, at(30)) == "There are no clones."
    lost = CloneList((STATUS,), (("tank/clones/x", "damaged"),))
    assert clone.render(lost, BERLIN, at(30)).splitlines()[-1] == "tank/clones/x cannot be read: damaged"


def test_a_dev_clone_for_people() -> None:
    row = re.split(r"  +", clone.render(CloneList((DEV,)), BERLIN, at(30)).splitlines()[1])
    assert row[6:8] == ["1 min 0 s", "base"]
    protected = dataclasses.replace(DEV.clone, protected=at(32).isoformat())
    listed = CloneList((dataclasses.replace(DEV, clone=protected),))
    row = re.split(r"  +", clone.render(listed, BERLIN, at(30)).splitlines()[1])
    assert row[6] == "2 min 0 s (protected)"
    assert re.split(r"  +", clone.render(CloneList((DEV,)), BERLIN, at(32)).splitlines()[1])[6] == "over"
    shown = clone.render_one(DEV, BERLIN, at(30))
    assert "/clones/shop-x/password" in shown and re.search(r"^Masked +yes$", shown, flags=re.M)
    made = clone_create.render([DEV], BERLIN)
    assert made.startswith("shop-x runs") and "in /clones/shop-x/password" in made


@pytest.mark.parametrize(("text", "seconds"), [("8h", 28800.0), ("90m", 5400.0), ("never", None)])
def test_a_lease_is_read(text: str, seconds: float | None) -> None:
    assert clone_create.lease_of(text) == seconds


def test_what_is_no_lease_is_said() -> None:
    with pytest.raises(UsageError, match='"soon" is no length of time'):
        clone_create.lease_of("soon")


def test_a_status_for_people() -> None:
    assert (
        status.render(a_status(), BERLIN)
        == """\
Instance shop: warning
  warning: space: tank has 15% free
      W.
      $ zfs list
  newest snapshot   zbackup-20240501T080000Z, 2 min 0 s ago, data as of 2024-05-01 10:00:00.500000 CEST, \
locked for 41 ms
  can be restored   after 2024-05-01 10:00:00 CEST, up to now
  next snapshot     in 3 min 0 s, 2024-05-01 10:05:00 CEST (on schedule)
  next prune        now (failed)
  last snapshot     ok, 2024-05-01 10:00:00 CEST, took 1.5 s
  last prune        failed 2 times, last 2024-05-01 10:01:00 CEST: busy
  daemon            runs
  works on it       zbackup restore (pid 7)
  at offsite        zbackup-20240501T080000Z, 2 min 0 s behind, data as of 2024-05-01 10:00:00.500000 CEST
  at cloud          nothing yet
  clones            1; running: shop-x
  drill             passed 2 h 2 min ago: zbackup-1 opened, 41 transactions replayed, \
brought to 2024-05-01 07:58:30 CEST, 14 tables checked, in 42.0 s
  drill at cloud    FAILED 1 h 2 min ago: zbackup-1: a table is damaged: shop.orders; passed 2 h 2 min ago
  drill at offsite  none yet
  space             data 40.0 GiB, snapshots 1.0 GiB, clones 0 B; tank has 15.0 GiB free (15%)
  backups           3; hourly: 2 (1.0 GiB), to be pruned: 1 (2.0 KiB)"""
    )


def test_a_status_of_nothing() -> None:
    text = status.render(
        a_status(newest=None, window=None, jobs=(), daemon_runs=False, working="", findings=()), BERLIN
    )
    assert text.startswith("Instance shop: ok\n  newest snapshot   none\n  can be restored   nothing yet\n")
    assert "daemon            does not run" in text


def test_a_window_for_people() -> None:
    lines = window.render(cast(Context, Place()), WINDOW)
    assert lines[0] == "Instance shop (Europe/Berlin)"
    assert [line.split()[0] for line in lines[2:6]] == ["restorable", "promised", "daily", "other"]
    assert "x" in lines[2] and "#" in lines[2] and lines[4].count("|") == 1
    assert lines[-4:] == [
        "Any moment after 2024-05-01 10:00:00 CEST and up to 2024-05-01 10:05:00 CEST can be restored.",
        "Any moment after 2024-05-01 10:09:00 CEST and up to now can be restored.",
        "GAP after 2024-05-01 10:05:00 CEST up to 2024-05-01 10:09:00 CEST, purged: it is gone.",
        "The promise of the last 7 days lacks 2024-05-01 10:05:00 CEST to 2024-05-01 10:09:00 CEST.",
    ]


def test_a_window_at_an_address_promises_nothing() -> None:
    there = dataclasses.replace(WINDOW, promised=None, lacking=())
    lines = window.render(cast(Context, Place()), there, "s3://bucket/db1")
    assert lines[0].startswith("Instance shop at s3://bucket/db1 (")
    assert not [line for line in lines if "promise" in line and line != LEGEND]
    assert any(line.startswith("GAP after") for line in lines)
    assert any("can be restored." in line for line in lines)


def test_nothing_to_restore_has_no_picture() -> None:
    empty = dataclasses.replace(WINDOW, window=RecoveryWindow(ranges=(), gaps=(), saw_live_log=False))
    assert window.render(cast(Context, Place()), empty)[1].startswith("Nothing can be restored yet")
    alone = dataclasses.replace(empty, as_they_are=(a_backup(),), unreadable=(("tank/a@bad", "no record"),))
    lines = window.render(cast(Context, Place()), alone)
    assert any("can be restored as" in line for line in lines)
    assert any("tank/a@bad" in line for line in lines)


def test_a_prune_that_had_to_leave_something_is_no_success(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prune, "on_each", lambda *_: [done(PRUNED)])
    with pytest.raises(typer.Exit) as left:
        prune.command(Options())
    assert left.value.exit_code == 3 and "skipped" in capsys.readouterr().out
    monkeypatch.setattr(prune, "on_each", lambda *_: [done(dataclasses.replace(PRUNED, skipped=()))])
    prune.command(Options())


def test_a_prune_for_people() -> None:
    plan = prune._plan_text([done(PRUNED.plan)]).splitlines()
    assert plan[0] == "Instance shop"
    assert [re.split(r"  +", line)[0] for line in plan[2:4]] == ["keep", "destroy"]
    assert plan[2].endswith("daily 2024-05-01; held by me")
    assert plan[-1] == "1 backup would be destroyed, which would free 3.0 MiB; 1 stay."
    assert prune._report_text([done(PRUNED)]).splitlines() == [
        "shop: destroyed 1 backup; 1 stay",
        "  skipped zbackup-20240501T080000Z: busy",
    ]
    whole = dataclasses.replace(PRUNED, skipped=())
    assert prune._report_text([done(whole)]) == "shop: destroyed 1 backup, which freed 3.0 MiB; 1 stay"
    nothing = RetentionPlan(PRUNED.plan.retention.keep, ())
    idle = PruneReport(plan=PrunePlan(retention=nothing, freed=0), destroyed=(), skipped=())
    assert prune._report_text([done(idle)]) == "shop: nothing is to be destroyed; 1 stay"
    # What a prune that was killed left at a destination is in no plan, and ends with 3 all the same.
    rest = dataclasses.replace(idle, skipped=PRUNED.skipped)
    assert prune._report_text([done(rest)]).splitlines()[1] == "  skipped zbackup-20240501T080000Z: busy"


def test_a_difference_is_told_for_people() -> None:
    lines = verify._text([done(verify.Verified(VERIFIED, None))]).splitlines()
    assert lines[0] == "Instance shop at zfs:vault/b: DIFFERENT"
    assert lines[1] == "  compared   1 backup, 0 more that are only there"
    assert lines[2].endswith("the first 1.0 GiB, DIFFERENT") and lines[2].startswith("  read       ")
    assert lines[3] == "  DIFFERENT  tank/a@one holds other data at zfs:vault/b"


def test_a_drill_is_told_for_people() -> None:
    lines = verify._text([done(verify.Verified(SOUND, DRILLED))]).splitlines()
    told = f"recovered {PLAN.base.name} to u:1-41 in 42 s, 14 tables checked, and removed"
    assert lines[-1] == f"  drill      {told}"


def test_tables_that_a_drill_did_not_check_are_told() -> None:
    checked = dataclasses.replace(DRILLED.checked, unchecked=("shop.u", "shop.v"))
    drilled = dataclasses.replace(DRILLED, checked=checked)
    [_, line] = verify._text([done(verify.Verified(None, drilled))]).splitlines()
    assert line.endswith("14 tables checked, 2 NOT CHECKED (to be upgraded first), and removed")


def test_a_drill_of_what_is_here_compares_nothing() -> None:
    assert verify._text([done(verify.Verified(None, DRILLED))]).splitlines() == [
        "Instance shop: sound",
        f"  drill      recovered {PLAN.base.name} to u:1-41 in 42 s, 14 tables checked, and removed",
    ]


def test_marks_that_are_stale_are_listed_for_people() -> None:
    assert release._lines(done([STALE]), yes=False).splitlines() == [
        "shop: would release (--yes does it)",
        "  hold  tank/a@one  zbackup-ship:db1:shop:old  it is gone",
    ]
