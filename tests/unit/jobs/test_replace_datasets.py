"""Fresh datasets of a clone take the places of its own."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.jobs.clones import replace_datasets


@pytest.mark.parametrize("name", ["shop-dev1", "fresh-shop"])
def test_a_fresh_dataset_takes_its_place_within_the_clone_whatever_that_is_called(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    fresh = SimpleNamespace(name=f"tank/zbackup/{name}/fresh-0")
    monkeypatch.setattr(replace_datasets, "_fresh", lambda *_: [fresh])
    renamed: list[tuple[object, str]] = []
    zfs = SimpleNamespace(
        exists=lambda _: False,
        rename=lambda dataset, place: renamed.append((dataset, place)),
        mount=lambda place: None,
    )
    ctx, clone = SimpleNamespace(zfs=zfs, clones="tank/zbackup"), SimpleNamespace(name=name)
    replace_datasets.settle(cast(Any, ctx), cast(Any, clone))
    assert renamed == [(fresh, f"tank/zbackup/{name}/0")]
