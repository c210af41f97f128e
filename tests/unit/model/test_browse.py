"""A backup's files are read below the datasets they were taken of, where those are mounted now."""

import pytest

from tests.unit.samples import backup
from zbackup.model.errors import Refused
from zbackup.model.snapshot import Dataset

DATA = Dataset(name="tank/my db", guid=1, mountpoint="/srv/my db")
LOG = Dataset(name="tank/my db/bin log", guid=2, mountpoint="/mnt/log")
UNMOUNTED = Dataset(name="tank/my db/bin log", guid=2, mountpoint=None)


def test_files_are_found_where_the_datasets_are_mounted_now() -> None:
    one = backup(1, 0, 0)
    where = one.browse((DATA, LOG))
    assert str(where.path("/srv/my db/data/ibdata1")) == f"/srv/my db/.zfs/snapshot/{one.name}/data/ibdata1"
    assert (
        str(where.path("/srv/my db/bin log/binlog.index"))
        == f"/mnt/log/.zfs/snapshot/{one.name}/binlog.index"
    )


@pytest.mark.parametrize("datasets", [(DATA, UNMOUNTED), (DATA,)])
def test_a_dataset_that_is_not_mounted_is_named(datasets: tuple[Dataset, ...]) -> None:
    with pytest.raises(Refused, match="zbackup mount 'tank/my db/bin log'"):
        backup(1, 0, 0).browse(datasets)
