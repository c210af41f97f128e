"""A server that stands still, and when it counts as such."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zbackup.engines import stall
from zbackup.engines.stall import BUSY_BYTES_S, BUSY_CPU, Effort, Standstill, effort_of, ended_when_still
from zbackup.proc.detached import Process

LIMIT = 100.0


class Server:
    """What a watch sees of a server, second by second."""

    def __init__(self, limit: float = LIMIT) -> None:
        self.now, self.cpu, self.bytes, self.seen = 1000.0, 5.0, 1 << 30, True
        self.watch = Standstill((Process(1, 1),), limit, measure=self.measure, clock=lambda: self.now)

    def measure(self, _: Process) -> Effort | None:
        return Effort(self.cpu, self.bytes) if self.seen else None

    def after(
        self, seconds: int, *, cpu: float = 0.0, moved: float = 0.0, place: object = None
    ) -> int | None:
        """The second in which it counts as standing still; `cpu` and `moved` are what it does in each."""
        for second in range(seconds):
            self.watch.at(place)
            if self.watch.lasts():
                return second
            self.now, self.cpu, self.bytes = self.now + 1, self.cpu + cpu, self.bytes + int(moved)
        return None


def test_one_that_does_nothing_stands_still_when_the_time_is_over() -> None:
    assert Server().after(300) == LIMIT


def test_housekeeping_is_no_work() -> None:
    assert Server().after(300, cpu=BUSY_CPU / 2, moved=BUSY_BYTES_S / 2) == LIMIT


@pytest.mark.parametrize("work", [{"cpu": 0.5}, {"cpu": BUSY_CPU * 1.5}, {"moved": BUSY_BYTES_S * 1.5}])
def test_one_that_computes_or_moves_data_works(work: dict[str, float]) -> None:
    """Slowly as it may be."""
    assert Server().after(2000, **work) is None


def test_one_that_gets_on_in_the_log_works() -> None:
    server = Server()
    assert all(server.after(int(LIMIT) - 1, place=place) is None for place in range(20))
    assert server.after(300, place=19) is not None


def test_a_pause_that_ends_in_time_is_forgotten() -> None:
    server = Server()
    for _ in range(5):
        assert server.after(int(LIMIT) // 2) is None
        assert server.after(10, cpu=1.0) is None
    assert server.after(300) is not None


def test_without_a_limit_or_a_look_nobody_is_ended() -> None:
    assert Server(limit=0).after(1000) is None
    server = Server()
    server.seen = False
    assert server.after(1000) is None


@pytest.fixture
def working() -> Iterator[Process]:
    started = subprocess.Popen(
        [sys.executable, "-c", "while True: open('/dev/null', 'wb').write(b'x' * 9999)"]
    )
    process = Process.of(started.pid)
    assert process is not None
    yield process
    started.kill()
    started.wait()


@pytest.mark.skipif(not Path(f"/proc/{os.getpid()}/io").exists(), reason="this kernel counts no bytes")
def test_what_a_process_has_done_grows(working: Process) -> None:
    first = effort_of(working)
    assert first is not None
    while True:
        later = effort_of(working)
        assert later is not None
        if later.cpu > first.cpu and later.bytes > first.bytes:
            break
    assert effort_of(Process(2**22 + 1, 1)) is None


def test_a_server_that_stands_still_is_ended_and_one_that_works_is_not(
    working: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stall, "POLL_S", 0.05)
    sleeping = subprocess.Popen(["sleep", "60"])
    process = Process.of(sleeping.pid)
    assert process is not None
    with ended_when_still(5.0, working, process) as at_work, ended_when_still(0.5, process) as still:
        sleeping.wait(20)
    assert still.ended and "set recovery.stall" in still.told
    assert not at_work.ended and working.alive


def test_as_long_as_one_of_two_works_none_stands_still() -> None:
    """One gives out a log that the other waits for."""
    now, cpu = 0.0, {1: 0.0, 2: 0.0}
    processes = Process(1, 1), Process(2, 1)
    watch = Standstill(processes, LIMIT, measure=lambda p: Effort(cpu[p.pid], 0), clock=lambda: now)
    for _ in range(1000):
        now, cpu[2] = now + 1, cpu[2] + 0.5
        assert not watch.lasts()
    for _ in range(int(LIMIT) + 1):
        now += 1
        stands = watch.lasts()
    assert stands


def test_a_kernel_that_counts_no_bytes_still_counts_cpu(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text(f"7 (my) sqld) S {' '.join(str(n) for n in range(4, 60))}")
    assert effort_of(Process(7, 1), tmp_path) == Effort((14 + 15) / 100, 0)
    (tmp_path / "7" / "io").write_text("rchar: 5\nwchar: 6\nsyscr: 1\n")
    assert effort_of(Process(7, 1), tmp_path) == Effort((14 + 15) / 100, 11)
    (tmp_path / "7" / "io").write_text("rchar: 5\nwchar: 6\nread_bytes: 700\nwrite_bytes: 8000\n")
    assert effort_of(Process(7, 1), tmp_path) == Effort((14 + 15) / 100, 8711), "of asynchronous I/O"
    (tmp_path / "7" / "io").write_text("nonsense")
    assert effort_of(Process(7, 1), tmp_path) is None
