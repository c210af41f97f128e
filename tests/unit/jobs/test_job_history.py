"""The history of the runs of jobs."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from zbackup.jobs import job_history
from zbackup.jobs.job_history import BEFORE, FILE, MOST_SAID, MOST_SHOWN, JobHistory
from zbackup.model.run import JobRun

T0 = datetime(2026, 11, 22, tzinfo=UTC)


def run(number: int, **changes: object) -> JobRun:
    facts = {"instance": "shop", "job": "snapshot", "seconds": 1.5, "result": "done"}
    return JobRun(began=T0 + timedelta(minutes=number), **(facts | changes))  # type: ignore[arg-type]


def test_the_newest_comes_first(tmp_path: Path) -> None:
    history = JobHistory(tmp_path / "state")
    assert history.read() == ()
    there = [run(1), run(2, result="failed", message="no room"), run(3, result="postponed", message="busy")]
    for each in there:
        history.add(each)
    assert history.read() == tuple(reversed(there))


def test_an_old_failure_is_told_behind_many_that_went_well(tmp_path: Path) -> None:
    history = JobHistory(tmp_path)
    history.add(run(0, result="failed", message="the cause"))
    for number in range(1, MOST_SHOWN + 50):
        history.add(run(number))
    found = history.read()
    assert len(found) == MOST_SHOWN + 1
    assert found[-1].message == "the cause"


def test_the_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_history, "MOST_BYTES", 5000)
    history = JobHistory(tmp_path)
    for number in range(300):
        history.add(run(number))
    assert {p.name for p in tmp_path.iterdir()} == {FILE, BEFORE}
    assert all(p.stat().st_size < 6000 for p in tmp_path.iterdir())
    assert history.read()[0] == run(299)
    assert len(history.read()) > 30


TOLD = b'{"began": "%s", "instance": "shop", "job": "prune", "seconds": 1, "result": "done", "message": "%s"}'
WHEN = b"2026-11-22T00:00:00"


def test_a_reason_is_shown_up_to_its_bound(tmp_path: Path) -> None:
    history = JobHistory(tmp_path)
    history.add(run(1, message="y" * MOST_SAID))
    assert history.read() == (run(1, message="y" * MOST_SAID),)


@pytest.mark.parametrize(
    "line",
    [
        TOLD % (WHEN, b""),
        TOLD % (WHEN + b"Z", b"y" * (MOST_SAID + 1)),
        b"nonsense",
        b"{}",
        b"[" * 9000,
        b"\xff\xfe",
        b'{"instance": 3}',
    ],
)
def test_what_makes_no_sense_is_left_out(tmp_path: Path, line: bytes) -> None:
    history = JobHistory(tmp_path)
    history.add(run(1))
    with (tmp_path / FILE).open("ab") as file:
        file.write(line + b"\n")
    history.add(run(2))
    assert history.read() == (run(2), run(1))
