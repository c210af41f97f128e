"""The backup that a name means, and the record that is nearest."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.jobs.backup.end_keep import find_kept
from zbackup.jobs.restore.foreign_source import _like


def backup(name: str, txg: int, label: str = "") -> Any:
    record = SimpleNamespace(members=(("tank/m", "/m"),), keep_until=10, label=label)
    return SimpleNamespace(name=name, complete=True, createtxg=txg, record=record)


def test_a_name_goes_before_a_label_that_is_the_same() -> None:
    backups = (backup("b1", 1), backup("b2", 2, label="b1"), backup("b3", 3, label="before"))
    clock = SimpleNamespace(now=lambda: 5)
    ctx = cast(Any, SimpleNamespace(catalog=lambda: SimpleNamespace(backups=backups), clock=clock))
    assert [b.name for b in find_kept(ctx, "b1")] == ["b1"]
    assert [b.name for b in find_kept(ctx, "before")] == ["b3"]


@pytest.mark.parametrize(("txg", "name"), [(1000, "new"), (11, "old"), (5, "old"), (2000, "new")])
def test_the_nearest_backup_says_what_the_server_was_like(txg: int, name: str) -> None:
    catalog = cast(Any, SimpleNamespace(backups=(backup("old", 10), backup("new", 1001))))
    found = cast(Any, SimpleNamespace(snapshots=[SimpleNamespace(dataset="tank/m", createtxg=txg)]))
    assert _like(cast(Any, None), catalog, found)[1] == name
