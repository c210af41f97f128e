"""A replica needs a log to go on from."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import backup
from zbackup.jobs.dev_clones import create
from zbackup.jobs.dev_clones.create import CreateOptions
from zbackup.model.backup import Backup
from zbackup.model.errors import Refused


def test_no_replica_is_made_of_a_backup_without_a_log() -> None:
    taken = backup(1, 1, 1, log_id="", log_from="", log_to="")
    facts = taken.record.server | {"blockers": "the binlog is off: set log_bin"}
    without = Backup(record=replace(taken.record, server=facts), snapshots=taken.snapshots)
    ctx: Any = SimpleNamespace(recovery=SimpleNamespace(check_program=lambda _: "mysqld"))
    with pytest.raises(Refused, match=r"no replica can go on from zbackup-1, .* the binlog is off"):
        create._make(ctx, "r", without, cast(Any, CreateOptions(as_replica=True)), ())
