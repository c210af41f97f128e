"""Messages of a restore about the log that it reads: where that ends, contradicts itself or leads nowhere."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.reports import PLAN, REPLAY, a_backup, a_transaction, at
from tests.unit.samples import at as after
from tests.unit.samples import backup
from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.restore import log_source, make_plan
from zbackup.jobs.restore.log_source import clock_anchors, clock_warnings, examined, require_undisputed
from zbackup.jobs.restore.log_source import require_replayable as replayable
from zbackup.jobs.restore.make_plan import RestorePlan, choose, note_replica
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import ClockDisputed, NotRecoverable, Refused
from zbackup.model.log import ClusterTime
from zbackup.model.moment import Moment
from zbackup.model.recovery import LaterStop, ReplayRange
from zbackup.model.relocation import Relocation
from zbackup.model.target import BackupAsItIs, RestoreTarget, Time, WholeLog
from zbackup.model.unreplayable import Unreplayable
from zbackup.plan.recovery.clock_anchors import END_OF_LOG

UTC = ZoneInfo("UTC")
CTX = cast(Context, SimpleNamespace(zone=UTC))
FIRST = a_transaction(2, 5100, "u:42")


def test_what_no_server_can_apply_is_refused_with_what_can_be_had() -> None:
    stop = Unreplayable(FIRST, "IMPORT TABLESPACE needs files")
    with pytest.raises(NotRecoverable, match=r"^u:42 of .*cannot be replayed: IMPORT .*--before u:42"):
        replayable(CTX, replace(REPLAY, stopped=stop))
    replayable(CTX, REPLAY)
    replayable(CTX, None)


ASKED_AT = PLAN.target.at


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (a_transaction(3, 5900, ""), r"or 3 transactions later, before binlog.000012:5900 \(which says .*"),
        (None, "or 3 transactions later, at the end of the log"),
    ],
)
def test_a_log_that_can_be_cut_in_two_places_is_cut_by_who_restores(later: Any, said: str) -> None:
    disputed = replace(REPLAY, later=LaterStop(first_skipped=later, transactions=35))
    ways = "--before binlog.000012:5900" if later else "--to now"
    stop = Time(at(2))
    with pytest.raises(ClockDisputed, match=rf"\(GTID u:42, which says .*{said}.*:5100 or {ways} instead"):
        require_undisputed(CTX, disputed, stop)
    require_undisputed(CTX, disputed, replace(stop, accept_clock=True))
    require_undisputed(CTX, disputed, WholeLog(at(2)))
    require_undisputed(CTX, REPLAY, stop)
    require_undisputed(CTX, None, stop)
    assert replace(PLAN, replay=disputed).clock_accepted
    assert not PLAN.clock_accepted and not replace(PLAN, replay=None).clock_accepted


def test_times_that_go_back_are_a_warning() -> None:
    assert clock_warnings(None) == clock_warnings(REPLAY) == ()
    (said,) = clock_warnings(replace(REPLAY, out_of_order=2))
    assert said.startswith("2 transactions behind the stop point")


def test_a_plan_stops_where_it_was_found_that_it_has_to() -> None:
    assert PLAN.found_stop == REPLAY.first_skipped
    assert replace(PLAN, replay=None).found_stop == PLAN.stop
    assert replace(PLAN, replay=replace(REPLAY, first_skipped=None)).found_stop == WholeLog(ASKED_AT)
    with pytest.raises(AssertionError):
        _ = replace(PLAN, stop=None).found_stop


def test_the_clock_of_now_is_known_of_the_servers_own_log_alone() -> None:
    reading = Reading("boot", 7.0, True)
    clock = SimpleNamespace(now=lambda: at(3), reading=lambda: reading)
    first, second = backup(1, 1, 1), backup(2, 2, 2)

    def last(engine: str, source: Backup | None) -> Any:
        ctx = cast(Context, SimpleNamespace(engine_name=engine, clock=clock))
        return [
            a.clock for a in clock_anchors(ctx, (first, second), first, source) if a.position == END_OF_LOG
        ]

    assert last("mysql", None) == [reading]
    assert last("mysql", second) == last("mongodb", None) == []


def looked(sources: tuple[Backup | None, ...], base: Backup) -> tuple[BackupFiles, Any]:
    """What the engine is given as the log to read, and what comes of it."""
    given: list[BackupFiles] = []
    reader = SimpleNamespace(examine=lambda _, log, *__: given.append(log) or REPLAY)
    clock = SimpleNamespace(now=lambda: at(3), reading=lambda: None)
    ctx = cast(Context, SimpleNamespace(log_reader=reader, clock=clock, engine_name="mysql", zone=UTC))
    found = examined(ctx, Catalog((), (), ()), ((base,), base, sources), Time(at(2)))
    return given[0], found


def test_the_log_that_is_read_is_the_sources_or_the_servers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own, there = Relocation((("/own", "/own"),)), Relocation((("/there", "/there"),))
    monkeypatch.setattr(Backup, "browse", lambda *_: there)
    monkeypatch.setattr(log_source, "live_files", lambda _: own)
    base, later = a_backup(), a_backup(backup="later")
    log, found = looked((later, None), base)
    assert (log.where, log.record, found.log, found.others) == (there, later.record, later, ())
    log, found = looked((None, later), base)
    assert (log.where, log.record, found.log, found.others) == (own, base.record, None, (later,))


REPLICA = a_backup(role="replica", complete_to=at(1), as_of=at(0))
LACKING = replace(
    PLAN, log=REPLICA, stop=Time(at(2)), replay=replace(REPLAY, first_skipped=None, last_applied=None)
)


def noted(plan: RestorePlan, replay: ReplayRange | None) -> list[str]:
    notes: list[str] = []
    note_replica(
        cast(Context, SimpleNamespace(zone=UTC, progress=SimpleNamespace(note=notes.append))), plan, replay
    )
    return notes


def test_what_a_replica_had_not_received_is_told_of() -> None:
    replay = LACKING.replay
    assert replay
    assert noted(LACKING, replay) == [
        "this replica's log ends at 2024-05-01 08:00:00 UTC: what its source committed after that and before "
        "the target is not in it"
    ]
    afterwards = replace(replay, last_applied=a_transaction(1, 5000, "u:41"))
    assert "ends at 2024-05-01 08:01:59" in noted(replace(LACKING, replay=None), afterwards)[0]
    assert "ends at 2024-05-01 08:00:00" in noted(LACKING, afterwards)[0]
    assert "ends at 2024-05-01 08:00:00" in noted(replace(LACKING, replay=None), replay)[0]
    assert noted(replace(LACKING, log=a_backup(role="replica", as_of=at(0), complete_to=None)), replay)


def test_nothing_is_told_of_a_replica_whose_log_has_it() -> None:
    replay = LACKING.replay
    for complete in (at(2), at(3)):
        full = a_backup(role="replica", complete_to=complete, as_of=at(0))
        assert noted(replace(LACKING, log=full), replay) == []
    assert noted(replace(LACKING, as_it_is=True), replay) == []
    assert noted(replace(LACKING, log=None), replay) == noted(LACKING, None) == noted(LACKING, REPLAY) == []
    assert noted(replace(LACKING, stop=None), replay) == []
    for other in (a_backup(role="primary"), a_backup(role="replica", as_of=None, complete_to=None)):
        assert noted(replace(LACKING, log=other), replay) == []


def test_what_is_made_off_the_datasets_is_a_warning_once() -> None:
    assert make_plan._outside(None) == make_plan._outside(REPLAY) == ()
    (said,) = make_plan._outside(replace(REPLAY, outside=("/a", "/b")))
    assert said.startswith("the log makes tables in /a, /b (DATA DIRECTORY)")
    behind = a_backup(server={"warnings": "it lags\nit is slow"})
    assert make_plan._recorded_warnings(behind, behind) == ("it lags", "it is slow")


def chosen(target: RestoreTarget, *backups: Backup, base: str = "") -> Any:
    reader = SimpleNamespace(effective_target=lambda moment: moment)
    ctx = SimpleNamespace(clock=SimpleNamespace(now=lambda: after(30)), zone=UTC, log_reader=reader)
    return choose(cast(Context, ctx), backups, target, base)


def test_the_moment_of_a_backup_without_a_log_is_that_backup() -> None:
    off = {"blockers": "the binary log is off (log_bin = OFF)"}
    alone, older = (backup(n, n, n, server=off) for n in (2, 1))
    target = Moment(alone.record.as_of or after(0), "then", UTC)
    for base in ("", alone.name):
        choice = chosen(target, older, alone, base=base)
        assert (choice.base, choice.as_it_is) == (alone, True)
    assert chosen(BackupAsItIs(alone.name, after(0)), older, alone).as_it_is
    with pytest.raises(Refused, match=f"{alone.name} cannot be recovered to a moment"):
        chosen(ClusterTime(int(target.at.timestamp()), 1), older, alone)
    with pytest.raises(Refused, match=f"{older.name} cannot be recovered to a moment"):
        chosen(target, older, alone, base=older.name)


def test_up_to_now_is_the_whole_log_from_the_newest() -> None:
    log = {"log_id": "a", "log_from": "binlog.000001:4"}
    old, new = (backup(n, n, n, log_to=f"binlog.000001:{n}00", **log) for n in (1, 2))
    now = Moment(after(30), "now", UTC, is_now=True)
    assert (chosen(now, old, new).base, chosen(now, old, new).log) == (new, None)
    assert chosen(Moment(after(1.5), "then", UTC), old, new).base == old


def test_a_cluster_time_needs_a_log_that_reaches_beyond_its_second() -> None:
    log = {"log_id": "a", "log_from": "1,1@1", "engine": "mongodb"}
    old, same, new = (backup(n, n, n, log_to=f"{n},1@1", **log) for n in (1, 2, 3))
    assert chosen(ClusterTime(int(after(2).timestamp()), 1), old, same, new).log == new


def test_make_plan_does_not_search_where_it_starts_from_a_backup_as_it_is() -> None:
    asked: list[object] = []
    recovery = SimpleNamespace(
        check_program=asked.append,
        check_serving=lambda *_: asked.append("serving"),
        check_openable=asked.append,
    )
    ctx = SimpleNamespace(clock=SimpleNamespace(now=lambda: after(30)), zone=UTC, recovery=recovery)
    one = backup(1, 1, 1)
    target = BackupAsItIs(one.name, after(0))
    plan = make_plan.make_plan(
        cast(Context, ctx), Catalog((), (one,), ()), (one,), target, RestoreOptions(name="x", port=3307)
    )
    assert (plan.base, plan.log, plan.as_it_is) == (one, one, True)
    assert asked == ["serving", one.record] or asked == [one.record, "serving"]
