"""What keeps a backup from being taken, before anything is locked."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import PLAIN
from zbackup.clock import SystemClock
from zbackup.jobs.backup import snapshot
from zbackup.model.errors import Refused


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
        places=(),
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
