"""The `lab` command seen from the machine that runs it: exit statuses, streams, time limits, power cuts.

About a minute, and it needs a working backend: `.venv/bin/pytest tests/lab/selftest_lab.py`.
"""

import hashlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import backend, places, runs
from tests.unit.docs.typed import shell

LAB = Path(__file__).with_name("lab")
is_guest = backend.choose().kind == "guest"
only_guest = pytest.mark.skipif(not is_guest, reason="about guests")


def lab(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(LAB), *words], capture_output=True, text=True, check=False, timeout=120)


def sh(script: str, *options: str) -> subprocess.CompletedProcess[str]:
    return lab("run", *options, "--", "sh", "-c", script)


@pytest.fixture(autouse=True)
def nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # A directory for runs of our own: other people's guests come and go. Short, for a socket lies in it.
    with tempfile.TemporaryDirectory(prefix="zl-") as own:
        monkeypatch.setenv("TMPDIR", own)
        yield
        runs.sweep()
        assert list(places.runs().iterdir()) == []


@pytest.fixture
def running() -> Iterator[subprocess.Popen[str]]:
    """A command that says `up`, and then waits until somebody ends it; tells of an interrupt."""
    script = "trap 'echo interrupted; exit 9' INT; echo up; while :; do sleep 0.1; done"
    process = subprocess.Popen(
        [str(LAB), "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    yield process
    process.kill()
    process.communicate()


def test_what_its_page_says() -> None:
    for line, told in (
        (shell("use-the-lab.md", "tests/lab/lab up"), ""),
        (shell("use-the-lab.md", "tests/lab/lab run -- zfs version"), "zfs-kmod-2"),
        (shell("use-the-lab.md", "tests/lab/lab run --disk 4G"), "AVAIL"),
    ):
        done = subprocess.run(
            ["sh", "-c", line], capture_output=True, text=True, check=False, cwd=places.REPOSITORY
        )
        assert done.returncode == 0 and told in done.stdout, done


@pytest.mark.parametrize("status", [7, 255])
def test_exit_status_passes_through(status: int) -> None:
    assert sh(f"exit {status}").returncode == status


def test_death_by_a_signal_shows_as_128_and_its_number() -> None:
    assert sh("kill -SEGV $$").returncode == 128 + signal.SIGSEGV


def test_an_unknown_command_is_127_and_said() -> None:
    done = lab("run", "--", "no-such-command")
    assert done.returncode == 127
    assert "no-such-command" in done.stderr


def test_every_byte_passes() -> None:
    script = "head -c 5000000 /dev/urandom | tee /tmp/b | sha256sum | cut -c-64 >&2; cat /tmp/b"
    done = subprocess.run([str(LAB), "run", "--", "sh", "-c", script], capture_output=True, check=True)
    assert hashlib.sha256(done.stdout).hexdigest() == done.stderr.decode().strip()


def test_directory_environment_clock_and_streams_pass(tmp_path: Path) -> None:
    """The streams stay apart, and are no terminals."""
    before = time.time()
    script = 'pwd; echo "$PROBE"; date +%s.%N; echo err >&2; test -t 1 && echo terminal; true'
    done = subprocess.run(
        [str(LAB), "run", "--", "sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PROBE": "a  b'\n"},
        capture_output=True,
        text=True,
        check=True,
    )
    said, _, clock = done.stdout.removesuffix("\n").rpartition("\n")
    assert (said, done.stderr) == (f"{tmp_path}\na  b'\n", "err\n")
    assert before <= float(clock) <= time.time()


@only_guest
def test_the_packages_own_tools_are_there_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "zfs version; zpool version; wc -c < /usr/sbin/zfs"
    linked = sh(script).stdout.splitlines()
    monkeypatch.setenv("LAB_ZFS", "packaged")
    packaged = sh(script).stdout.splitlines()
    assert linked[:4] == packaged[:4]
    assert linked[4] != packaged[4]


def test_an_interrupt_reaches_the_command(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=20)
    assert (running.returncode, out) == (9, "interrupted\n")


def test_a_terminating_signal_reaches_the_command(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=20)
    assert running.returncode == 128 + signal.SIGTERM


def test_a_command_that_ignores_signals_is_killed_after_a_grace() -> None:
    script = "trap '' INT TERM; echo up; sleep 100; sleep 100"
    with subprocess.Popen(
        [str(LAB), "run", "--", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.terminate()
        assert process.wait(30) == 128 + signal.SIGTERM


def test_a_time_limit_ends_it_with_124_and_says_so() -> None:
    began = time.monotonic()
    done = sh("echo begun; sleep 100", "--timeout", "3s")
    assert time.monotonic() - began < 8
    assert (done.returncode, done.stdout) == (124, "begun\n")
    assert "no end within 3 s" in done.stderr


@only_guest
def test_a_hung_guest_leaves_its_kernel_log_with_what_it_waited_for() -> None:
    done = sh("sleep 100", "--timeout", "3")
    log = Path(done.stderr.strip().rpartition("kernel log: ")[2])
    assert "Linux version" in log.read_text()
    log.unlink()


@only_guest
def test_a_crashed_guest_is_125_and_shows_the_end_of_its_log() -> None:
    done = sh("echo c > /proc/sysrq-trigger; sleep 5")
    assert done.returncode == 125
    assert "without an exit status" in done.stderr
    log = Path(done.stderr.partition("kernel log: ")[2].partition(", it ends")[0])
    assert "panic" in log.read_text()
    log.unlink()


@only_guest
def test_the_machine_is_untouched_except_in_a_shared_directory(tmp_path: Path) -> None:
    probe = f"zbackup-lab-probe-{os.getpid()}"
    share, other = tmp_path / "share", tmp_path / "other"
    share.mkdir()
    other.mkdir()
    places_to_write = f"/{probe} /etc/{probe} {other}/{probe} {places.REPOSITORY}/{probe} {share}/{probe}"
    script = f"mkdir -p {other}; for f in {places_to_write}; do echo x > $f || exit 1; done"
    assert sh(script, "--share", str(share)).returncode == 0
    assert (share / probe).read_text() == "x\n"
    for directory in (Path("/"), Path("/etc"), other, places.REPOSITORY):
        assert not (directory / probe).exists()


@only_guest
def test_a_disk_survives_a_power_cut(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    script = (
        "zpool create -o cachefile=none cut /dev/ubda && echo kept > /cut/file && zpool sync cut && echo up;"
        " while :; do head -c 1M /dev/urandom > /cut/noise; done"
    )
    process = subprocess.Popen(
        [str(LAB), "run", "--disk", f"{disk}:1G", "--", "sh", "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(1)
    process.kill()
    process.wait()
    script = (
        "zpool import -d /dev/ubda -o cachefile=none cut && cat /cut/file && zpool scrub -w cut"
        " && zpool get -Ho value health cut"
    )
    assert sh(script, "--disk", str(disk)).stdout == "kept\nONLINE\n"


@only_guest
def test_killing_the_command_leaves_no_guest(running: subprocess.Popen[str]) -> None:
    running.kill()
    running.wait()
    time.sleep(0.5)
    records = [json.loads(path.read_text()) for path in places.runs().glob("*/owner.json")]
    assert len(records) == 1
    assert not runs.is_alive(records[0]["guest"])


def test_a_missing_disk_or_directory_is_one_clear_line() -> None:
    for words in (("--disk", "/no/such/disk"), ("--share", "/no/such/dir"), ("--disk", "many")):
        done = lab("run", *words, "--", "true")
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


class TestSharded:
    """`lab test` over modules made up here."""

    def modules(self, where: Path, **bodies: str) -> None:
        for name, body in bodies.items():
            (where / f"test_{name}.py").write_text(body)

    def run(self, where: Path, *options: str) -> subprocess.CompletedProcess[str]:
        return lab("test", "--results", str(where / "results"), *options, str(where))

    def test_all_good(self, tmp_path: Path) -> None:
        good = "import pytest\ndef test_a(): pass\n@pytest.mark.skip\ndef test_b(): pass\n"
        self.modules(tmp_path, one=good, two=good)
        done = self.run(tmp_path)
        assert done.returncode == 0
        assert done.stdout.splitlines()[-1] == "2 passed, 0 failed, 2 skipped"

    def test_a_failure_a_hang_and_a_crash_are_failures(self, tmp_path: Path) -> None:
        self.modules(
            tmp_path,
            good="def test_a(): pass\n",
            bad="def test_a(): assert 1 == 2\ndef test_b(): pass\n",
            hung="import time\ndef test_a(): time.sleep(600)\n",
            gone="import os, signal\ndef test_a(): os.kill(os.getpid(), signal.SIGKILL)\n",
            empty="x = 1\n",
        )
        done = self.run(tmp_path, "--timeout", "20s")
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1] == "2 passed, 4 failed, 0 skipped"
        assert "assert 1 == 2" in done.stdout
        assert "no end within 20 s" in done.stdout
        assert "no test was collected" in done.stdout

    def test_nothing_to_test_is_a_failure(self, tmp_path: Path) -> None:
        self.modules(tmp_path, one="def test_a(): pass\n")
        done = self.run(tmp_path, "-k", "nothing_of_that_name")
        assert done.returncode != 0
        assert done.stdout.splitlines()[-1] == "0 passed, 0 failed, 0 skipped"
