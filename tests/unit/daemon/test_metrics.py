"""Metrics that are served, and that documentation, board and alert rules speak of these and nothing else."""

import json
import re
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.lab.mysql_fixture import free_port
from tests.unit.archived import STATE
from tests.unit.reports import a_backup, a_status
from zbackup.clock import Clock
from zbackup.daemon.metrics import Metrics
from zbackup.jobs.backup.snapshot import SnapshotReport
from zbackup.model.errors import Taken
from zbackup.model.schedule import Due, Outcome
from zbackup.model.server import LockChoice
from zbackup.plan.due import History

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference"
NOW = datetime(2024, 5, 1, 8, tzinfo=UTC)
SUFFIX = re.compile(r"_(bucket|count|sum)$")


def filled() -> Metrics:
    """After everything that can happen has happened once."""
    metrics = Metrics()
    metrics.snapshot(SnapshotReport(backup=a_backup(), lock=LockChoice("ftwrl", ""), warnings=()))
    metrics.watched(a_status())
    metrics.ended(Outcome(instance="shop", job="snapshot", started=NOW, seconds=2))
    metrics.ended(Outcome(instance="shop", job="prune", started=NOW, seconds=2, error="PoolFull"))
    metrics.ended(Outcome(instance="shop", job="drill:cloud", started=NOW, seconds=2, postponed=True))
    metrics.archived("shop", STATE)
    key = ("shop", "snapshot")
    metrics.planned({key: History(last=NOW)}, {key: Due(at=NOW, reason="")})  # type: ignore[dict-item]
    return metrics


def served(metrics: Metrics) -> list[str]:
    port = free_port()
    metrics.serve(("127.0.0.1", port))
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        text: str = answer.read().decode()
    return [line for line in text.splitlines() if line.startswith("zbackup_")]


def test_a_drill_that_could_not_be_tried_is_no_verdict() -> None:
    metrics = filled()
    before = [line for line in served(metrics) if "drill_last_result{" in line]
    ended = Outcome(instance="shop", job="drill", started=NOW, seconds=2, error="ConnectionFailed")
    metrics.ended(ended)
    assert before == [line for line in served(metrics) if "drill_last_result{" in line] != []


def names(lines: list[str]) -> set[str]:
    return {SUFFIX.sub("", re.split(r"[{ ]", line)[0]) for line in lines}


def test_what_is_served_is_documented_and_the_other_way_round() -> None:
    page = (REFERENCE / "metrics.md").read_text()
    table = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `zbackup_")]
    assert names(served(filled())) == {name for cell in table for name in re.findall(r"`(\w+)`", cell)}


@pytest.mark.parametrize("file", ["grafana-board.json", "alerts.yml"])
def test_board_and_alerts_use_what_there_is(file: str) -> None:
    text = (REFERENCE / "monitoring" / file).read_text()
    used = {SUFFIX.sub("", name) for name in re.findall(r"\bzbackup_\w+", text)}
    assert used and used <= names(served(filled()))


def test_the_board_is_one() -> None:
    board = json.loads((REFERENCE / "monitoring" / "grafana-board.json").read_text())
    ids = [panel["id"] for panel in board["panels"]]
    assert len(ids) == len(set(ids)) == 13


def test_values() -> None:
    lines = served(filled())
    assert 'zbackup_health{instance="shop"} 1.0' in lines
    assert f'zbackup_last_snapshot_timestamp_seconds{{instance="shop"}} {NOW.timestamp()!r}' in [
        line.replace("1.7145504e+09", "1714550400.0") for line in lines
    ]
    assert 'zbackup_job_runs_total{instance="shop",job="prune",result="failure"} 1.0' in lines
    assert 'zbackup_lock_held_seconds_count{instance="shop",lock="backup-lock"} 1.0' in lines


def test_a_destination_where_nothing_arrived_says_so() -> None:
    lines = served(filled())
    assert 'zbackup_shipped{destination="offsite",instance="shop"} 1.0' in lines
    assert 'zbackup_shipped{destination="cloud",instance="shop"} 0.0' in lines
    assert not [line for line in lines if line.startswith("zbackup_shipped_") and '"cloud"' in line]


def test_of_an_instance_that_is_gone_nothing_is_said() -> None:
    metrics = filled()
    metrics.forget("shop")
    metrics.forget("never known")
    metrics.planned({}, {})
    left = {line for line in served(metrics) if 'instance="shop"' in line}
    assert {SUFFIX.sub("", line.partition("{")[0]) for line in left} == {
        "zbackup_job_runs_total",
        "zbackup_job_duration_seconds",
        "zbackup_lock_held_seconds",
    }


def test_what_is_not_known_is_not_said() -> None:
    metrics = filled()
    metrics.watched(a_status(newest=None, window=None))
    said = names(served(metrics))
    assert "zbackup_last_snapshot_timestamp_seconds" not in said
    assert "zbackup_recovery_window_start_timestamp_seconds" not in said


def test_an_address_in_use() -> None:
    port = free_port()
    Metrics().serve(("127.0.0.1", port))
    with pytest.raises(Taken, match=f"cannot serve metrics at 127.0.0.1:{port}"):
        Metrics().serve(("127.0.0.1", port))


def test_exposure_grows_while_nothing_is_archived_and_is_forgotten_with_its_instance() -> None:
    metrics = Metrics()
    metrics.archived("shop", STATE)
    (line,) = [line for line in served(metrics) if "exposed" in line]
    assert 'instance="shop"' in line and 'destination="offsite"' in line
    assert float(line.rpartition(" ")[2]) > 1000
    metrics.forget("shop")
    assert not [line for line in served(metrics) if "exposed" in line]


def test_exposure_counts_from_the_start_where_nothing_was_archived_and_no_leap_hides_it() -> None:
    clock = SimpleNamespace(passed=1000.0, leapt=timedelta())
    clock.monotonic = lambda: clock.passed
    clock.now = lambda: NOW + timedelta(seconds=clock.passed) + clock.leapt
    metrics = Metrics(cast(Clock, clock))

    def exposed() -> float:
        labels = {"instance": "shop", "destination": "offsite"}
        found = metrics._registry.get_sample_value("zbackup_log_exposed_seconds", labels)
        assert found is not None
        return round(found, 3)

    clock.passed += 60
    metrics.archived("shop", replace(STATE, archived=None))
    clock.passed += 60
    metrics.archived("shop", replace(STATE, archived=None, error="no route"))
    assert exposed() == 120
    metrics.archived("shop", replace(STATE, archived=clock.now(), error=""))
    clock.passed += 5
    assert exposed() == 5
    clock.leapt = timedelta(days=1)
    metrics.archived("shop", replace(STATE, archived=clock.now(), error=""))
    ahead = clock.now()
    clock.leapt = timedelta()
    clock.passed += 300
    metrics.archived("shop", replace(STATE, archived=ahead, error="no route"))
    assert exposed() == 300
