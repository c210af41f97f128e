"""A snapshot of the log says how far it leads only by what was in the log when that was looked at."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import at_hour, made
from zbackup.jobs.backup import log_snapshot
from zbackup.model.errors import DatabaseError
from zbackup.model.log import LOG_BEHIND
from zbackup.model.record import Record


@pytest.mark.parametrize("fails", [False, True])
def test_what_is_committed_while_a_copy_is_read_is_not_said_to_be_in_it(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """It has what was there when that began, and a restore to a later moment would lack the rest."""
    hours, kept = [1], list[Record]()

    def bring_up_to_date(_: Any) -> None:
        hours[0] = 2
        if fails:
            raise DatabaseError("it does not\nanswer")

    def find(_: Any, record: Record, names: list[str]) -> None:
        kept.append(record)

    monkeypatch.setattr(log_snapshot, "mounted", lambda _: {"tank/data": "/data"})
    monkeypatch.setattr(log_snapshot, "live_files", lambda _: None)
    monkeypatch.setattr(log_snapshot, "free_name", lambda *_: "zbackup-9")
    monkeypatch.setattr(log_snapshot, "find", find)
    monkeypatch.setattr(log_snapshot, "finish", lambda *_: None)
    ctx = SimpleNamespace(
        instance="shop",
        clock=SimpleNamespace(now=lambda: at_hour(hours[0]), reading=lambda: None),
        log_reader=SimpleNamespace(log_delay_s=0.0, bring_up_to_date=bring_up_to_date),
        zfs=SimpleNamespace(snapshot=lambda *_, **__: None),
    )
    catalog = SimpleNamespace(datasets=(), all_datasets=())
    log_snapshot.snapshot_log(cast(Any, ctx), cast(Any, catalog), (), made(1, at_hour(0)).record)
    assert [each.taken for each in kept] == [at_hour(1)]
    assert kept[0].server.get(LOG_BEHIND, "") == ("it does not answer" if fails else "")
