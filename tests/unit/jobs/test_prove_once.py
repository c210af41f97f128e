"""The drill at the end of `zbackup init`, beside a daemon that makes its own first one."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.jobs.test_drills import FAILED, PASSED, Host, context, marked
from tests.unit.plan.histories import made
from tests.unit.samples import NOON
from zbackup.jobs.drills import drill, guard
from zbackup.model.drill import DrillVerdict, to_text


@pytest.mark.parametrize("verdict", [PASSED, FAILED, None])
def test_init_takes_the_verdict_of_the_drill_that_a_daemon_makes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: DrillVerdict | None
) -> None:
    """One that failed counts for nothing: another is made."""
    base, own = made(1, NOON), replace(PASSED, name="own")
    backups = [base]
    catalog = SimpleNamespace(backups=backups)
    ctx = context(Host(), shared=tmp_path, catalog=lambda: catalog)
    daemon = ExitStack()
    daemon.enter_context(guard.one_at_a_time(ctx, "zbackup drill"))

    def end(_: float) -> None:
        if verdict:
            backups[0] = marked(base, to_text(replace(verdict, backup=base.record.backup)))
        daemon.close()

    monkeypatch.setattr("zbackup.proc.lock.time.sleep", end)
    monkeypatch.setattr(drill, "_here", lambda *_, **__: SimpleNamespace(verdict=own))
    assert drill.prove_once(ctx, wait=60).name == (PASSED.name if verdict is PASSED else "own")
