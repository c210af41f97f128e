"""The daemon as a program: on schedule under load, reloaded, stopped and killed."""

import json
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.lab.load import Load
from tests.lab.mysql_fixture import free_port
from tests.system.daemon_story import acknowledge, live, pause_and_resume, restore_anywhere, told_by_web
from tests.system.house import ZBACKUP, House, after_writing, next_second, utc, wait_until
from tests.system.program import Run
from tests.system.terminal import watch
from tests.system.zfs_door import ZfsDoor
from tests.unit.docs.typed import typed
from zbackup.cli.status import CLEAR

VARIANTS = ("mariadb-11.8",)

EVERY = "5s"
OFTEN = "2s"
"""Of a daemon of whose snapshots some are waited for."""


@pytest.fixture(scope="module")
def load(house: House) -> Iterator[Path]:
    """The server is written to all the time; the journal of it."""
    journal = house.home / "journal"
    with Load.start(house.server, 2, 10, journal):
        yield journal


@contextmanager
def daemon(
    house: House, config: Path, environment: Mapping[str, str] | None = None, *words: str
) -> Iterator[Run]:
    """A daemon, killed at the end unless it has ended by then. Nobody reads its log meanwhile."""
    words = ("daemon", "--log-format", "json", *words)
    run = house.begin(*words, config=config, environment=environment, forked=True)
    try:
        yield run
    except AssertionError:
        if run.process.poll() is None:
            run.signal_group(signal.SIGKILL)
            print(run.end())  # why, perhaps
        raise
    finally:
        run.process.kill()
        run.process.wait()


MINUTE = {"keep": ["every 1 minute for 1 minute"], "minimum": 1, "window": "1 minute"}


def taken(house: House) -> int:
    """How many snapshots there are."""
    return len({name.partition("@")[2] for name in house.snapshots()})


def wait_for_snapshots(house: House, more: int) -> None:
    wanted = taken(house) + more
    wait_until(f"{more} more snapshots", lambda: taken(house) >= wanted, 180)


FAILURES = 'zbackup_job_consecutive_failures{instance="shop",job="snapshot"}'


def metric(port: int, name: str) -> float | None:
    """A metric's value (the first whose line begins so); None while there is none."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return None
    return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name)), None)


def events(said: str) -> list[str]:
    return [json.loads(line)["event"] for line in said.splitlines()]


def test_killed_again_and_again_it_loses_no_moment(house: House) -> None:
    """The long version is tests/slow/test_daemon_weeks.py."""
    journal = house.home / "first journal"
    config = house.configure(
        "daemon",
        schedule={"snapshot": EVERY, "prune": EVERY},
        retention=MINUTE,
    )
    life = live(house, config, journal, seconds=28, restart_every=7)
    assert life.starts >= 4
    assert sum(e["event"] == "snapshot.created" for e in life.events) >= 3
    assert [e for e in life.events if e["event"] in ("job.failed", "job.defect")] == []
    assert [b["name"] for b in life.backups if not (b["complete"] and b["finished"])] == []
    assert house.sessions() == []
    restore_anywhere(house, config, journal, begin=life.after, end=life.end, times=1, seed=1)


@contextmanager
def daemon_told(house: House, config: Path, url: str) -> Iterator[Run]:
    """A daemon that tells this URL of health."""
    config.write_text(f'{config.read_text()}\n[[notify.webhook]]\nurl = "{url}"\n')
    with daemon(house, config, None, "--debug") as run:  # more than a pipe holds
        yield run


def test_it_says_how_it_is(house: House) -> None:
    """By status, by metrics, by programs of the operator's; and when snapshots fail, that they do."""
    told = house.home / "told"
    hook = ["/bin/sh", "-c", f'echo "$ZBACKUP_JOB $ZBACKUP_RESULT $ZBACKUP_ERROR" >> {told}']
    port = free_port()
    config = house.configure(
        "daemon",
        schedule={"snapshot": EVERY, "retry": "1s"},
        retention=MINUTE,  # no more is promised than the prunes before left
        notify={"on_success": hook, "on_failure": hook},
        daemon={"metrics": f"127.0.0.1:{port}", "watch": "2s"},
    )
    with told_by_web() as (url, heard), daemon_told(house, config, url) as run:
        assert (
            house.zb(*typed("monitoring-and-alerts.md", "zbackup notify --test"), config=config).rc == 0
            and heard.pop()["instance"] == "test"
        )
        wait_for_snapshots(house, 1)
        wait_until("it was looked at", lambda: metric(port, "zbackup_health") is not None, 90)
        status = house.zb("status", "--json", config=config).data[0]
        assert (status["health"], status["daemon_runs"]) == ("ok", True), status
        assert {job["job"] for job in status["jobs"]} == {"reconcile", "snapshot", "watch", "leases"}
        assert metric(port, "zbackup_health") == 0
        newest = metric(port, "zbackup_last_snapshot_timestamp_seconds")
        assert newest is not None and abs(newest - time.time()) < 60
        pictures = (
            str(ZBACKUP),
            "--config",
            str(config),
            *typed("run-as-a-service.md", "zbackup status --watch"),
        )
        seen, rc = watch(pictures, lambda text: text.count(f"{CLEAR}Instance shop: ok") >= 2, 60)
        assert rc == 130 and "newest snapshot" in seen
        house.server.sql("ALTER USER zbackup@localhost ACCOUNT LOCK")
        try:
            wait_until("it fails", lambda: (metric(port, FAILURES) or 0) >= 3, 60)
            wait_until("it is critical", lambda: metric(port, "zbackup_health") == 2, 90)
            failing = house.zb("status", "--json", config=config).data[0]
            wait_until("it was told", lambda: [h["health"] for h in heard][-1:] == ["critical"], 60)
            acknowledge(house, config)
        finally:
            house.server.sql("ALTER USER zbackup@localhost ACCOUNT UNLOCK")
        assert failing["health"] == "critical"
        assert [f["subject"] for f in failing["findings"]] == ["snapshot"]
        wait_until("all is well again", lambda: metric(port, FAILURES) == 0, 60)
        wait_until("that was told", lambda: heard[-1]["occasion"] == "recovery", 60)
        pause_and_resume(house, config, lambda: metric(port, "zbackup_paused"))
        wait_for_snapshots(house, 1)
        run.process.send_signal(signal.SIGTERM)
        said = run.end().err
    assert {tuple(line.split()[:2]) for line in told.read_text().splitlines()} == {
        ("snapshot", "success"),
        ("snapshot", "failure"),
    }
    assert "health.changed" in events(said)
    stopped = house.zb("status", "--json", config=config).data[0]
    assert [f["subject"] for f in stopped["findings"]] == ["daemon"]


