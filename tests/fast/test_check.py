"""What check tells of an instance when it tries."""

import pytest

from tests.fast.right import require_nothing_left
from tests.fast.world import World
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.watch.check import check
from zbackup.model.errors import VerificationFailed
from zbackup.plan.health.advice_on_arrangements import Expected


def test_it_tries_a_restore_when_it_is_asked_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no setting tells is critical, with the exit status of the restore that failed."""
    monkeypatch.setattr("zbackup.jobs.watch.check.examine", lambda *_: [])
    ctx = world.context()
    snapshot(ctx)
    tried = {f.subject: f for f in check(ctx, Expected(), with_drill=True).findings}
    assert tried["restore"].severity == "ok" and "was recovered" in tried["restore"].text, tried
    assert "restore" not in {f.subject for f in check(ctx, Expected()).findings}

    world.damaged_tables = ("shop.orders: a page has a wrong checksum",)
    report = check(ctx, Expected(), with_drill=True)
    (found,) = (f for f in report.findings if f.subject == "restore")
    assert found.severity == "critical" and "shop.orders" in found.text
    assert report.exit_status == VerificationFailed.exit_status
    require_nothing_left(world)
