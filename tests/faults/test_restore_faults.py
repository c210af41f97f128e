"""A restore that goes well, and one that its server refuses.

Restores broken at every command take longer: tests/slow/test_restore_faults_*.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tests.faults.recovery import OPTIONS, House, prepare
from tests.lab.pool import Pool
from zbackup.engines.mysql.clone import accounts, clone_server
from zbackup.jobs.backup.prune import prune
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.restore.restore import restore
from zbackup.model.errors import DatabaseError
from zbackup.model.moment import Moment
from zbackup.model.progress import Silent
from zbackup.model.retention import Retention, Span
from zbackup.proc.lock import lock_owner
from zbackup.proc.run import run
from zbackup.zfs.datasets import Zfs


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    yield from prepare(pool)


def test_unbroken_it_succeeds_and_its_clone_can_be_destroyed(house: House) -> None:
    before = house.listing()
    house.finish("unbroken")
    house.forget_log_snapshots()
    assert house.listing() == before


def test_no_prune_gets_between_the_plan_and_the_clones(house: House) -> None:
    """Afterwards the instance is free again: a recovery may take hours."""
    seen: dict[str, set[str]] = {}

    def runner(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        seen.setdefault(argv[1], set()).add(lock_owner(ctx.lock_file))
        return run(argv, mutates=mutates, timeout=timeout)

    class Seen(Silent):
        def phase(self, name: str, detail: str = "") -> None:
            seen.setdefault(name, set()).add(lock_owner(ctx.lock_file))

    ctx = replace(house.context(), zfs=Zfs(runner), progress=Seen())
    house.require_recovered(restore(ctx, house.moment, OPTIONS))
    assert [who.partition(" (")[0] for who in seen["clone"]] == ["zbackup restore"]
    assert seen["starting the temporary server"] == seen["replaying"] == {""}
    house.finish("looked at")
    house.forget_log_snapshots()


def test_a_refused_login_is_final_after_a_while(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The init file made another account than ours, as a policy for passwords may have it."""
    right = accounts.TemporaryAccount.creation
    monkeypatch.setattr(
        accounts.TemporaryAccount, "creation", lambda self: right(replace(self, password="other"))
    )
    monkeypatch.setattr(clone_server, "REFUSED_LIMIT_S", 2.0)
    before = house.listing()
    with pytest.raises(DatabaseError) as failure:
        restore(house.context(), house.moment, OPTIONS)
    assert "refuses the account that its init file should have made" in str(failure.value)
    assert "ready for connections" in str(failure.value), "the end of its log is not shown"
    assert house.is_as(before)
    house.forget_log_snapshots()


class PrunedWhenItStarts(Silent):
    """When the server of a restore is started, another snapshot is taken, and a prune keeps that alone."""

    def __init__(self, others: Context) -> None:
        self.others = others
        self.destroyed: list[str] = []

    def phase(self, name: str, detail: str = "") -> None:
        if name == "starting the temporary server":
            snapshot(self.others)
            time.sleep(1.1)
            self.destroyed += [b.name for b in prune(self.others).destroyed]


def test_a_prune_takes_no_log_away_that_a_restore_looks_at(house: House) -> None:
    """Nothing was written since the last backup: there is nothing to replay, but to look whether it is so.

    This comes last: it prunes the backup that the others restore.
    """
    snapshot(house.context())
    time.sleep(1.1)
    now = Moment(at=datetime.now(UTC), text="now", zone=ZoneInfo("UTC"), is_now=True)
    rules = Retention(last=1, minimum=1, window=Span(0, "minute"))
    progress = PrunedWhenItStarts(replace(house.context(), retention=rules))
    report = restore(replace(house.context(), progress=progress), now, OPTIONS)
    assert report.replay and not report.replay.transactions
    assert progress.destroyed, "nothing was pruned"
    assert report.plan.log and report.plan.log.name not in progress.destroyed
    house.finish("pruned meanwhile")
