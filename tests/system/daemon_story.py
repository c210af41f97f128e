"""A daemon's life: on schedule under load, stopped and killed again and again; then any moment is asked for.

Told quickly in test_daemon and at length in tests/slow.
"""

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.lab.load import Load, verify
from tests.lab.load_journal import Summary
from tests.system.house import ZBACKUP, House, now, utc, wait_until
from tests.unit.docs.typed import typed

CADENCE_S = 5
ENDINGS = (signal.SIGTERM, signal.SIGKILL)


@dataclass(frozen=True, kw_only=True)
class Life:
    """The daemon's starts, the backups at the end, the load, and between which moments one can restore.

    `events` are those of all its logs, in order.
    """

    starts: int
    backups: list[dict[str, Any]]
    events: list[dict[str, Any]]
    load: Summary
    after: datetime
    end: datetime


@contextmanager
def logged_daemon(
    config: Path, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A daemon that appends its log to a file; killed at the end if it still runs."""
    with log.open("ab") as sink:
        begin = sink.tell()
        process = subprocess.Popen(
            (str(ZBACKUP), "--config", str(config), "daemon", "--log-format", "json"),
            stdin=subprocess.DEVNULL,
            stderr=sink,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
    try:
        # Told to stop before that, Python may not have got as far as to listen.
        wait_until("the daemon has started", lambda: b"daemon.started" in log.read_bytes()[begin:], 60)
        yield process
    finally:
        process.kill()
        process.wait()


def live(house: House, config: Path, journal: Path, *, seconds: float, restart_every: float) -> Life:
    """Let it live so long, its starts and ends not counted; fails when a daemon ends by itself, or takes too
    long to end when it is told to."""
    left, starts = seconds, 0
    with Load.start(house.server, 3, 25, journal) as load:
        while left > 0:
            with logged_daemon(config, house.home / "daemon.log") as process:
                starts += 1
                _let_run(process, min(restart_every, left))
                left -= restart_every
                # The very last one is told, so that all is in order afterwards.
                number = signal.SIGTERM if left <= 0 else ENDINGS[starts % 2]
                process.send_signal(number)
                status = process.wait(timeout=60)
                assert status == (0 if number == signal.SIGTERM else -number), _end_of(house)
        summary = load.stop()
    listed = house.zb("list", "--json", config=config).data[0]
    assert listed["unreadable"] == []
    return Life(
        starts=starts,
        backups=listed["backups"],
        events=[json.loads(line) for line in (house.home / "daemon.log").read_text().splitlines()],
        load=summary,
        after=utc(listed["window"]["after"]),
        end=now(),
    )


def _end_of(house: House) -> str:
    return "\n".join((house.home / "daemon.log").read_text().splitlines()[-10:])


def _let_run(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    try:
        status = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError(f"the daemon ended by itself with status {status}")


def restore_anywhere(
    house: House, config: Path, journal: Path, *, begin: datetime, end: datetime, times: int, seed: int
) -> None:
    """Restore that many random moments between the two, and compare each with the load's journal."""
    dice = random.Random(seed)
    span = (end - begin) - timedelta(seconds=2)
    for number in range(times):
        moment = (begin + timedelta(seconds=1) + span * dice.random()).replace(microsecond=0)
        name = f"anywhere-{number}"
        report = house.zb(*house.restoring(moment, name), config=config).data
        with house.clone(report) as clone:
            verdict = verify(clone, journal, moment)
        print(f"{moment.isoformat()}: {verdict.present} transactions there, {verdict.undecided} undecided")
        house.zb("clone", "destroy", name, "--yes", "--json", config=config).data  # noqa: B018


@contextmanager
def told_by_web() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A URL, and what is posted there."""
    heard: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", heard
        server.shutdown()


def pause_and_resume(house: House, config: Path, paused_metric: Callable[[], float | None]) -> None:
    """No snapshot is begun while an operator has paused it, and it goes on when he says so."""
    said = house.zb("pause", "--for", "1h", "--reason", "moving", "--json", config=config).data
    assert said["reason"] == "moving"

    def why() -> str:
        jobs = house.zb("status", "--json", config=config).data[0]["jobs"]
        return next(str(job["why"]) for job in jobs if job["job"] == "snapshot")

    wait_until("it waits", lambda: "paused until" in why(), 90)
    wait_until("it is a metric", lambda: paused_metric() == 1, 60)
    paused = house.zb("status", "--json", config=config).data[0]
    assert [f["subject"] for f in paused["findings"]] == ["paused"] and paused["health"] == "warning"
    assert house.zb("resume", "--json", config=config).data["was_paused"]
    wait_until("it is taken again", lambda: "paused" not in why(), 90)


def acknowledge(house: House, config: Path) -> None:
    """That snapshots fail is known: it calls nobody, and is shown."""
    words = typed("monitoring-and-alerts.md", "zbackup acknowledge", {"disk is ordered": "locked on purpose"})
    assert house.zb(*words, config=config).rc == 0
    known = house.zb("status", "--json", config=config).data[0]
    assert known["health"] == "ok" and known["acknowledged"]["problems"] == [["critical", "snapshot"]]
    assert "locked on purpose" in known["findings"][0]["text"]
    plugin = house.zb("status", "--plugin", config=config)
    assert plugin.rc == 0 and "acknowledged: snapshot" in plugin.out
