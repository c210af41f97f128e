"""Holds of a restore at a destination, and what it does where it may not."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from zbackup.destinations.copies import Copies
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.remote_holds import release_forgotten, remote_holds
from zbackup.model.errors import CommandFailed, ConnectionFailed, DatasetNotFound, NotFound
from zbackup.model.shipping import MOST_OF_TAG, hold_tag, holder_of, restore_of, restore_tag
from zbackup.model.snapshot import Snapshot

BASE, SOURCE = made(1, NOON), made(2, NOON)
COPIES = [str(s) for b in (BASE, SOURCE) for s in b.snapshots]
DESTINATION = ShipDestination(
    adapter=ZfsDestination(
        name="offsite",
        address="zfs:vault/b",
        root="vault/b",
        instance="shop",
        target=None,
        control=Path("/x"),
    ),
    tag=hold_tag("this.host", "shop", "offsite"),
)
HELD = tuple(replace(b, snapshots=tuple(replace(s, holds=1) for s in b.snapshots)) for b in (BASE, SOURCE))
THERE = Copies(HELD, ())
OTHER = hold_tag("that.host", "shop", "offsite")
POOL, ANOTHER = 77, 78
TAG = f"zbackup-restore:this.host:shop:offsite:{POOL}:look"
BEFORE = "zbackup-restore:this.host:shop:offsite:look"
"""As versions did that named no pool."""


def context(note: Callable[[str], object] = lambda _: None) -> Context:
    zfs = SimpleNamespace(values=lambda name, what: {("tank", "guid"): (str(POOL),)}[name, what])
    ctx = SimpleNamespace(clones="tank/clones", zfs=zfs, progress=SimpleNamespace(note=note))
    ctx.everywhere = lambda: (ctx,)
    return cast(Context, ctx)


@dataclass
class Place:
    """Where copies are held, which fails from the `after`-th command on."""

    failure: CommandFailed | None = None
    after: int = 0
    held: set[tuple[str, str]] = field(default_factory=set)
    asked: int = 0

    def hold(self, tag: str, copy: Snapshot) -> None:
        self._ask()
        self.held.add((tag, str(copy)))

    def release(self, tag: str, copy: Snapshot) -> None:
        self._ask()
        self.held.discard((tag, str(copy)))

    def holds(self, copies: Sequence[Snapshot]) -> Mapping[int, tuple[str, ...]]:
        return {c.guid: tuple(tag for tag, name in self.held if name == str(c)) for c in copies}

    def _ask(self) -> None:
        self.asked += 1
        if self.failure and self.asked > self.after:
            raise self.failure

    def while_held(self, body: Any = lambda: None) -> list[str]:
        """The notes of a restore."""
        notes: list[str] = []
        ctx = context(notes.append)
        try:
            with remote_holds(ctx, DESTINATION, cast(Any, self), "look", THERE, (BASE, SOURCE)):
                body()
        finally:
            self.notes = notes
        return notes


def test_all_that_is_needed_is_held_while_it_is() -> None:
    place, seen = Place(), []
    assert place.while_held(lambda: seen.extend(sorted(place.held))) == []
    assert seen == sorted((TAG, copy) for copy in COPIES) and place.held == set()


def test_where_nothing_may_be_held_it_goes_on_and_says_so() -> None:
    went_on: list[str] = []
    place = Place(CommandFailed(("zfs", "hold"), 9, "refused by the gate: zfs hold is not allowed"))
    (note,) = place.while_held(lambda: went_on.append("on"))
    assert went_on == ["on"] and "cannot be held at zfs:vault/b" in note and "refused by the gate" in note
    assert place.asked == 2, "what was not held is not released, but for what may be held all the same"
    assert place.held == set()


def test_one_that_cannot_be_released_keeps_no_other_held() -> None:
    class Stuck(Place):
        def release(self, tag: str, copy: Snapshot) -> None:
            if str(copy) == COPIES[0]:
                raise CommandFailed(("zfs", "release"), 1, "busy")
            super().release(tag, copy)

    place = Stuck()
    (note,) = place.while_held()
    assert place.held == {(TAG, COPIES[0])} and "still is (zfs release" in note and "busy" in note


def test_what_is_held_by_a_command_that_failed_is_let_go() -> None:
    """It took effect, and then its time was over."""

    class Late(Place):
        def hold(self, tag: str, copy: Snapshot) -> None:
            super().hold(tag, copy)
            if len(self.held) == 2:
                raise CommandFailed(("zfs", "hold"), -1, "it took too long")

    place = Late()
    (note,) = place.while_held()
    assert "it took too long" in note and place.held == set()


def test_what_was_destroyed_since_it_was_chosen_is_one_clear_line() -> None:
    place = Place(DatasetNotFound(("zfs", "hold"), 1, "cannot hold: no such snapshot"), after=len(COPIES))
    place.asked = 1
    with pytest.raises(NotFound, match=f"^{COPIES[-1]} was destroyed at zfs:vault/b meanwhile: run the same"):
        place.while_held()


@pytest.mark.parametrize("after", [2, len(COPIES)])
def test_a_failure_is_not_hidden_by_what_cannot_be_released(after: int) -> None:
    def breaks() -> None:
        raise ConnectionFailed(("ssh",), 255, "reset by peer")

    place = Place(ConnectionFailed(("ssh",), 255, "reset"), after=after)
    with pytest.raises(ConnectionFailed):
        place.while_held(breaks)
    assert "still is" in place.notes[0]


def test_what_the_same_restore_held_before_of_others_is_let_go() -> None:
    """It was killed, and chooses otherwise now. What is another's, or was not ours to name, stays."""
    others = ("somebody", restore_tag(OTHER, POOL, "look"), restore_tag(DESTINATION.tag, ANOTHER, "look"))
    foreign = {(tag, COPIES[0]) for tag in others}
    place = Place(held={(TAG, COPIES[0]), (BEFORE, COPIES[0]), *foreign})
    ctx = context()
    session = cast(Any, place)
    with remote_holds(ctx, DESTINATION, session, "look", THERE, (SOURCE,)):
        assert place.held == {*foreign, *((TAG, str(s)) for s in SOURCE.snapshots)}
    assert place.held == foreign
    assert release_forgotten(ctx, DESTINATION, session, THERE, "look") is False, "nothing was left"


def test_a_restore_is_known_by_its_tag() -> None:
    assert restore_of(DESTINATION.tag, (ANOTHER, POOL), TAG) == "look"
    assert restore_of(DESTINATION.tag, (), BEFORE) == "look", "nobody can tell whose it is but by the host"
    too_long = restore_tag(DESTINATION.tag, POOL, "x" * 300)
    others = ("somebody", restore_tag(OTHER, POOL, "look"), too_long, DESTINATION.tag)
    assert [restore_of(DESTINATION.tag, (POOL,), tag) for tag in others] == [""] * 4
    assert restore_of(DESTINATION.tag, (ANOTHER,), TAG) == "", "a host of the same name has another pool"


def test_a_tag_is_of_one_restore_and_no_ship_s() -> None:
    assert restore_tag(DESTINATION.tag, POOL, "look") == TAG and holder_of(TAG) is None
    assert len(restore_tag(DESTINATION.tag, POOL, "x" * 300)) == MOST_OF_TAG
