"""What a verification on schedule does not take for well."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_prune_at import Place
from tests.unit.plan.histories import made
from tests.unit.samples import NOON, lacking_one
from zbackup.jobs.context import Context, ShipTarget
from zbackup.jobs.verify_at import prove_at
from zbackup.model.errors import VerificationFailed
from zbackup.model.progress import Silent


def test_data_that_was_to_be_read_and_was_not(tmp_path: Path) -> None:
    """Of the only backup a part was pruned here, so that nothing is read there."""
    one = made(1, NOON)
    ctx = SimpleNamespace(
        shared=tmp_path,
        instance="shop",
        progress=Silent(),
        catalog=lambda: SimpleNamespace(backups=(lacking_one(one),)),
    )
    target = ShipTarget(destination=cast(Any, Place([one])), tag="tag", sample=-1)
    assert prove_at(cast(Context, ctx), target).problems == (), "nothing was to be read"
    with pytest.raises(VerificationFailed, match=r"^no data was read: "):
        prove_at(cast(Context, ctx), replace(target, sample=1 << 30))
