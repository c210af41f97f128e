"""The end of a stopped server's log, when a switch is taken up."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import at_hour, made
from zbackup.jobs.switch import end_of_log
from zbackup.model.backup import Backup
from zbackup.model.errors import CommandFailed
from zbackup.model.record import STOPPED

WHY = "switch to good"


def end(number: int, *, finished: bool = True) -> Backup:
    taken = made(number, at_hour(number), purpose="log")
    record = replace(taken.record, server=taken.record.server | {STOPPED: WHY})
    return replace(taken, record=record if finished else replace(record, as_of=None))


def taken_up(
    monkeypatch: pytest.MonkeyPatch, known: list[Backup], fails: bool = False, mounted: int = 2
) -> list[str]:
    """What is done, in order."""
    done: list[str] = []

    def take(*_: Any) -> Backup:
        if fails:
            raise CommandFailed(("zfs", "snapshot"), 1, "no room")
        done.append("take")
        return end(9)

    first = made(1, at_hour(1))
    datasets = [SimpleNamespace(guid=n, name=s.dataset) for n, s in enumerate(first.snapshots)]
    catalog = SimpleNamespace(datasets=datasets, backups=(first, *known))
    monkeypatch.setattr(end_of_log, "_catalog", lambda *_: catalog)
    monkeypatch.setattr(end_of_log, "mounted", lambda _: dict.fromkeys(["data", "log"][:mounted], ""))
    monkeypatch.setattr(end_of_log, "snapshot_log", take)
    monkeypatch.setattr(end_of_log, "discard", lambda _, backup: done.append(f"discard {backup.name}"))
    told = SimpleNamespace(phase=lambda *_: None, note=lambda _: None)
    ctx = cast(Any, SimpleNamespace(progress=told))
    end_of_log._snapshot(ctx, cast(Any, None), {d.guid: d.name for d in datasets}, (WHY, None), None)
    return done


def test_one_of_an_earlier_run_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have been started, and written to, in between."""
    assert taken_up(monkeypatch, [end(2)]) == ["take", "discard zbackup-2"]
    assert taken_up(monkeypatch, [end(2, finished=False)]) == ["discard zbackup-2", "take"]
    assert taken_up(monkeypatch, []) == ["take"]


def test_it_stays_when_none_can_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert taken_up(monkeypatch, [end(2)], fails=True) == []


def test_none_is_taken_of_a_log_that_is_not_mounted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that was cut short had unmounted it, and its snapshot is the end of the log."""
    assert taken_up(monkeypatch, [end(2)], mounted=1) == []
