"""Clones are read from their descriptions; one that cannot be read is named, and keeps what it may need."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.samples import NOON
from zbackup.catalog.local import FoundClones, read_clones
from zbackup.jobs.cleanup.cleanup import _is_leftover
from zbackup.jobs.context import Context
from zbackup.jobs.ship.remote_holds import _goes_on
from zbackup.model.clone import INTENT, PROPERTY, Clone
from zbackup.model.errors import Refused
from zbackup.model.snapshot import Dataset
from zbackup.zfs.datasets import Zfs

ROOT = "tank/clones"
DEV = Clone(
    id="1",
    name="dev",
    instance="shop",
    engine="mysql",
    kind="dev",
    state="ready",
    created=NOON,
    backup="zbackup-1",
)


class Fake:
    """Datasets with their properties."""

    def __init__(self, properties: dict[str, dict[str, str]]) -> None:
        self.properties = {ROOT: {}} | properties

    def filesystems(self, root: str) -> list[Dataset]:
        assert root == ROOT
        return [Dataset(name=name, guid=1, mountpoint=None) for name in self.properties]

    def user_properties(self, _: str) -> dict[str, dict[str, str]]:
        return self.properties

    def snapshots(self, _: str) -> list[object]:
        return []


def described(*clones: Clone) -> dict[str, dict[str, str]]:
    return {f"{ROOT}/{clone.name}": {PROPERTY: clone.to_property()} for clone in clones}


def read(properties: dict[str, dict[str, str]]) -> FoundClones:
    return read_clones(cast(Zfs, Fake(properties)), ROOT)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[" * 100_000,
        "null",
        replace(DEV, name="other").to_property(),
        replace(DEV, name="../dev").to_property(),
        replace(DEV, name="dev/0").to_property(),
        replace(DEV, name="").to_property(),
    ],
)
def test_one_that_cannot_be_read_is_named_and_all_others_are_read(text: str) -> None:
    older = replace(DEV, name="older", created=NOON - timedelta(days=1))
    found = read(described(DEV, older) | {f"{ROOT}/bad": {PROPERTY: text}})
    assert [clone for clone, _ in found.found] == [older, DEV]
    assert [dataset for dataset, _ in found.unreadable] == [f"{ROOT}/bad"]
    assert found.unreadable_names == {"bad"} and found.problem("dev") == ""
    with pytest.raises(
        Refused, match=f"^{ROOT}/bad cannot be read: .*destroy the dataset yourself when no"
    ) as refused:
        found.require_readable("bad")
    assert "\n" not in str(refused.value)


def test_what_a_dataset_was_to_become_may_be_damaged_too() -> None:
    found = read({ROOT: {f"{INTENT}bad": "{"}, f"{ROOT}/bad": {}})
    assert found.unreadable_names == {"bad"} and found.found == ()


def test_a_copy_whose_restore_cannot_be_read_is_no_leftover() -> None:
    """It may run on it."""
    copy = replace(DEV, name="r1.copy", kind="copy")
    for text, leftover in ((replace(DEV, name="r1").to_property(), False), ("{}", False), ("", True)):
        zfs = Fake(described(copy) | {f"{ROOT}/r1": {PROPERTY: text}})
        ctx = cast(Context, SimpleNamespace(zfs=zfs, clones=ROOT))
        dataset = Dataset(name=f"{ROOT}/r1.copy", guid=1, mountpoint=None)
        assert _is_leftover(ctx, copy, dataset) is leftover


def test_what_is_held_for_a_copy_that_cannot_be_read_is_not_let_go() -> None:
    """Of all that is here, nobody knows what it still has to fetch."""
    building = replace(DEV, name="r1.copy", kind="copy", state="building")
    ready = replace(building, state="ready")
    for text, goes_on in ((building.to_property(), True), (ready.to_property(), False), ("{}", True)):
        zfs = Fake({f"{ROOT}/r1.copy": {PROPERTY: text}})
        ctx = SimpleNamespace(zfs=zfs, clones=ROOT)
        ctx.everywhere = lambda ctx=ctx: (ctx,)
        assert _goes_on(cast(Context, ctx), "r1", "another") is goes_on
