"""A backup behind what cannot be replayed: taken by a look, not by every look, whatever comes of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import at, backup
from zbackup.catalog.local import Catalog
from zbackup.jobs.context import Context
from zbackup.jobs.watch import new_base
from zbackup.jobs.watch.new_base import Renewals, renew_base
from zbackup.model.backup import Backup
from zbackup.model.errors import VerificationFailed
from zbackup.model.log import Transaction
from zbackup.model.unreplayable import Unreplayable

LOOKS = 288
"""In a day."""


class Instance:
    """An instance whose log holds, behind each backup, what cannot be replayed; backups may go wrong."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        held = {"log_id": "a", "log_from": "binlog.000001:4", "log_to": "binlog.000001:20"}
        self.backups: list[Backup] = [backup(1, 7, 7, **held)]
        self.stops = [stop(30, 10)]
        self.taken = 0
        self.makes: Backup | None = None
        monkeypatch.setattr(new_base, "snapshot", self._snapshot)
        monkeypatch.setattr(new_base, "live_stops", lambda *_: tuple(self.stops))
        monkeypatch.setattr(new_base, "live_files", lambda _: None)
        self._renewals = Renewals()

    def look(self, times: int = 1) -> int:
        """How many backups were begun in so many looks."""
        before = self.taken
        for _ in range(times):
            ctx = SimpleNamespace(catalog=lambda: Catalog((), tuple(self.backups), cast(Any, ())))
            renew_base(cast(Context, ctx), self._renewals)
        return self.taken - before

    def _snapshot(self, _: Context) -> None:
        self.taken += 1
        if self.makes is None:
            raise VerificationFailed("the log is damaged")
        self.backups.append(self.makes)


def stop(place: int, seconds: float) -> Unreplayable:
    start, end = f"binlog.000001:{place}", f"binlog.000001:{place + 9}"
    return Unreplayable(Transaction(start=start, end=end, committed=at(seconds)), "why")


def test_a_backup_that_does_not_say_which_log_it_holds_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(monkeypatch)
    instance.makes = backup(2, 11, 11, taken=at(11))
    assert instance.look(LOOKS) == 1


def test_one_that_cannot_be_taken_is_tried_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(monkeypatch)
    assert instance.look() == 1
    assert instance.look(LOOKS) in range(3, 8)
    assert instance.look(LOOKS) in range(1, 3)


def test_a_clock_that_was_wrong_makes_no_more_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(monkeypatch)
    instance.stops = [stop(30, 1_000_000)]
    instance.makes = backup(2, 11, 11, taken=at(11))
    assert instance.look(LOOKS) < 9


def test_the_next_such_statement_is_not_kept_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(monkeypatch)
    instance.look()
    assert instance.look() == 0
    instance.stops = [stop(50, 20)]
    assert instance.look() == 1


def test_nothing_to_replay_needs_no_backup(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(monkeypatch)
    instance.stops = []
    assert instance.look(LOOKS) == 0


def test_before_the_first_backup_that_knows_its_log_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = Instance(monkeypatch)
    instance.backups = []
    assert instance.look(LOOKS) == 0
    instance.backups = [backup(1, 7, 7)]
    assert instance.look(LOOKS) == 0


def test_only_a_backup_that_was_taken_behind_the_statement_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    for taken, begun in ((at(9), 1), (at(10), 1), (at(10.001), 0)):
        instance = Instance(monkeypatch)
        instance.backups.append(backup(2, 11, 11, taken=taken))
        assert instance.look() == begun
    instance = Instance(monkeypatch)
    instance.backups = [
        backup(2, 11, 11, taken=at(9), log_id="a", log_from="binlog.000001:4", log_to="binlog.000001:20"),
        backup(1, 7, 7, taken=at(60)),
    ]
    assert instance.look() == 1, "a clock that was put back says nothing of what is older"
    instance = Instance(monkeypatch)
    (newest,) = instance.backups
    instance.backups = [replace(newest, record=replace(newest.record, taken=at(60)))]
    assert instance.look() == 1, "nor of the backup that the statement is behind"
