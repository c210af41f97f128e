"""Drills: what is written down of them, when one is due, and what one gives way to."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from zbackup.destinations.copies import Copies
from zbackup.jobs.clones import temporary
from zbackup.jobs.context import Context
from zbackup.jobs.drills import drill, guard, scheduled_drill
from zbackup.jobs.drills.drill import UNTRIED
from zbackup.jobs.drills.guard import DrillGuard, memory_short
from zbackup.jobs.drills.scheduled_drill import DrillRules, DrillTurn
from zbackup.jobs.drills.verdicts import drilled, of_backups, read, write_down
from zbackup.jobs.watch.root_helper import obey_drill
from zbackup.model.backup import Backup
from zbackup.model.drill import VERDICT, DrillVerdict, to_text
from zbackup.model.errors import (
    ConnectionFailed,
    DatabaseError,
    DatasetNotFound,
    NotFound,
    NotRecoverable,
    Postponed,
    PrivateKeyElsewhere,
    Refused,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.progress import Silent
from zbackup.model.schedule import Interval
from zbackup.model.snapshot import Snapshot
from zbackup.plan.recovery.drills import DrillPlan
from zbackup.proc import memory

PASSED = DrillVerdict(backup="backup-1", name="zbackup-1", at=NOON, to=NOON, tables=3)
FAILED = replace(PASSED, backup="backup-2", name="zbackup-2", why="it does not open")


class Host:
    """ZFS of a host: the dataset that clones go below, if it is there, and marks on snapshots."""

    def __init__(self) -> None:
        self.clones: dict[str, str] | None = None
        self.marks: dict[str, str] = {}

    def exists(self, _: str) -> bool:
        return self.clones is not None

    def create(self, _: str, properties: dict[str, str]) -> None:
        self.clones = dict(properties)

    def own_settings(self, name: str) -> dict[str, str]:
        if self.clones is None:
            raise DatasetNotFound(("zfs", "get"), 1, f"cannot open '{name}'")
        return self.clones

    def set_properties(self, name: str, properties: dict[str, str]) -> None:
        self.own_settings(name).update(properties)

    def mark_snapshot(self, snapshot: Snapshot, name: str, value: str) -> None:
        assert name == VERDICT
        self.marks[str(snapshot)] = value


def context(host: Host, **changes: Any) -> Context:
    facts = {
        "instance": "shop",
        "clones": "tank/zbackup",
        "mountpoint": Path("/clones"),
        "zfs": host,
        "destinations": (SimpleNamespace(name="cloud"), SimpleNamespace(name="offsite")),
        "clock": SimpleNamespace(now=lambda: NOON + timedelta(hours=1)),
        "progress": Silent(),
        "drill_helper": None,
        "elsewhere": (),
    }
    return cast(Context, SimpleNamespace(**facts | changes))


def marked(backup: Backup, text: str) -> Backup:
    first, *rest = backup.snapshots
    return replace(backup, snapshots=(replace(first, properties=((VERDICT, text),)), *rest))


def test_verdicts_are_kept_by_destination_where_the_clones_are_and_on_the_backup() -> None:
    host, base = Host(), made(1, NOON)
    ctx = context(host)
    assert read(ctx, "") == () and drilled(ctx, ()) == (), "nothing is there yet"
    write_down(ctx, "", base, PASSED)
    write_down(ctx, "", None, FAILED)
    write_down(ctx, "cloud", None, PASSED)
    assert read(ctx, "") == (PASSED, FAILED) and read(ctx, "cloud") == (PASSED,)
    assert host.marks == {str(base.snapshots[0]): to_text(PASSED)}
    here, cloud, offsite = drilled(ctx, [("", 60), ("offsite", 7)])
    assert (here.last, here.passed, here.every) == (FAILED, PASSED, timedelta(seconds=60))
    assert (cloud.last, cloud.passed, cloud.every) == (PASSED, PASSED, None)
    assert (offsite.last, offsite.passed) == (None, None)
    assert here.age(NOON + timedelta(hours=2)) == timedelta(hours=2)
    assert offsite.age(NOON) is None


def test_a_verdict_counts_for_the_backup_that_it_names() -> None:
    """What is written on a copy is not looked at: what this host knows of it is."""
    host = Host()
    one, two = marked(made(1, NOON), to_text(PASSED)), marked(made(2, NOON), to_text(PASSED))
    ctx = context(host)
    assert of_backups(ctx, (one, two)) == {"backup-1": PASSED}
    assert of_backups(ctx, (one, two), "cloud") == {}
    write_down(ctx, "cloud", None, FAILED)
    assert of_backups(ctx, (one, two), "cloud") == {"backup-2": FAILED}
    assert of_backups(ctx, (marked(made(1, NOON), "{"),)) == {}


RULES = DrillRules(timing=Interval(3600), zone=ZoneInfo("UTC"), limit=60, offset=0)


def test_one_that_passed_since_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context(Host())
    write_down(ctx, "", None, replace(PASSED, at=NOON + timedelta(minutes=59)))
    made_by: list[str] = []

    def make(*_: object) -> DrillTurn:
        made_by.append("root")
        return DrillTurn(at=NOON)

    monkeypatch.setattr(scheduled_drill, "make", make)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    early = replace(RULES, timing=Interval(86_400))
    assert scheduled_drill.drill_turn(ctx, None, early, lambda: False).at == NOON + timedelta(minutes=59)
    assert made_by == []
    scheduled_drill.drill_turn(ctx, None, RULES, lambda: False)
    assert made_by == ["root"], "its slot has come"
    monkeypatch.setattr("os.geteuid", lambda: 999)
    with pytest.raises(Refused, match=r"user id 999: systemctl enable --now zbackup-drill\.socket"):
        scheduled_drill.drill_turn(ctx, None, RULES, lambda: False)


def test_without_a_backup_and_beside_a_restore_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = context(Host(), catalog=lambda: SimpleNamespace(backups=()))
    with pytest.raises(Postponed, match="no backup of shop yet"):
        scheduled_drill.make(ctx, None, 60, lambda: "")
    ctx = context(Host(), catalog=lambda: SimpleNamespace(backups=(made(1, NOON),)))
    monkeypatch.setattr(scheduled_drill, "restoring", lambda _: "zbackup restore (pid 7) makes rescue")
    with pytest.raises(Postponed, match="makes rescue"):
        scheduled_drill.make(ctx, None, 60, lambda: "")


def test_memory_that_zfs_would_give_back_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable: 1024 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "ARCSTATS", tmp_path / "arcstats")
    assert memory_short(1 << 20) == ""
    assert memory_short(3 << 20) == "1 MiB of memory are available, and 3 MiB are needed"
    (tmp_path / "arcstats").write_text("9 1 0x01\nname type data\nsize 4 3145728\nc_min 4 1048576\n")
    assert memory_short(3 << 20) == ""
    (tmp_path / "meminfo").unlink()
    assert memory_short(1 << 60) == "", "nobody knows"


def a_clone(name: str, state: str = "building", instance: str = "shop") -> Any:
    return SimpleNamespace(name=name, instance=instance, state=state, kind="restore")


@pytest.mark.parametrize("clone", [a_clone("shop-drill", "ready"), a_clone("shop-drill", instance="SHOP")])
def test_the_server_of_a_users_clone_with_a_drills_name_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, clone: Any
) -> None:
    killed: list[str] = []
    monkeypatch.setattr(guard, "read_clones", lambda *_: SimpleNamespace(found=((clone, None),)))
    monkeypatch.setattr("zbackup.jobs.clones.clone_datasets.kill_server", lambda _, name: killed.append(name))
    DrillGuard()._end_servers(context(Host()))
    assert killed == []


def test_a_drill_waits_for_room_and_ends_for_want_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    free = [49]
    pool = {"name": "tank", "size": 1000 << 20}
    facts = SimpleNamespace(pool=lambda _: SimpleNamespace(**pool, free=free[0] << 20))
    monkeypatch.setattr(guard, "ZfsFacts", lambda _: facts)
    monkeypatch.setattr(scheduled_drill, "restoring", lambda _: "")
    monkeypatch.setattr(scheduled_drill, "memory_needed", lambda _: 0)
    host = cast(Any, SimpleNamespace(runner=None))
    ctx = context(host, catalog=lambda: SimpleNamespace(backups=(made(1, NOON),)))
    with pytest.raises(Postponed, match="tank has 49 MiB free, and a twentieth"):
        scheduled_drill.make(ctx, None, 60, lambda: "")
    wanted = scheduled_drill._StillWanted(ctx, ctx, lambda: "")
    assert any("tank has 49 MiB" in wanted.why_not() for _ in range(guard.MEASURE_EVERY))
    free[0] = 50
    assert not any(wanted.why_not() for _ in range(2 * guard.MEASURE_EVERY))


def _a_drill(ctx: Context, recover: Callable[..., Any], there: Callable[[], bool] = lambda: True) -> Any:
    base = made(1, NOON)
    plan = DrillPlan(base=base, moment=NOON, whole=False)
    what = drill._Drill(
        plan=plan, between=True, destination="", here=None, at=ctx, there=there, recover=recover
    )
    return drill._tried(ctx, what, DrillGuard())


@dataclass(frozen=True)
class Place:
    """What of a context a drill itself uses, to be replaced in parts."""

    zfs: Any
    progress: Any = field(default_factory=Silent)
    instance: str = "shop"
    clones: str = "tank/zbackup"
    mountpoint: Path = Path("/clones")
    zone: ZoneInfo = field(default_factory=lambda: ZoneInfo("UTC"))
    clock: Any = field(default_factory=lambda: SimpleNamespace(now=lambda: NOON))
    elsewhere: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("failure", "kept"),
    [(Refused("a snapshot of somebody else's"), True), (NotFound("gone"), False), (None, False)],
)
def test_a_drill_that_passed_has_passed_whatever_its_removal_comes_to(
    monkeypatch: pytest.MonkeyPatch, failure: Exception | None, *, kept: bool
) -> None:
    ctx = cast(Context, Place(Host()))
    report = SimpleNamespace(replay=None, recovered=SimpleNamespace(last_applied=None))

    def destroy(*_: object) -> None:
        if failure:
            raise failure

    monkeypatch.setattr(temporary, "destroy", destroy)
    monkeypatch.setattr(drill, "own_name", lambda *_: nullcontext("shop-drill"))
    left = _a_drill(ctx, lambda *_: report).left
    assert left == (f"tank/zbackup/shop-drill will be removed later: {failure}" if kept else "")
    (verdict,) = read(ctx, "")
    assert verdict.passed


def test_a_leftover_that_cannot_be_removed_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = cast(Context, Place(Host()))

    def refuse(*_: object) -> None:
        raise Refused("a snapshot of somebody else's")

    monkeypatch.setattr(temporary, "working_on", lambda *_: nullcontext())
    monkeypatch.setattr(temporary.clone_datasets, "find_clone", lambda _, name: (a_clone(name), None))
    monkeypatch.setattr(temporary.clone_datasets, "destroy", refuse)
    with pytest.raises(Refused):
        _a_drill(ctx, lambda *_: None)
    assert read(ctx, "") == ()


def test_while_a_switch_is_half_done_nothing_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    ctx = cast(Context, Place(Host()))

    def half_done(*_: object) -> None:
        raise Refused("a switch was cut short")

    monkeypatch.setattr(drill, "switches", lambda *_: ())
    assert drill._is_settled(ctx)
    monkeypatch.setattr(drill, "require_settled", half_done)
    assert not drill._is_settled(ctx)


@pytest.mark.parametrize(
    ("gives_way", "limit", "why", "kind"),
    [
        (lambda: "a restore begins", 0.0, "a restore begins", Postponed),
        (lambda: "", 0.02, "not done within 0.02 s", VerificationFailed),
    ],
)
def test_what_must_not_go_on_ends_with_its_next_progress_or_without_its_server(
    monkeypatch: pytest.MonkeyPatch, gives_way: Callable[[], str], limit: float, why: str, kind: type
) -> None:
    killed: list[str] = []
    monkeypatch.setattr(guard, "POLL_S", 0.01)
    there = tuple((a_clone(name), None) for name in ("shop-drill", "shop-drill.log", "other"))
    monkeypatch.setattr(guard, "read_clones", lambda *_: SimpleNamespace(found=there))
    monkeypatch.setattr("zbackup.jobs.clones.clone_datasets.kill_server", lambda _, name: killed.append(name))
    with pytest.raises(kind, match=why), DrillGuard(gives_way, limit).watching(context(Host())) as progress:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            progress.advance(1, 2)
            progress.note("heard to the end")
            time.sleep(0.01)
    assert set(killed) <= {"shop-drill", "shop-drill.log"} and killed
    with pytest.raises(kind, match=why), DrillGuard(gives_way, limit).watching(context(Host())):
        time.sleep(0.5)
        raise DatabaseError("the server is gone")


def test_a_drill_that_nothing_ends_fails_with_its_own_failure() -> None:
    with pytest.raises(DatabaseError, match="gone"), DrillGuard().watching(context(Host())) as progress:
        progress.phase("opening")
        raise DatabaseError("the server is gone")
    assert not issubclass(DatabaseError, UNTRIED) and issubclass(Postponed, UNTRIED)
    assert issubclass(PrivateKeyElsewhere, UNTRIED), "what cannot be opened here is no bad backup"


QUESTION = '{"verb": "drill", "instance": "shop", "clone": "%s"}'


def test_the_helper_makes_the_drills_that_are_on_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(ctx: Context, target: Any, limit: float, _: object) -> None:
        match target and target.name, limit:
            case (None, 5.0):
                return
            case ("cloud", 7.0):
                raise Postponed("a restore is being made")
            case ("vault", _):
                raise ConnectionFailed(("ssh",), 255, "No route to host", "vault")
            case _:
                raise VerificationFailed("a table is damaged:\nshop.orders")

    monkeypatch.setattr("zbackup.jobs.watch.root_helper.make", make)
    limits = {("shop", ""): 5.0, ("shop", "cloud"): 7.0, ("shop", "offsite"): 9.0, ("shop", "vault"): 9.0}
    destinations = tuple(SimpleNamespace(name=name) for name in ("cloud", "offsite", "vault"))

    def ask(line: str) -> dict[str, Any]:
        return obey_drill(line, {"shop": context(Host(), destinations=destinations)}, limits, lambda: "")

    assert ask(QUESTION % "") == {"result": "passed", "said": ""}
    assert ask(QUESTION % "cloud") == {"result": "postponed", "said": "a restore is being made"}
    assert ask(QUESTION % "offsite") == {"result": "failed", "said": "a table is damaged: shop.orders"}
    said = "no connection to vault: No route to host"
    assert ask(QUESTION % "vault") == {"result": "untried", "said": said}, "no word of the backup"
    with pytest.raises(Refused, match="no such drill is on schedule"):
        ask(QUESTION % "attic")
    with pytest.raises(Refused, match="no such verb"):
        ask(QUESTION.replace("drill", "end-lease") % "x")


def test_what_the_helper_says_is_what_came_of_it() -> None:
    ctx = context(Host())
    told: Callable[[dict[str, object], Context], datetime] = scheduled_drill._told
    assert told({"result": "passed", "said": ""}, ctx) == NOON + timedelta(hours=1)
    with pytest.raises(Postponed, match="later"):
        told({"result": "postponed", "said": "later"}, ctx)
    with pytest.raises(VerificationFailed, match="no reason"):
        told({}, ctx)
    with pytest.raises(ZbackupError, match="no route") as untried:
        told({"result": "untried", "said": "no route"}, ctx)
    assert type(untried.value) is ZbackupError, "it is no verdict"


@pytest.mark.parametrize(
    ("copies", "before", "kind"),
    [
        (Copies((), ()), (), Postponed),
        (Copies((), (("x@y", "unreadable"),)), (), NotRecoverable),
        (Copies((), ()), (PASSED,), NotRecoverable),
    ],
)
def test_a_destination_that_nothing_has_arrived_at_is_waited_for_and_one_that_lost_all_is_not(
    monkeypatch: pytest.MonkeyPatch, copies: Copies, before: tuple[DrillVerdict, ...], kind: type
) -> None:
    @contextmanager
    def connect() -> Iterator[Any]:
        yield SimpleNamespace(copies=lambda: copies)

    def nothing(*_: object, **__: object) -> None:
        raise NotRecoverable("there is no committed backup of shop at s3")

    destination = cast(Any, SimpleNamespace(name="cloud", adapter=SimpleNamespace(connect=connect, here="")))
    monkeypatch.setattr(scheduled_drill, "room_short", lambda _: "")
    monkeypatch.setattr(scheduled_drill, "restoring", lambda _: "")
    monkeypatch.setattr(scheduled_drill, "memory_needed", lambda _: 0)
    monkeypatch.setattr(scheduled_drill, "drill", nothing)
    ctx = context(Host())
    for verdict in before:
        write_down(ctx, "cloud", None, verdict)
    with pytest.raises(kind, match="no committed backup"):
        scheduled_drill.make(ctx, destination, 60, lambda: "")


def test_a_verdict_from_the_future_says_nothing_of_how_long_ago_one_passed() -> None:
    """Else no drill would be missed until that moment has come."""
    host = Host()
    ctx = context(host)
    write_down(ctx, "", None, PASSED)
    (here,) = drilled(ctx, [("", 60)])
    assert here.age(NOON - timedelta(seconds=1)) == timedelta(), "two clocks of one host"
    assert here.age(NOON - timedelta(days=400)) is None


def test_what_is_fetched_for_a_drill_does_not_fill_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = SimpleNamespace(name="tank", size=1000 << 20, free=300 << 20)
    monkeypatch.setattr(drill, "ZfsFacts", lambda _: SimpleNamespace(pool=lambda name: pool))
    ctx = context(SimpleNamespace(runner=None))  # type: ignore[arg-type]
    destination = cast(Any, SimpleNamespace(name="cloud"))
    drill._require_room(ctx, destination, 200 << 20)
    with pytest.raises(Refused, match=r"^fetching from cloud for a drill needs 201 MiB; tank has 300 MiB"):
        drill._require_room(ctx, destination, 201 << 20)
