"""Exit status of `zbackup verify`: what it calls a success."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_prune_at import Place
from tests.unit.plan.histories import at_hour, made
from zbackup.cli.verify import compare
from zbackup.jobs.context import Context, ShipDestination
from zbackup.model.errors import VerificationFailed
from zbackup.model.progress import Silent

THERE = [made(number, at_hour(number)) for number in (1, 2, 3)]


def test_where_nothing_could_be_compared_that_is_no_success(tmp_path: Path) -> None:
    here = SimpleNamespace(shared=tmp_path, instance="shop", progress=Silent())
    destination = ShipDestination(adapter=cast(Any, Place(THERE)), tag="tag")
    for mine, same in ((THERE, 3), (THERE[1:2], 1)):
        here.catalog = lambda mine=mine: SimpleNamespace(backups=tuple(mine))
        done = compare(cast(Context, here), destination, -1, with_drill=False)
        assert done.report and len(done.report.compared) == same
    here.catalog = lambda: SimpleNamespace(backups=(made(4, at_hour(4)),))
    with pytest.raises(VerificationFailed, match="none of the 3 backups that are there is here") as failed:
        compare(cast(Context, here), destination, -1, with_drill=False)
    assert failed.value.exit_status == 11 and "\n" not in str(failed.value)
    assert "zbackup verify shop --at" in str(failed.value)
