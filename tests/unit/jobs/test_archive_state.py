"""The state of a log archive that is known without asking there, and how it is judged."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.archived import DESTINATION, LOOKED, ROUND, STATE
from zbackup.jobs.archive.state import (
    after_failure,
    after_round,
    archive_states,
    known_state,
    read_state,
    write_state,
)
from zbackup.jobs.context import Context
from zbackup.model.archive import ArchiveRules
from zbackup.model.errors import ConnectionFailed
from zbackup.plan.health.archive_health import ArchiveFacts, of_archives

LATER = LOOKED + timedelta(minutes=7)


@pytest.fixture
def ctx(tmp_path: Path) -> Context:
    rules = ArchiveRules(to=("offsite", "cloud"), every=5.0)
    return cast(Context, SimpleNamespace(instance="shop", shared=tmp_path / "d", archive=rules))


def test_what_is_written_down_is_read_back(ctx: Context) -> None:
    write_state(ctx, STATE)
    assert read_state(ctx, "offsite") == STATE
    known, unknown = archive_states(ctx, LATER)
    assert (known, unknown.archived) == (STATE, None)
    assert known.exposed(LATER) == timedelta(minutes=7) and unknown.exposed(LATER) is None


def test_what_was_archived_in_the_future_tells_nothing() -> None:
    assert STATE.exposed(LOOKED) == timedelta()
    assert STATE.exposed(LOOKED - timedelta(seconds=1)) is None
    facts = ArchiveFacts(destination="offsite", exposed=None, every=timedelta(seconds=5), ahead=True)
    (found,) = of_archives([facts], daemon_runs=True)
    assert "the clock was set back" in found.text


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"every": "x"}', "{" * 50_000, "\xff"])
def test_what_cannot_be_read_is_not_known(ctx: Context, text: str) -> None:
    write_state(ctx, STATE)
    (ctx.shared / "shop.archive.offsite.json").write_text(text)
    assert read_state(ctx, "offsite") is None


def test_a_failure_takes_back_nothing_that_was_archived() -> None:
    done = after_round(None, DESTINATION, 5.0, ROUND)
    assert (done.end, done.archived, done.gap) == ("binlog.000007:5000", LOOKED, "a gap")
    failed = after_failure(done, DESTINATION, 5.0, LATER, ConnectionFailed(("ssh",), 255, "no\nroute"))
    assert failed.archived == LOOKED and failed.tried == LATER and "\n" not in failed.error and failed.error
    assert (failed.end, failed.gap) == (done.end, "a gap")
    again = after_round(failed, DESTINATION, 5.0, replace(ROUND, gap=""))
    assert (again.error, again.gap) == ("", "a gap")


def test_at_first_there_is_nothing_to_take_back() -> None:
    found = after_round(None, DESTINATION, 5.0, replace(ROUND, gap="", end=None))
    assert (found.end, found.gap, found.archived) == ("", "", LOOKED)
    failed = after_failure(None, DESTINATION, 5.0, LATER, TimeoutError())
    assert (failed.end, failed.gap, failed.archived) == ("", "", None)
    assert failed.error == "TimeoutError", "a failure that says nothing has a name"


def test_since_when_every_look_fails_is_known(ctx: Context) -> None:
    first = after_failure(None, DESTINATION, 5.0, LOOKED, TimeoutError())
    again = after_failure(first, DESTINATION, 5.0, LATER, TimeoutError())
    assert (first.failing, again.failing, again.tried) == (LOOKED, LOOKED, LATER)
    write_state(ctx, again)
    assert read_state(ctx, "offsite") == again, "and after a restart of the daemon, too"
    works = after_round(again, DESTINATION, 5.0, ROUND)
    assert works.failing is None
    assert after_failure(works, DESTINATION, 5.0, LATER, TimeoutError()).failing == LATER


def test_what_was_never_archived_is_told_as_of_now(ctx: Context) -> None:
    now = cast(Context, SimpleNamespace(**vars(ctx), clock=SimpleNamespace(now=lambda: LATER)))
    known = known_state(now, "offsite")
    assert (known.tried, known.every, known.archived) == (LATER, 5.0, None)
    nowhere = cast(Context, SimpleNamespace(**vars(ctx) | {"archive": None}))
    assert archive_states(nowhere, LATER) == ()
    assert known_state(nowhere, "offsite", LOOKED).every == 0.0


@pytest.mark.parametrize(
    ("exposed", "severity"),
    [(0, None), (54, None), (56, "warning"), (329, "warning"), (331, "critical"), (None, "warning")],
)
def test_an_archive_that_is_behind_is_told(exposed: int | None, severity: str | None) -> None:
    since = None if exposed is None else timedelta(seconds=exposed)
    facts = ArchiveFacts(destination="offsite", exposed=since, every=timedelta(seconds=5), error="no route")
    found = of_archives([facts], daemon_runs=True)
    assert [f.severity for f in found] == ([severity] if severity else [])
    assert all("offsite" in f.text and "no route" in f.text for f in found)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("seconds", "severity"), [(0, "warning"), (330, "warning"), (331, "critical")])
def test_one_that_never_worked_is_as_serious_as_one_that_did(
    seconds: int, severity: str, ahead: bool
) -> None:
    facts = ArchiveFacts(
        destination="offsite",
        exposed=None,
        every=timedelta(seconds=5),
        error="no route",
        ahead=ahead,
        failing=timedelta(seconds=seconds),
    )
    (found,) = of_archives([facts], daemon_runs=True)
    assert found.severity == severity and found.key == "offsite never"
