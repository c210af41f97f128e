"""Orders of the web page on the pool in memory: what they do, and what they never touch."""

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.fast.right import require_well
from tests.fast.world import T0, World
from zbackup.features.webpage import cloner
from zbackup.features.webpage.cloner import obey
from zbackup.features.webpage.operations.act import act
from zbackup.features.webpage.operations.order import parse
from zbackup.features.webpage.operations.record import Operations
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle
from zbackup.jobs.clones.clone_datasets import describe, find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore.restore import RestoreReport, restore
from zbackup.model.cloning import CloneRules
from zbackup.model.errors import NotFound, Refused, UsageError, ZbackupError
from zbackup.model.log import Transaction
from zbackup.model.operation import Operation

ASKED = {"id": "ab" * 16, "who": "ann", "instance": "shop", "clone": "", "at": "", "lease": ""}
RULES = CloneRules(lease=3600.0, ports=(23100, 23103))


class Desk:
    """Where orders are given, and what is remembered of them."""

    def __init__(self, world: World, home: Path) -> None:
        self.world, self.operations, self.number = world, Operations(home / "run"), 0
        self.rules, self.instances = RULES, ["shop"]

    def contexts(self) -> Sequence[Context]:
        return [self.world.context(instance=name, cloning=self.rules) for name in self.instances]

    def order(self, verb: str, clone: str = "", **fields: str) -> tuple[dict[str, str], Operation | None]:
        """What is answered at once, and what came of it."""
        self.number += 1
        asked = ASKED | {"id": f"{self.number:032x}"}
        order = parse(json.dumps(asked | {"verb": verb, "clone": clone} | fields))
        ours, theirs = socket.socketpair()
        with ours, theirs:
            obey(
                theirs,
                order,
                lambda progress: [replace(c, progress=progress) for c in self.contexts()],
                self.operations,
            )
            told = json.loads(ours.recv(4096))
        return told, next((o for o in self.operations.read() if o.id == order.id), None)

    def done(self, verb: str, clone: str = "", **fields: str) -> Operation:
        """The same, and it has to be done."""
        told, found = self.order(verb, clone, **fields)
        assert found and found.state == "done", found
        assert told == {"operation": found.id}
        return found


@pytest.fixture
def desk(world: World) -> Iterator[Desk]:
    with TemporaryDirectory(prefix="zb") as home:
        snapshot(world.context())
        yield Desk(world, Path(home))


