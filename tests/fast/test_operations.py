"""Orders of the web page on the pool in memory: what they do, and what they never touch."""

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from tests.fast.right import require_well
from tests.fast.world import World
from zbackup.cli import cloner
from zbackup.cli.cloner import obey
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones import lifecycle
from zbackup.jobs.clones.clone_datasets import describe, find_clone
from zbackup.jobs.context import Context
from zbackup.jobs.operations.order import parse
from zbackup.jobs.operations.record import Operations
from zbackup.jobs.restore.restore import RestoreReport, restore
from zbackup.model.cloning import CloneRules
from zbackup.model.errors import NotFound, Refused, ZbackupError
from zbackup.model.operation import Operation

RULES = CloneRules(lease=3600.0, ports=(23100, 23103))


class Desk:
    """Where orders are given, and what is remembered of them."""

    def __init__(self, world: World, home: Path) -> None:
        self.world, self.operations, self.number = world, Operations(home / "run"), 0

    def contexts(self) -> Sequence[Context]:
        return [self.world.context(cloning=RULES)]

    def order(self, verb: str, clone: str = "", **fields: str) -> tuple[dict[str, str], Operation | None]:
        """What is answered at once, and what came of it."""
        self.number += 1
        asked = {"id": f"{self.number:032x}", "who": "ann", "instance": "shop", "at": "", "lease": ""}
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
    snapshot(desk.world.context())
    assert desk.done("reset", "mine", at="latest").state == "done"
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


def test_a_restore_tells_where_it_ends_and_what_to_mind(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def warned(*args: Any) -> RestoreReport:
        report = restore(*args)
        return replace(report, plan=replace(report.plan, warnings=("a table is not in it",)))

    monkeypatch.setattr("zbackup.jobs.operations.act.restore", warned)
    at = desk.world.now
    desk.world.commit()
    snapshot(desk.world.context())
    notes = desk.done("restore", at=at.isoformat()).notes
    assert notes[-1] == "warning: a table is not in it"
    assert any(note.startswith("last transaction in it: ") for note in notes)
    assert any(note.startswith("first one left out: ") for note in notes)


def test_a_page_makes_only_so_many_restored_servers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zbackup.jobs.operations.act.MOST_RESTORED", 2)
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


@contextmanager
def refused(why: str) -> Iterator[None]:
    with pytest.raises(Refused, match=why):
        yield


def test_what_no_page_may_touch(desk: Desk) -> None:
    desk.done("create", "mine")
    with refused("no such instance"):
        desk.order("create", instance="other")
    with refused("more than 31 days"):
        desk.order("extend", "mine", lease=str(40 * 86400))
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
