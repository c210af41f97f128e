"""What a restore holds at a destination, and what it does where it may not."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from zbackup.destinations.zfs_place import ZfsDestination
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.held_there import held_there
from zbackup.model.errors import CommandFailed, ConnectionFailed, DatasetNotFound, NotFound
from zbackup.model.shipping import MOST_OF_TAG, hold_tag, holder_of, restore_tag
from zbackup.model.snapshot import Snapshot

BASE, SOURCE = made(1, NOON), made(2, NOON)
COPIES = [str(s) for b in (BASE, SOURCE) for s in b.snapshots]
TARGET = ShipTarget(
    destination=ZfsDestination(
        name="offsite", place="zfs:vault/b", root="vault/b", instance="shop", target=None, control=Path("/x")
    ),
    tag=hold_tag("this.host", "shop", "offsite"),
)
TAG = "zbackup-restore:this.host:shop:offsite:look"


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

    def _ask(self) -> None:
        self.asked += 1
        if self.failure and self.asked > self.after:
            raise self.failure

    def while_held(self, body: Any = lambda: None) -> list[str]:
        """The notes of a restore."""
        notes: list[str] = []
        ctx = cast(Context, SimpleNamespace(progress=SimpleNamespace(note=notes.append)))
        try:
            with held_there(ctx, TARGET, cast(Any, self), "look", (BASE, SOURCE)):
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
    assert place.asked == 1, "what was not held is not released"


def test_what_was_destroyed_since_it_was_chosen_is_one_clear_line() -> None:
    place = Place(DatasetNotFound(("zfs", "hold"), 1, "cannot hold: no such snapshot"), after=len(COPIES))
    place.asked = 1
    with pytest.raises(NotFound, match=f"^{COPIES[-1]} was destroyed at zfs:vault/b meanwhile: the same"):
        place.while_held()


@pytest.mark.parametrize("after", [2, len(COPIES)])
def test_a_failure_is_not_hidden_by_what_cannot_be_released(after: int) -> None:
    def breaks() -> None:
        raise ConnectionFailed(("ssh",), 255, "reset by peer")

    place = Place(ConnectionFailed(("ssh",), 255, "reset"), after=after)
    with pytest.raises(ConnectionFailed):
        place.while_held(breaks)
    assert "still is" in place.notes[0]


def test_a_tag_is_of_one_restore_and_no_ship_s() -> None:
    assert restore_tag(TARGET.tag, "look") == TAG and holder_of(TAG) is None
    assert len(restore_tag(TARGET.tag, "x" * 300)) == MOST_OF_TAG
