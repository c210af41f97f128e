"""Reasons that keep a backup from being taken, before anything is locked."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import NOON, PLAIN, snapshots_of
from zbackup.clock import SystemClock
from zbackup.jobs.backup import snapshot
from zbackup.model.backup import Backup
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.record import to_properties
from zbackup.model.snapshot import Snapshot


def test_a_record_that_could_not_be_read_back_is_refused_before_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    members = tuple((f"tank/{n}", f"/srv/{n}") for n in range(10_001))
    monkeypatch.setattr(snapshot, "require_one_snapshot_covers", lambda *_: members)
    facts = SimpleNamespace(
        flavor="mysql",
        version="9.7.4",
        server_uuid=PLAIN.server_uuid,
        role="primary",
        data_paths=(),
        server={},
        blockers=(),
        warnings=(),
        non_transactional_count=0,
    )
    engine = SimpleNamespace(
        inspect=lambda: facts, choose_lock=lambda _: SimpleNamespace(kind="none", reason="")
    )
    ctx = SimpleNamespace(engine=engine, instance="shop", clock=SystemClock())
    catalog = SimpleNamespace(datasets=(), taken=frozenset())
    with pytest.raises(Refused, match="could not be read back, so that none is taken"):
        snapshot.plan_snapshot(cast(Any, SimpleNamespace(**vars(ctx), catalog=lambda: catalog)))


def test_a_name_is_of_the_second_and_numbered_when_that_has_one() -> None:
    ctx = cast(Any, SimpleNamespace(clock=SimpleNamespace(now=lambda: NOON)))
    taken: set[str] = set()
    for name in ("zbackup-20240501T120000Z", "zbackup-20240501T120000Z-2", "zbackup-20240501T120000Z-3"):
        assert snapshot.free_name(ctx, cast(Any, SimpleNamespace(taken=taken))) == name
        taken.add(name)


def test_one_that_is_not_there_on_every_dataset_is_no_backup() -> None:
    there = snapshots_of(PLAIN)

    def find(snapshots: list[Snapshot]) -> Backup:
        ctx = SimpleNamespace(zfs=SimpleNamespace(snapshots_named=lambda _: snapshots))
        return snapshot.find(cast(Any, ctx), PLAIN, [str(s) for s in there])

    assert find(there).complete
    others = [
        replace(s, properties=tuple(to_properties(replace(PLAIN, backup="another")).items())) for s in there
    ]
    for less in (there[:1], [], others):
        with pytest.raises(VerificationFailed, match="not there on every dataset"):
            find(less)
