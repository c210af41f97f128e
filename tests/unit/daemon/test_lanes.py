"""Shipping, which may take hours, takes neither the turns of an instance's other jobs nor their threads."""

import errno
import os
import queue
import threading
import time
from pathlib import Path

import pytest

from zbackup.clock import SystemClock
from zbackup.daemon.apscheduler_adapter import Scheduler
from zbackup.daemon.job_table import Ended, JobTable, Key, Task, lane
from zbackup.model.schedule import Interval, Job, Outcome, Retry


def test_snapshots_go_on_while_a_stream_is_under_way() -> None:
    arrived, clock = threading.Event(), SystemClock()
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()

    def run(key: Key) -> Ended:
        if key[1] == "ship":
            arrived.wait(60)
        return Ended(Outcome(instance=key[0], job=key[1], started=clock.now(), seconds=0))

    scheduler = Scheduler(1, ended.put, long_workers=1)
    job_table = JobTable(clock, scheduler, run)
    jobs: tuple[Job, ...] = ("ship", "snapshot")
    retry = Retry(first=1, most=1)
    job_table.set_tasks([Task(key=("shop", job), timing=Interval(1), retry=retry) for job in jobs], {})
    done: list[Job] = []
    until = time.monotonic() + 60
    while done.count("snapshot") < 2 and time.monotonic() < until:
        job_table.step()
        while not ended.empty():
            outcome = ended.get().outcome
            done.append(outcome.job)
            job_table.ended(outcome)
        time.sleep(0.02)
    assert done == ["snapshot", "snapshot"]
    assert job_table.running() == [("shop", "ship")], "and it is begun once"
    arrived.set()
    assert ended.get(timeout=60).outcome.job == "ship"
    scheduler.stop(wait=True)


def test_each_instance_has_a_lane_for_streams() -> None:
    assert lane(("shop", "snapshot")) == lane(("shop", "prune")) == "shop"
    assert len({lane(("shop", "ship")), lane(("wiki", "ship")), lane(("shop", "prune"))}) == 3


def test_nothing_else_is_done_at_a_destination_while_it_is_shipped_to() -> None:
    assert {lane(("shop", job)) for job in ("ship", "prune:vault", "verify:cloud")} == {"shop:ship"}


def test_drills_of_all_instances_are_made_one_after_the_other_and_keep_nothing_else_waiting() -> None:
    drills = {lane((i, job)) for i in ("shop", "wiki") for job in ("drill", "drill:vault", "drill:cloud")}
    assert len(drills) == 1
    assert not drills & {lane(("shop", job)) for job in ("snapshot", "ship", "prune:vault", "reconcile")}


def test_a_drill_steps_back_behind_all_else() -> None:
    nice = niceness()
    assert nice["drill"] == nice["snapshot"] + 10 or nice["drill"] == 10


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS])
def test_a_drill_is_made_where_a_unit_or_a_container_forbids_to_step_back(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def forbidden(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "setpriority", forbidden)
    nice = niceness()
    assert nice["drill"] == nice["snapshot"]


def test_the_unit_of_the_daemon_does_not_forbid_it() -> None:
    unit = (Path(__file__).resolve().parents[3] / "systemd" / "zbackup.service").read_text()
    allowed = [line.partition("=")[2].split() for line in unit.splitlines() if "SystemCallFilter=" in line]
    assert "setpriority" in allowed[-1]


def niceness() -> dict[str, int]:
    """That of the threads in which a snapshot and a drill are made."""
    ended: queue.SimpleQueue[Ended] = queue.SimpleQueue()
    clock = SystemClock()
    nice: dict[str, int] = {}

    def run(key: Key) -> Ended:
        nice[key[1]] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        return Ended(Outcome(instance=key[0], job=key[1], started=clock.now(), seconds=0))

    scheduler = Scheduler(1, ended.put)
    job_table = JobTable(clock, scheduler, run)
    retry = Retry(first=1, most=1)
    jobs = ("snapshot", "drill")
    job_table.set_tasks([Task(key=("shop", job), timing=Interval(3600), retry=retry) for job in jobs], {})
    job_table.step()
    assert {ended.get(timeout=60).outcome.job for _ in jobs} == set(jobs)
    scheduler.stop(wait=True)
    return nice
