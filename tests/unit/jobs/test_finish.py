"""Backups that an earlier run left behind."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import at, backup
from zbackup.jobs.backup import snapshot
from zbackup.jobs.backup.complete_record import finish_all, write_record
from zbackup.model.errors import NotRecoverable, Refused, VerificationFailed
from zbackup.model.record import to_properties
from zbackup.model.recovery import Reach
from zbackup.model.snapshot import Dataset


@pytest.mark.parametrize("error", [NotRecoverable, Refused, OSError, PermissionError])
def test_one_that_holds_no_log_keeps_no_other_from_being_taken(error: type[Exception]) -> None:
    notes: list[str] = []

    def reach(*_: Any) -> Reach:
        raise error("there is no log")

    ctx = SimpleNamespace(
        progress=SimpleNamespace(note=notes.append), log_reader=SimpleNamespace(reach=reach)
    )
    left = backup(1, None, None)
    datasets = tuple(
        Dataset(name=name, guid=number, mountpoint=str(Path("/", name)))
        for number, (name, _) in enumerate(left.record.members)
    )
    assert finish_all(cast(Any, ctx), datasets, (left,)) == (left,)
    assert notes == [f"{left.name} cannot be finished: there is no log"]


def test_what_was_written_and_cannot_be_read_back_is_a_failure_that_is_named() -> None:
    left = backup(1, None, None)
    first = replace(left.snapshots[0], properties=(("zbackup:version", "1"), ("zbackup:taken", "never")))
    zfs = SimpleNamespace(set_properties=lambda *_: None, snapshot_named=lambda _: first)
    with pytest.raises(VerificationFailed, match="cannot be read back"):
        write_record(cast(Any, SimpleNamespace(zfs=zfs)), left, left.record)


def test_what_is_not_there_as_it_was_written_is_a_failure() -> None:
    left = backup(1, None, None)
    finished = left.record.with_end(as_of=at(1), complete_to=at(2))
    written = replace(left.snapshots[0], properties=tuple(to_properties(finished).items()))
    for there, good in (
        (written, True),
        (left.snapshots[0], False),
        (None, False),
        (replace(written, guid=1), False),
    ):
        zfs = SimpleNamespace(set_properties=lambda *_: None, snapshot_named=lambda _, there=there: there)
        if good:
            write_record(cast(Any, SimpleNamespace(zfs=zfs)), left, replace(finished, name=left.record.name))
            continue
        with pytest.raises(VerificationFailed, match="does not hold what was written"):
            write_record(cast(Any, SimpleNamespace(zfs=zfs)), left, finished)


@pytest.mark.parametrize("error", [NotRecoverable, Refused, VerificationFailed, PermissionError])
def test_one_whose_end_cannot_be_told_is_not_left_behind(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, gone = backup(1, None, None), []

    def finish(*_: Any) -> None:
        raise error("it is encrypted")

    plan = SimpleNamespace(lock=SimpleNamespace(kind="none", reason=""))
    ctx = SimpleNamespace(
        instance_lock=lambda _: nullcontext(),
        engine=SimpleNamespace(heal=lambda: None),
        catalog=lambda: SimpleNamespace(all_datasets=(), backups=()),
        progress=SimpleNamespace(phase=lambda *_: None),
    )
    monkeypatch.setattr(snapshot, "_inspect", lambda *_: (None, None, plan))
    monkeypatch.setattr(snapshot, "_take", lambda *_: taken)
    monkeypatch.setattr(snapshot, "finish", finish)
    monkeypatch.setattr(snapshot, "discard", lambda _, backup: gone.append(backup))
    with pytest.raises(error):
        snapshot.snapshot(cast(Any, ctx))
    assert gone == [taken]