def test_what_hangs_and_is_ended_is_in_the_log_with_its_cause(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(*_: object) -> None:
        raise KeyboardInterrupt("nothing moved for 25 hours: it was ended")

    monkeypatch.setattr(cloner, "act", hangs)
    structlog.configure(wrapper_class=structlog.BoundLogger)  # it says nothing elsewhere in this lane
    with capture_logs() as told, pytest.raises(KeyboardInterrupt):
        desk.order("create", "dev1")
    assert [(each["log_level"], each.get("why")) for each in told if each["event"] == "operation.failed"] == [
        ("warning", "nothing moved for 25 hours: it was ended")
    ]
    assert desk.operations.read()[0].said == "nothing moved for 25 hours: it was ended"


def test_a_clone_is_made_kept_reset_and_destroyed(desk: Desk) -> None:
    made = desk.done("create")
    assert made.clone == "shop-dev1"
    assert "shop-dev1 runs" in made.said
    assert "lease ends 2024-05-01 15:" in made.said  # an hour, as configured
    named = desk.done("create", "mine", lease="86400")
    assert "lease ends 2024-05-02" in named.said
    assert "2024-05-03" in desk.done("extend", "mine", lease="172800").said
    assert desk.done("reset", "mine").said.startswith("mine is as zbackup-")
    before = desk.done("reset", "mine").said
    snapshot(desk.world.context())
    newest = desk.contexts()[0].catalog().backups[-1].name
    assert newest not in before and desk.done("reset", "mine").said == before
    assert desk.done("reset", "mine", at="latest").said == f"mine is as {newest} again"
    told, nothing = desk.order("connect", "mine")
    assert (told["address"].startswith("mysql://zbackup_clone:"), nothing) == (True, None)
    for name in ("mine", "shop-dev1"):
        assert desk.done("destroy", name).said == f"{name} is destroyed"
    assert lifecycle.list_clones(desk.contexts()).clones == ()
    require_well(desk.world, desk.contexts()[0])


def test_a_moment_is_restored_and_cloned(desk: Desk) -> None:
    at = desk.world.now
    desk.world.commit()
    snapshot(desk.world.context())
    for verb, kind in (("restore", "restore"), ("create", "dev")):
        made = desk.done(verb, at=at.isoformat())
        found = find_clone(desk.contexts()[0], made.clone)
        assert found
        assert (found[0].kind, found[0].target[:19]) == (kind, at.isoformat()[:19])
        desk.done("destroy", made.clone)
    require_well(desk.world, desk.contexts()[0])


NOON = "2024-05-01 14:00:00 CEST"
FIRST, SECOND = (
    Transaction(start=f"binlog.000001:{n}", end=f"binlog.000001:{n}9", committed=T0, gtid=f"u:{n}")
    for n in (7, 8)
)


def plan(report: RestoreReport, **facts: Any) -> RestoreReport:
    return replace(report, plan=replace(report.plan, **facts))


def as_planned(report: RestoreReport) -> RestoreReport:
    return report


def warned(report: RestoreReport) -> RestoreReport:
    return plan(report, warnings=("a table is not in it", "it lags"))


def unreplayed(report: RestoreReport) -> RestoreReport:
    return plan(report, replay=None)


def as_it_is(report: RestoreReport) -> RestoreReport:
    return plan(report, as_it_is=True)


def sooner(report: RestoreReport) -> RestoreReport:
    assert report.replay
    return plan(report, replay=replace(report.replay, effective_target=T0))


def between(report: RestoreReport) -> RestoreReport:
    return replace(report, recovered=replace(report.recovered, last_applied=FIRST, first_skipped=SECOND))


WHOLE = ("last transaction in it: none behind the backup", "first one left out: none, the log ends before")


@pytest.mark.parametrize(
    ("restored", "notes"),
    [
        (as_planned, WHOLE),
        (unreplayed, WHOLE),
        (as_it_is, ()),
        (warned, (*WHOLE, "warning: a table is not in it", "warning: it lags")),
        (sooner, (*WHOLE, f"the log knows whole seconds only, so the replay stops at {NOON}")),
        (
            between,
            (
                f"last transaction in it: {NOON} u:7 binlog.000001:7",
                f"first one left out: {NOON} u:8 binlog.000001:8",
            ),
        ),
    ],
)
def test_a_restore_tells_where_it_ends_and_what_to_mind(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    restored: Callable[[RestoreReport], RestoreReport],
    notes: tuple[str, ...],
) -> None:
    monkeypatch.setattr(
        "zbackup.features.webpage.operations.act.restore", lambda *args: restored(restore(*args))
    )
    at = desk.world.now
    desk.world.commit()
    snapshot(desk.world.context())
    assert desk.done("restore", at=at.isoformat()).notes == notes


def test_a_page_makes_only_so_many_restored_servers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zbackup.features.webpage.operations.act.MOST_RESTORED", 2)
    at = desk.world.now
    desk.world.commit()
    snapshot(desk.world.context())
    names = [desk.done("restore", name, at=at.isoformat()).clone for name in ("one", "two")]
    with refused("2 restored servers are there"):
        desk.order("restore", at=at.isoformat())
    desk.done("create", "mine")  # which has a port of its own
    desk.done("destroy", names[0])
    assert desk.done("restore", at=at.isoformat()).state == "done"
    require_well(desk.world, desk.contexts()[0])


def test_what_fails_says_why_and_leaves_nothing(desk: Desk) -> None:
    desk.done("create", "mine")
    with pytest.raises(ZbackupError):
        desk.order("create", "mine")
    (failed, _) = desk.operations.read()
    assert (failed.state, failed.clone) == ("failed", "mine")
    assert "exists" in failed.said
    with pytest.raises(NotFound):
        desk.order("destroy", "none")
    assert len(desk.operations.read()) == 2  # nothing was begun


def test_what_failed_has_the_name_that_was_meant(desk: Desk) -> None:
    late = "2024-05-09T12:00:00+00:00"
    for verb, name in (("restore", "shop-20240509t120000z"), ("create", "")):
        with pytest.raises(ZbackupError):
            desk.order(verb, at=late)
        assert [o.clone for o in desk.operations.read() if o.verb == verb] == [name]


def test_a_clone_without_a_lease_says_so(desk: Desk) -> None:
    desk.rules = replace(RULES, lease=None)
    assert desk.done("create", "mine").said.endswith("; its lease has no end")


def test_a_name_of_zbackups_own_is_no_clones_but_one_that_is_there_goes(desk: Desk) -> None:
    desk.done("create", "nightly")
    desk.rules = replace(RULES, reserved=frozenset(("nightly", "weekly")))
    for verb in ("create", "restore"):
        with pytest.raises(UsageError, match="weekly is a name that zbackup uses"):
            desk.order(verb, "weekly", at=desk.world.now.isoformat())
    assert len(desk.operations.read()) == 1, "nothing was begun"
    desk.done("destroy", "nightly")


def test_a_clone_of_another_instance_is_not_touched(desk: Desk) -> None:
    desk.done("create", "mine")
    ctx = desk.contexts()[0]
    found = find_clone(ctx, "mine")
    assert found
    describe(ctx, replace(found[0], instance="wiki"))
    desk.instances.append("wiki")
    for verb in ("destroy", "reset", "extend", "connect"):
        with refused("mine is a clone of wiki"):
            desk.order(verb, "mine")
    desk.done("destroy", "mine", instance="wiki")


@contextmanager
def refused(why: str) -> Iterator[None]:
    with pytest.raises(Refused, match=why):
        yield


def test_what_no_page_may_touch(desk: Desk) -> None:
    desk.done("create", "mine")
    with refused("no such instance"):
        desk.order("create", instance="other")
    for verb, name in (("extend", "mine"), ("create", "longer")):
        with refused("more than 31 days"):
            desk.order(verb, name, lease=str(40 * 86400))
    assert len(desk.operations.read()) == 1, "nothing was begun"
    with refused("no such order"):
        act(parse(json.dumps(ASKED | {"verb": "connect", "clone": "mine"})), desk.contexts())
    ctx = desk.contexts()[0]
    found = find_clone(ctx, "mine")
    assert found
    for changes, why in (
        ({"kind": "log"}, "neither a dev clone"),
        ({"kind": "copy"}, "neither a dev clone"),
        ({"state": "switching"}, "zbackup switch"),
        ({"state": "switched"}, "zbackup switch"),
        ({"state": "undoing"}, "zbackup switch"),
    ):
        describe(ctx, replace(found[0], **changes))  # type: ignore[arg-type]
        for verb in ("destroy", "reset", "extend", "connect"):
            with refused(why):
                desk.order(verb, "mine")
    describe(ctx, found[0])
    desk.done("destroy", "mine")
    require_well(desk.world, desk.contexts()[0])


def test_asking_again_does_it_once(desk: Desk) -> None:
    first = desk.done("create", id="cd" * 16)
    told, again = desk.order("create", id="cd" * 16)
    assert told == {"operation": first.id}
    assert again == first
    assert len(lifecycle.list_clones(desk.contexts()).clones) == 1