def test_the_doctor_sees_what_will_hurt(house: House) -> None:
    config = house.configure("daily", schedule={"snapshot": "1d"})
    house.server.sql("SET GLOBAL binlog_expire_logs_seconds = 3600")
    try:
        answer = house.zb("check", "--json", config=config)
    finally:
        house.server.sql("SET GLOBAL binlog_expire_logs_seconds = 0")
    assert answer.rc == 9, str(answer)
    found = {f["subject"]: f for f in json.loads(answer.out)["data"][0]["findings"]}
    assert found["log retention"]["fix"] == "SET GLOBAL binlog_expire_logs_seconds = 345600"
    assert found["recordsize"]["severity"] == "advice"
    assert house.zb("check", "--json", config=config).rc == 0


def _listen(systemd: socket.socket, heard: list[bytes]) -> None:
    """systemd reads whatever it is sent, line by line."""
    while said := systemd.recv(999):
        heard += said.split(b"\n")


@pytest.mark.usefixtures("load")
def test_it_takes_snapshots_and_tells_systemd(house: House) -> None:
    """READY at the start, a reload, a sign of life in time, STOPPING; and in the end nothing is held."""
    address = house.home / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(address))
        heard: list[bytes] = []
        (listener := threading.Thread(target=_listen, args=(systemd, heard), daemon=True)).start()
        config = house.configure("daemon", schedule={"snapshot": OFTEN})
        environment = {"NOTIFY_SOCKET": str(address), "WATCHDOG_USEC": "4000000"}
        with daemon(house, config, environment) as run:
            wait_for_snapshots(house, 2)
            assert heard[0] == b"READY=1" and heard.count(b"READY=1") == 1
            run.process.send_signal(signal.SIGHUP)
            wait_until("it is ready again", lambda: heard.count(b"READY=1") == 2, 90)
            assert b"WATCHDOG=1" in heard[: heard.index(b"RELOADING=1")]
            run.process.send_signal(signal.SIGTERM)
            ended = run.end()
            assert ended.rc == 0, str(ended)
        systemd.shutdown(socket.SHUT_RD)
        listener.join()
    assert b"STOPPING=1" in heard
    assert house.sessions() == []
    assert all(b["complete"] and b["finished"] for b in house.backups())
    assert {"daemon.started", "snapshot.created", "config.reloaded", "daemon.stopped"} <= set(
        events(ended.err)
    )


