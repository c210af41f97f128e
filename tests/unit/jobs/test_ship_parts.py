"""A shipment's view of both sides before and after anything is sent."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship import ship as room
from zbackup.jobs.ship.lag import ever_arrived, shipped, write_down
from zbackup.jobs.ship.ship import diverged_text, ready, ship_all
from zbackup.jobs.ship.stale_holds import _why
from zbackup.model.errors import Diverged, Refused, Stopped, Taken
from zbackup.model.shipped import SHIPPED, arrived, arrived_of, to_text
from zbackup.model.shipping import Inventory, Origin, Partial, ReceivedSnapshot, SourceDataset, TargetDataset
from zbackup.plan.ship.ship import Divergence, NeedsInitial, Steps, UpToDate

FIRST, SECOND = made(1, NOON), made(2, NOON + timedelta(hours=1))
KEY = f"{SHIPPED}offsite"


class Zfs:
    """The instance's first dataset, and what is written on it."""

    def __init__(self, **own: str) -> None:
        self.own, self.written = own, 0

    def own_settings(self, _: str) -> dict[str, str]:
        return dict(self.own)

    def set_properties(self, _: str, properties: dict[str, str]) -> None:
        self.own |= properties
        self.written += 1


def context(zfs: Zfs | None = None, **changes: Any) -> Context:
    values = {"instance": "shop", "datasets": ("tank/db",), "zfs": zfs, "destinations": ()} | changes
    return cast(Context, SimpleNamespace(**values))


def destination(name: str = "offsite") -> ShipDestination:
    adapter = SimpleNamespace(name=name, address="zfs:vault/b", aside="zfs rename")
    return ShipDestination(adapter=cast(Any, adapter), tag=f"tag-{name}", max_lag=timedelta(hours=2))


def committed(*backups: Any) -> Inventory:
    """The backups are there, in one line for each dataset."""
    copies = (
        ReceivedSnapshot(
            name=s.name,
            guid=s.guid,
            backup=b.record.backup,
            parts=tuple(p.guid for p in b.snapshots),
            marked=True,
        )
        for b in backups
        for s in b.snapshots
    )
    return Inventory(address="there", datasets=(TargetDataset(name="tank/db", copies=tuple(copies)),))


def test_an_interrupted_stream_goes_on_where_its_token_or_its_snapshot_is_known() -> None:
    partials = {
        "by token": Partial(token="good", guid=None),
        "worn out": Partial(token="bad", guid=2),
        "from its beginning": Partial(token="", guid=3),
        "destroyed here": Partial(token="", guid=4),
        "bookmarked here": Partial(token="", guid=5),
        "of nobody knows what": Partial(token="", guid=None),
        "whole": None,
    }
    lines = tuple(TargetDataset(name=name, partial=partial) for name, partial in partials.items())
    known = [("a@1", 1), ("a@2", 2), ("a@3", 3), ("a#5", 5)]
    source = SourceDataset(
        name="a", origins=tuple(Origin(name=name, guid=guid, createtxg=guid) for name, guid in known)
    )
    streams = SimpleNamespace(token=lambda text: {"good": SimpleNamespace(guid=1), "bad": None}[text])
    begun = room._begun(cast(Any, streams), [source], Inventory(address="there", datasets=lines))
    assert begun == {"by token": 1, "from its beginning": 3}


def test_what_arrived_last_is_written_down_and_not_forgotten_for_want_of_common_backups() -> None:
    zfs = Zfs()
    ctx, there = context(zfs), destination()
    assert not ever_arrived(ctx, there)
    inventory = committed(FIRST)
    assert write_down(ctx, there, [FIRST, SECOND], inventory) == FIRST
    assert zfs.own == {KEY: to_text(arrived_of(FIRST))} and ever_arrived(ctx, there)
    write_down(ctx, there, [FIRST, SECOND], inventory)
    assert zfs.written == 1, "what is there already is not written again"
    assert write_down(ctx, there, [SECOND], inventory) is None and zfs.own
    for _ in range(2):
        assert write_down(ctx, there, [FIRST], Inventory(address="there")) is None
        assert arrived(zfs.own) == {} and ever_arrived(ctx, there), "what was there and is gone is lost"
    assert zfs.written == 2
    assert write_down(ctx, there, [FIRST, SECOND], committed(FIRST, SECOND)) == SECOND
    assert arrived(zfs.own) == {"offsite": arrived_of(SECOND)}


