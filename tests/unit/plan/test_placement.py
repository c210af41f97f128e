"""Placement of a server's files: whether one snapshot covers all of them."""

import pytest

from zbackup.model.errors import Refused
from zbackup.model.server import DataPath
from zbackup.model.snapshot import Dataset
from zbackup.plan.health.placement import needed_datasets, require_one_snapshot_covers

DATA = DataPath("data directory", "/srv/db/data")
BINLOG = DataPath("binlog", "/srv/db/log/binlog")


def dataset(name: str, mountpoint: str | None) -> Dataset:
    return Dataset(name=name, guid=hash(name), mountpoint=mountpoint)


def test_nested_datasets_are_all_members_parents_first() -> None:
    datasets = [dataset("tank/db/log", "/srv/db/log"), dataset("tank/db", "/srv/db")]
    assert require_one_snapshot_covers([DATA, BINLOG], datasets) == (
        ("tank/db", "/srv/db"),
        ("tank/db/log", "/srv/db/log"),
    )


def test_a_directory_whose_name_only_begins_alike_is_outside() -> None:
    with pytest.raises(Refused) as refusal:
        require_one_snapshot_covers(
            [DataPath("data directory", "/data2/db")], [dataset("tank/data", "/data")]
        )
    assert str(refusal.value) == (
        "not on the instance's datasets: data directory in /data2/db. The datasets are tank/data (/data)"
    )


def test_only_what_lies_outside_is_listed() -> None:
    redo = DataPath("redo log", "/var/lib/redo")
    with pytest.raises(Refused) as refusal:
        require_one_snapshot_covers([DATA, redo, BINLOG], [dataset("tank/db", "/srv/db")])
    assert "redo log in /var/lib/redo." in str(refusal.value)
    assert "data directory" not in str(refusal.value)


def test_the_mountpoint_itself_is_inside() -> None:
    found = require_one_snapshot_covers([DataPath("data", "/srv/db")], [dataset("tank/db", "/srv/db")])
    assert found == (("tank/db", "/srv/db"),)


def test_two_pools_are_refused_and_both_named() -> None:
    datasets = [dataset("fast/db", "/srv/db"), dataset("slow/log", "/srv/db/log")]
    with pytest.raises(Refused, match=r"2 pools.*fast/db on fast; slow/log on slow"):
        require_one_snapshot_covers([DATA, BINLOG], datasets)


def test_pools_are_told_apart_by_their_whole_name() -> None:
    datasets = [dataset("tank", "/srv/db"), dataset("tank2/log", "/srv/db/log")]
    with pytest.raises(Refused, match="2 pools"):
        require_one_snapshot_covers([DATA, BINLOG], datasets)


def test_an_unmounted_dataset_holds_nothing_that_can_be_seen() -> None:
    with pytest.raises(Refused, match="none is mounted"):
        require_one_snapshot_covers([DATA], [dataset("tank/db", None)])


def test_unmounted_datasets_are_no_members() -> None:
    datasets = [dataset("tank/db", "/srv/db"), dataset("tank/db/old", None)]
    assert require_one_snapshot_covers([DATA], datasets) == (("tank/db", "/srv/db"),)


def test_the_system_s_root_is_refused_by_name() -> None:
    datasets = [dataset("rpool/root", "/"), dataset("rpool/root/db", "/srv/db")]
    with pytest.raises(Refused, match=r"^rpool/root is mounted at /: .* a dataset of its own"):
        require_one_snapshot_covers([DATA, BINLOG], datasets)


def test_a_dataset_whose_snapshots_cannot_be_read_is_refused() -> None:
    closed = Dataset(name="tank/my db", guid=1, mountpoint="/srv/db", snapdir="disabled")
    with pytest.raises(Refused) as refusal:
        require_one_snapshot_covers([DATA], [closed])
    assert str(refusal.value) == (
        "tank/my db has snapdir=disabled, so its snapshots cannot be read: "
        "zfs set snapdir=hidden 'tank/my db'"
    )


def test_the_datasets_to_name_are_those_of_all_files_on_one_pool() -> None:
    homes = {"/a": "tank/my", "/a/log": "tank/my/log", "/b": "tank/binlog"}
    assert needed_datasets(homes, ["tank/my/log"]) == ["tank/binlog", "tank/my"]
    assert needed_datasets({**homes, "/c": ""}, ["tank/my"]) == []
    assert needed_datasets({**homes, "/c": "other/c"}, ["tank/my"]) == []
    assert needed_datasets({}, ["tank/my"]) == []