def test_a_configuration_that_is_wrong_changes_nothing(house: House) -> None:
    config = house.configure("daemon", schedule={"snapshot": OFTEN})
    good = config.read_text()
    with daemon(house, config) as run:
        wait_for_snapshots(house, 1)
        config.write_text(good.replace("snapshot", "snapshots"))
        run.process.send_signal(signal.SIGHUP)
        wait_for_snapshots(house, 2)
        config.write_text(good)
        run.process.send_signal(signal.SIGTERM)
        said = run.end().err
    line = next(json.loads(x) for x in said.splitlines() if "config.invalid" in x)
    assert 'unknown key; did you mean "snapshot"?' in line["problems"][0]


def test_there_is_one_daemon(house: House) -> None:
    config = house.configure("daemon", schedule={"snapshot": OFTEN})
    with daemon(house, config) as run:
        wait_for_snapshots(house, 1)
        said = house.zb("daemon", config=config).refused(10)
        assert f"zbackup daemon (pid {run.process.pid})" in said


def test_without_a_schedule_there_is_nothing_to_do(house: House) -> None:
    assert "no instance has a schedule" in house.zb("daemon").refused(2)


def test_told_to_stop_it_finishes_what_it_does(house: House, door: ZfsDoor, load: Path) -> None:
    config = house.configure("daemon", schedule={"snapshot": OFTEN})
    door.slow("snapshot", 4)
    with daemon(house, config, door.environment) as run:
        wait_until("a snapshot is being taken", lambda: door.waiting, 90)
        before = taken(house)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end(60)
    assert ended.rc == 0, str(ended)
    assert taken(house) == before + 1
    assert all(b["finished"] for b in house.backups())
    after_writing(load, 8)


def test_told_to_stop_it_waits_no_longer_than_it_may_and_the_next_start_heals(
    house: House, door: ZfsDoor, load: Path
) -> None:
    schedule = {"snapshot": OFTEN}
    config = house.configure("daemon", schedule=schedule, daemon={"stop_limit": "1s"})
    door.slow("snapshot", 6)
    with daemon(house, config, door.environment) as run:
        wait_until("a snapshot is being taken", lambda: door.waiting, 90)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end(60)
    assert ended.rc == 1 and "daemon.gave_up" in events(ended.err), str(ended)
    after_writing(load, 8)
    config = house.configure("daemon", schedule=schedule)
    with daemon(house, config) as run:
        wait_for_snapshots(house, 4)  # also the one that was under way, which ends by itself
        wait_until("the next has finished that one", lambda: all(b["finished"] for b in house.backups()), 60)
        run.process.send_signal(signal.SIGTERM)
        assert run.end().rc == 0
    assert house.sessions() == []
    assert [b["name"] for b in house.backups() if not (b["complete"] and b["finished"])] == []
    after_writing(load, 8)


def test_it_finishes_the_log_snapshot_of_a_killed_restore(house: House, door: ZfsDoor) -> None:
    house.snapshot()
    door.kill(after=1)
    killed = house.zb("restore", "--to", "now", "--name", "half", environment=door.environment)
    assert killed.rc == -signal.SIGKILL and door.calls == ["snapshot"], str(killed)
    (left,) = [b["name"] for b in house.backups() if not b["finished"]]
    with daemon(house, house.configure("daemon", schedule={"snapshot": OFTEN})) as again:
        wait_until("it is finished", lambda: all(b["finished"] for b in house.backups()), 60)
        again.process.send_signal(signal.SIGTERM)
        said = again.end().err
    assert f"finished {left}" in said


def test_it_removes_what_a_killed_restore_left(house: House, door: ZfsDoor) -> None:
    house.snapshot()
    door.slow("clone", 60)
    words = ("restore", "--to", "now", "--name", "half")
    run = house.begin(*words, environment=door.environment, forked=True)
    wait_until("a clone is being made", lambda: door.waiting or run.process.poll() is not None, 60)
    run.signal_group(signal.SIGKILL)
    run.process.wait()
    assert f"{house.clones}/half" in house.names()
    config = house.configure("daemon", schedule={"snapshot": OFTEN})
    with daemon(house, config) as again:
        wait_until("it is removed", lambda: f"{house.clones}/half" not in house.names(), 60)
        again.process.send_signal(signal.SIGTERM)
        assert "leftover.healed" in events(again.end().err)