def test_how_far_each_destination_is_behind() -> None:
    def refuses(_: str) -> dict[str, str]:
        raise AssertionError("nobody has to ask")

    nobody = Zfs()
    nobody.own_settings = refuses  # type: ignore[method-assign]
    assert shipped(context(nobody), NOON) == ()
    ctx = context(Zfs(**{KEY: to_text(arrived_of(FIRST))}), destinations=(destination(), destination("tape")))
    found, never = shipped(ctx, NOON + timedelta(hours=3))
    assert (found.behind, found.max_lag) == (timedelta(hours=3), timedelta(hours=2))
    assert found.newest == arrived_of(FIRST) and (never.newest, never.behind) == (None, None)
    assert shipped(ctx, NOON - timedelta(hours=3))[0].behind == timedelta()


def test_one_destination_that_fails_keeps_no_other_from_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []

    def ship(_: Context, destination: ShipDestination, **__: object) -> str:
        turns.append(destination.name)
        if destination.name in ("a", "b"):
            raise Refused(f"{destination.name} is full")
        return destination.name

    monkeypatch.setattr(room, "ship", ship)
    ctx = context(destinations=tuple(map(destination, "abc")))
    with pytest.raises(Refused, match="a is full"):
        ship_all(ctx)
    assert turns == ["a", "b", "c"]
    assert ship_all(context(destinations=(destination("c"), destination("d")))) == ("c", "d")
    turns.clear()
    three = context(destinations=tuple(map(destination, "cde")))
    # A daemon that counted this as done would ship to the last one only when ship is due next.
    with pytest.raises(Stopped, match="before it shipped to e"):
        ship_all(three, lambda: len(turns) == 2)
    assert turns == ["c", "d"]
    turns.clear()
    assert ship_all(three, lambda: len(turns) == 3) == ("c", "d", "e")


def test_a_stream_that_a_stop_cuts_is_no_failure_of_the_destination(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    def ship(_: Context, destination: ShipDestination, **__: object) -> str:
        if destination.name == "full":
            raise Refused("full")
        raise Stopped(("zfs", "send"), -1, "zbackup was told to end")

    monkeypatch.setattr(room, "ship", ship)
    monkeypatch.setattr(room.log, "error", lambda event, **_: events.append(event))
    with pytest.raises(Stopped, match=r"^zfs send: zbackup was told to end$"):
        ship_all(context(destinations=tuple(map(destination, "ab"))))
    assert events == []
    with pytest.raises(Refused, match="full"):
        ship_all(context(destinations=tuple(map(destination, ("full", "b")))))
    assert events == ["ship.failed"]


@pytest.mark.parametrize(
    ("plan", "sizes", "said"),
    [
        (UpToDate(FIRST), (), "up to date with zbackup-1"),
        (UpToDate(None), (), "there is no backup to ship yet"),
        (Steps(()), (), "0 streams to be sent"),
        (Steps(()), (7,), "1 stream to be sent"),
        (Steps(()), (7, 7), "2 streams to be sent"),
        (NeedsInitial(("tank/db",)), (), Refused),
        (Divergence("tank/db", "tank/db", "x", (), ()), (), Diverged),
    ],
)
def test_how_it_is_with_a_destination(
    plan: Any, sizes: tuple[int, ...], said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "preview", lambda *_: SimpleNamespace(plan=plan, sizes=sizes))
    if isinstance(said, str):
        assert ready(context(), destination()) == said
    else:
        with pytest.raises(said):
            ready(context(), destination())


def test_that_somebody_ships_is_no_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(*_: object) -> None:
        raise Taken("zbackup ship")

    monkeypatch.setattr(room, "preview", look)
    assert ready(context(), destination()) == "a run is under way"


def test_what_diverged_is_named_on_both_sides() -> None:
    found = Divergence("tank/db", "tank/db", "nothing is common", ("a@1", "a@2"), ())
    assert "Here: a@1, a@2. There: no snapshot." in diverged_text("shop", destination(), found)
    assert "Here: no snapshot. There: a@1, a@2." in diverged_text(
        "shop", destination(), replace(found, here=(), there=("a@1", "a@2"))
    )


def test_why_a_mark_is_stale() -> None:
    ctx = context(destinations=(destination(),))
    assert _why(ctx, "shop", "offsite").startswith("taken by another host")
    for instance, name in (("shop", "tape"), ("wiki", "offsite")):
        assert _why(ctx, instance, name) == f"{instance} has no destination {name} any more"
