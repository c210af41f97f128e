"""Backups of an instance: those of its own datasets and of those before, and nothing of its clones or
others."""

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest

from tests.unit.catalog.test_clones import DEV
from tests.unit.catalog.test_switched import CLONE
from tests.unit.samples import NOON, PLAIN, snapshots_of
from zbackup.catalog.local import clones, own_datasets, read, read_clones
from zbackup.catalog.switched import among, switches
from zbackup.model.clone import INTENT, PROPERTY
from zbackup.model.errors import DatasetNotFound
from zbackup.model.snapshot import Dataset, Snapshot
from zbackup.zfs.datasets import Zfs

ROOT, DB, LOG = "tank/clones", "tank/my db", "tank/my db/bin log"


class Fake:
    """Datasets with their properties, and their snapshots. `asked` are whose properties were."""

    def __init__(
        self, datasets: dict[str, dict[str, str]], snapshots: list[Snapshot] | None = None, mounted: str = ""
    ) -> None:
        self.datasets, self.made, self.mounted = datasets, snapshots or [], mounted
        self.asked: list[str] = []

    def filesystems(self, root: str) -> list[Dataset]:
        found = [name for name in self.datasets if name == root or name.startswith(root + "/")]
        if not found:
            raise DatasetNotFound(("zfs",), 1, f"cannot open '{root}': dataset does not exist")
        where = {self.mounted: "/somewhere"}
        return [Dataset(name=name, guid=1, mountpoint=where.get(name)) for name in found]

    def exists(self, name: str) -> bool:
        return any(each.partition("/")[0] == name for each in self.datasets)

    def user_properties(self, root: str) -> dict[str, dict[str, str]]:
        self.asked.append(root)
        return {name: p for name, p in self.datasets.items() if name.startswith(root)}

    def snapshots(self, name: str) -> list[Snapshot]:
        return [s for s in self.made if s.dataset == name]

    def snapshots_below(self, root: str) -> list[Snapshot]:
        return [s for s in self.made if s.dataset == root or s.dataset.startswith(root + "/")]


def zfs(*names: str, snapshots: list[Snapshot] | None = None) -> Zfs:
    return cast(Zfs, Fake({name: {} for name in names}, snapshots))


def test_what_lies_among_the_clones_is_not_the_instances() -> None:
    """Though they lie below its own dataset, and have its records."""
    inner = f"{DB}/clones"
    ours = snapshots_of(PLAIN, "zbackup-1", 1)
    copied = [replace(s, dataset=f"{inner}/dev/{n}", name="zbackup-9") for n, s in enumerate(ours)]
    beside = replace(ours[0], dataset=f"{DB}/clones-not", name="mine", properties=())
    names = (DB, LOG, inner, f"{inner}/dev", f"{inner}/dev/0", f"{inner}/dev/1", f"{DB}/clones-not")
    here = zfs(*names, snapshots=[*ours, *copied, beside])
    assert [d.name for d in own_datasets(here, [DB], without=inner)] == [DB, LOG, f"{DB}/clones-not"]
    found = read(here, "shop", [DB], without=inner)
    ((backup,), taken) = found.backups, found.taken
    assert [s.dataset for s in backup.snapshots] == [DB, LOG] and backup.complete
    assert taken == {"zbackup-1", "mine"}
    assert read(here, "blog", [DB], without=inner).backups == ()


def test_what_was_put_aside_counts_under_its_old_name() -> None:
    aside = snapshots_of(PLAIN, "zbackup-1", 1)
    aside = [replace(s, dataset=s.dataset.replace(DB, f"{DB}-before")) for s in aside]
    now = snapshots_of(replace(PLAIN, backup="2"), "zbackup-2", 2)
    formerly = {f"{DB}-before": DB, f"{DB}-before/bin log": LOG, "tank/gone": "tank/x"}
    here = zfs(DB, LOG, f"{DB}-before", f"{DB}-before/bin log", snapshots=[*aside, *now])
    found = read(here, "shop", [DB], without=ROOT, formerly=formerly)
    assert [(b.record.backup, b.complete) for b in found.backups] == [(PLAIN.backup, True), ("2", True)]
    assert [d.name for d in found.former] == [f"{DB}-before", f"{DB}-before/bin log"]
    assert [d.name for d in found.all_datasets] == [DB, LOG, f"{DB}-before", f"{DB}-before/bin log"]
    assert found.taken == {"zbackup-2"}


def test_a_root_that_is_gone_and_a_pool_that_is_not_imported() -> None:
    with pytest.raises(DatasetNotFound, match="dataset does not exist") as told:
        read(zfs("tank/other"), "shop", [DB], without=ROOT)
    assert "import" not in str(told.value)
    with pytest.raises(DatasetNotFound, match="there is no pool tank here now: zpool import tank"):
        read(zfs("dozer/other"), "shop", [DB], without=ROOT)


def clones_of(datasets: dict[str, dict[str, str]], mounted: str = "") -> list[str]:
    here = cast(Zfs, Fake(datasets, mounted=mounted))
    assert clones(here, ROOT) == list(read_clones(here, ROOT).found)
    return [clone.name for clone, _ in read_clones(here, ROOT).found]


def test_what_was_to_become_a_clone_is_one_without_its_description() -> None:
    """A power cut took it. What is mounted, or lies deeper, is somebody's own."""
    intent = {ROOT: {f"{INTENT}dev": DEV.to_property()}}
    assert clones_of(intent | {f"{ROOT}/dev": {}}) == ["dev"]
    assert clones_of(intent | {f"{ROOT}/dev": {}}, mounted=f"{ROOT}/dev") == []
    assert clones_of(intent | {f"{ROOT}/x": {}, f"{ROOT}/x/dev": {}}) == []
    assert clones_of(intent | {f"{ROOT}/other": {}}) == []
    assert (
        read_clones(cast(Zfs, Fake(intent | {f"{ROOT}/x": {}, f"{ROOT}/x/dev": {}})), ROOT).unreadable == ()
    )


def test_where_there_are_no_clones_nothing_more_is_asked() -> None:
    here = Fake({ROOT: {}})
    assert read_clones(cast(Zfs, here), ROOT).datasets == {ROOT} and here.asked == []
    assert switches(cast(Zfs, here), ROOT, "shop") == () and here.asked == []
    nowhere = read_clones(zfs("tank/x"), ROOT)
    assert (nowhere.found, nowhere.unreadable, nowhere.datasets) == ((), (), frozenset())
    assert switches(zfs("tank/x"), ROOT, "shop") == ()


def test_switches_are_in_their_order_and_of_the_instance() -> None:
    assert CLONE.switch
    older = replace(CLONE, name="older", switch=replace(CLONE.switch, at=NOON - timedelta(1)))
    other = replace(CLONE, name="other", instance="blog")
    assert among([CLONE, DEV, other, older], "shop") == (older, CLONE)
    datasets = {f"{ROOT}/{c.name}": {PROPERTY: c.to_property()} for c in (CLONE, DEV, other, older)}
    here = cast(Zfs, Fake({ROOT: {}} | datasets | {f"{ROOT}/bad": {PROPERTY: "{"}, f"{ROOT}/none": {}}))
    assert switches(here, ROOT, "shop") == (older, CLONE)
    alone = cast(Zfs, Fake({ROOT: {}, f"{ROOT}/good": {PROPERTY: CLONE.to_property()}}))
    assert switches(alone, ROOT, "shop") == (CLONE,)