def test_past_its_limit_it_leaves_and_nothing_is_locked(house: House, door: ZfsDoor, load: Path) -> None:
    """The lock on the server goes with the sessions; the next start puts right what is unfinished."""
    lock = {"kind": "ftwrl", "hold": "60s"}
    config = house.configure("daemon", schedule={"snapshot": OFTEN}, lock=lock, daemon={"stop_limit": "1s"})
    door.slow("snapshot", 8)
    with daemon(house, config, door.environment) as run:
        wait_until("a snapshot is being taken", lambda: door.waiting, 90)
        run.process.send_signal(signal.SIGTERM)
        ended = run.end(5)
    assert ended.rc == 1 and events(ended.err)[-1] == "daemon.gave_up"
    after_writing(load, 8, within=5)
    wait_until("the late snapshot is there", lambda: not all(b["finished"] for b in house.backups()), 90)
    plain = house.configure("daemon", schedule={"snapshot": OFTEN})
    with daemon(house, plain):
        wait_until("it is finished", lambda: all(b["finished"] for b in house.backups()), 90)


DRILL = {"drill": "1s", "retry": "1s", "retry_max": "1s"}


def drills(house: House, config: Path) -> dict[str, Any]:
    """What status says of the drills of this host's backups."""
    (only,) = house.zb("status", "--json", config=config).data[0]["drills"]
    return dict(only)


def test_it_drills_and_says_what_was_proven(house: House) -> None:
    """From a backup to a moment before the next; one that is cut off proves nothing, and leaves nothing."""
    for number in range(2):
        house.snapshot()
        house.server.sql(f"CREATE TABLE shop.drilled_{number} (n INT) ENGINE = InnoDB")
        next_second()
    first, second = house.snapshot(), house.snapshot()
    assert first["as_of"] <= second["as_of"]
    port, told = free_port(), house.home / "drills"
    hook = ["/bin/sh", "-c", f'echo "$ZBACKUP_JOB $ZBACKUP_RESULT" >> {told}']
    config = house.configure(
        "drills",
        schedule=DRILL,
        notify={"on_success": hook, "on_failure": hook},
        daemon={"metrics": f"127.0.0.1:{port}", "watch": "2s"},
    )
    begun = time.time()
    with daemon(house, config) as run:
        passed = 'zbackup_drill_last_success_timestamp_seconds{destination="",instance="shop"}'
        wait_until("a drill passed", lambda: (metric(port, passed) or 0) > begun, 150)
        wait_until("the next is being made", lambda: f"{house.clones}/shop-drill/0" in house.names(), 90)
        run.process.send_signal(signal.SIGTERM)
        said = run.end(60)
        assert said.rc == 0 and "job.postponed" in events(said.err), str(said)
    assert f"{house.clones}/shop-drill" not in house.names()
    found = drills(house, config)
    assert found["last"] == found["passed"], "what was cut off is no verdict"
    verdict = found["last"]
    shown = {b["name"]: b for b in house.backups()}
    base = shown[verdict["name"]]
    assert base["drill"] == verdict or base["drill"]["passed"], "it is written on the backup, too"
    assert utc(base["as_of"]) <= utc(verdict["to"]) <= utc(second["complete_to"])
    assert verdict["transactions"] > 0, "it was brought on from the backup"
    assert verdict["tables"] > 2 and "FAILED" not in house.zb("list", config=config).out
    assert set(told.read_text().splitlines()) == {"drill success"}


def test_a_drill_that_fails_is_critical_and_a_killed_one_is_removed(house: House) -> None:
    config = house.configure("drills", schedule=DRILL)
    before = drills(house, config)["passed"]
    with daemon(house, config) as run:
        wait_until("one is being made", lambda: f"{house.clones}/shop-drill/0" in house.names(), 90)
        run.signal_group(signal.SIGKILL)
    broken = house.configure("broken", schedule=DRILL, recovery={"server": "/bin/false"})
    with daemon(house, broken) as run:
        wait_until("it is removed", lambda: f"{house.clones}/shop-drill" not in house.names(), 60)
        wait_until("a drill failed", lambda: not drills(house, broken)["last"]["passed"], 90)
        seen = house.zb("status", "--json", config=broken).data[0]
        run.process.send_signal(signal.SIGTERM)
        run.end(60)
    assert seen["health"] == "critical" and "drill" in [f["subject"] for f in seen["findings"]]
    assert seen["drills"][0]["passed"] == before and seen["drills"][0]["last"]["why"]
    assert "drill FAILED" in house.zb("list", config=broken).out
    plugin = house.zb("status", "--plugin", config=broken)
    assert plugin.rc == 2 and "the last drill of this host's backups failed" in plugin.out
    assert house.zb("verify", "--drill", config=config).rc == 0
    assert drills(house, config)["last"]["passed"], "and whoever makes one that passes, it is well again"
