"""Datasets that were production's once, and that nobody works while that is not settled."""

from dataclasses import replace

import pytest

from tests.unit.samples import NOON
from zbackup.catalog.switched import formerly, require_settled
from zbackup.model.clone import Clone
from zbackup.model.errors import Refused
from zbackup.model.switch import Coming, SteppedAside, Switch

SWITCH = Switch(
    at=NOON,
    suffix="-before-1",
    roots=("tank/a",),
    leaving=(
        SteppedAside(name="tank/a", guid=1, mountpoint="/a"),
        SteppedAside(name="tank/a/b", guid=2, mountpoint=""),
    ),
    coming=(Coming(number=0, name="tank/a", guid=3, mountpoint="/a", origin=4, owner=1),),
)
CLONE = Clone(
    id="1",
    name="good",
    instance="shop",
    engine="mysql",
    kind="restore",
    state="switched",
    created=NOON,
    backup="zbackup-1",
    switch=SWITCH,
)


def test_what_was_put_aside_or_was_production_for_a_while() -> None:
    assert formerly([CLONE], "tank/z") == {"tank/a-before-1": "tank/a", "tank/a-before-1/b": "tank/a/b"}
    assert formerly([replace(CLONE, state="ready")], "tank/z") == {"tank/z/good/0": "tank/a"}
    assert formerly([replace(CLONE, state="switching")], "tank/z") == {}


def test_who_comes_in_between_is_told_both_ways() -> None:
    require_settled([CLONE, replace(CLONE, state="ready")])
    with pytest.raises(Refused, match=r"finish it \(zbackup switch shop good\), or go back .* --undo\)"):
        require_settled([replace(CLONE, state="switching")])
    with pytest.raises(Refused, match=r"good --undo\), or go back \(zbackup switch shop good\)$"):
        require_settled([replace(CLONE, state="undoing")])
