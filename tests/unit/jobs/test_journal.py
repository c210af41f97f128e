"""The daemon's memory beside ZFS."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from zbackup.jobs.journal import JobState, Journal

NOW = datetime(2024, 5, 1, 12, 0, 0, 5, tzinfo=UTC)
ROWS = (
    JobState(instance="shop", job="snapshot", last=NOW, seconds=1.5, next=NOW, why="on schedule"),
    JobState(instance="shop", job="prune", failures=2, failed=NOW, error="PoolFull", message="no room"),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "not there yet")
    assert journal.read() == ()
    journal.write(ROWS)
    assert journal.read() == ROWS
    journal.write(ROWS[:1])
    assert journal.read() == ROWS[:1]
    assert [file.name for file in journal.state_dir.iterdir()] == ["daemon.json"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"jobs": 5}',
        '{"jobs": [{"instance": "shop"}]}',
        '{"jobs": [{"instance": "a", "job": "b", "last": "2024-05-01T12:00:00"}]}',
        '{"jobs": [{"instance": "a", "job": "b", "last": 5}]}',
        '{"jobs": ["a"]}',
        '{"jobs": {"a": "b"}}',
        '{"jobs": [{"instance": "a", "job": []}]}',
        '{"jobs": [{"instance": "a", "job": "b", "message": {"c": 1}}]}',
        '{"jobs": [{"instance": "a", "job": "b", "failures": "many"}]}',
        '{"jobs": [{"instance": "a", "job": "b", "failures": -1}]}',
        '{"jobs": [{"instance": "a", "job": "b", "failures": 1e400}]}',
        '{"jobs": [{"instance": "a", "job": "b", "failures": 1.5}]}',
        '{"jobs": [{"instance": "a", "job": "b", "failures": true}]}',
        '{"jobs": [{"instance": "a", "job": "b", "seconds": ""}]}',
        '{"jobs": [{"instance": "a", "job": "b", "seconds": NaN}]}',
        '{"jobs": [{"instance": "a", "job": "b", "seconds": [1]}]}',
        f'{{"jobs": [{{"instance": "a", "job": "b", "seconds": {"9" * 400}}}]}}',
        '{"jobs": [{"instance": "a", "job": "b", "last": "0001-01-01T00:00:00+14:00"}]}',
        '{"jobs": [{"instance": "a", "job": "b", "last": "9999-12-31T23:59:59+00:00"}]}',
        f'{{"jobs": {"[" * 100_000}{"]" * 100_000}}}',
        '{"jobs": [{"instance": "a", "job": "b", "failures": %s}]}' % ("9" * 5_000),
    ],
    ids=lambda text: text[:75],
)
def test_a_file_that_makes_no_sense_is_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "daemon.json").write_text(text)
    assert Journal(tmp_path).read() == ()


def test_one_job_that_makes_no_sense_costs_no_other_its_memory(tmp_path: Path) -> None:
    """As when a host without a clock of its own ran a job in 1970."""
    early = datetime(1970, 1, 1, 0, 5, tzinfo=UTC)
    old = JobState(instance="shop", job="watch", last=early)
    Journal(tmp_path).write((ROWS[0], old, replace(old, job="leases"), ROWS[1]))
    with capture_logs() as said:
        assert Journal(tmp_path).read() == ROWS
    (warning,) = said
    assert warning["event"] == "journal.unreadable" and warning["forgotten"] == 2
    assert warning["reason"].startswith("'shop/watch': 'last': Value error, 1970-01-01T00:05:00+00:00 is not")
    text = (tmp_path / "daemon.json").read_text()
    (tmp_path / "daemon.json").write_text(text.replace('"jobs": [', '"jobs": [5, ["a"], {"job": []},'))
    assert Journal(tmp_path).read() == ROWS


def test_what_earlier_versions_wrote_is_read(tmp_path: Path) -> None:
    when = '"2024-05-01T12:00:00.000005+00:00"'
    (tmp_path / "daemon.json").write_text(
        '{"version": 1, "jobs": [\n'
        f'{{"instance": "shop", "job": "snapshot", "last": {when}, "seconds": 1.5, "failures": 0, '
        f'"failed": null, "error": "", "message": "", "next": {when}, "why": "on schedule"}},\n'
        f'{{"instance": "shop", "job": "prune", "last": null, "seconds": null, "failures": 2, '
        f'"failed": {when}, "error": "PoolFull", "message": "no room", "next": null, "why": ""}}\n]}}\n'
    )
    assert Journal(tmp_path).read() == ROWS


def test_a_key_of_a_later_version_is_no_hindrance(tmp_path: Path) -> None:
    Journal(tmp_path).write(ROWS)
    file = tmp_path / "daemon.json"
    file.write_text(file.read_text().replace('"instance"', '"mood": "good", "instance"'))
    assert Journal(tmp_path).read() == ROWS


def test_where_nothing_can_be_written_it_says_so_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "daemon.json").mkdir()
    with pytest.raises(OSError, match=r"daemon\.json"):
        Journal(tmp_path).write(ROWS)
    assert [file.name for file in tmp_path.iterdir()] == ["daemon.json"]
