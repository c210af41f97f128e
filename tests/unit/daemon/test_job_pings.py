"""Notifications of jobs: URLs, programs, systemd. None of them can harm the daemon."""

import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from zbackup.cli.log_sink import Sink
from zbackup.config.schedule import Notify
from zbackup.daemon.job_pings import PING_LIMIT_S, PING_TRIES, HookNotifier, add_to_path, ping
from zbackup.daemon.sd_notify import Notifier
from zbackup.daemon.service import Waker
from zbackup.model.errors import CommandFailed, CommandTimedOut, NotInstalled
from zbackup.model.schedule import Outcome
from zbackup.proc.hook import run_hook

WELL = Outcome(instance="shop", job="snapshot", started=datetime(2024, 5, 1, tzinfo=UTC), seconds=1.5)
BAD = Outcome(
    instance="shop",
    job="snapshot",
    started=WELL.started,
    seconds=30,
    error="LockNotTaken",
    message="not granted",
    exit_status=8,
)


class Web:
    """A server that keeps what it was asked, and answers 500 to the first `bad` requests."""

    def __init__(self) -> None:
        web = self
        self.asked: list[tuple[str, str]] = []
        self.bad = 0
        self.moved = 0

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                web.asked.append((self.path, body))
                web.bad -= 1
                self.send_response(web.moved or (500 if web.bad >= 0 else 200))
                if web.moved:
                    self.send_header("Location", f"{web.url}/elsewhere")
                self.end_headers()

            def do_GET(self) -> None:
                web.asked.append((self.path, ""))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.server.shutdown()
    web.server.server_close()


def test_a_job_is_pinged_at_its_start_and_end(web: Web) -> None:
    notify = Notify(ping={"snapshot": f"{web.url}/uuid"})
    teller = HookNotifier()
    teller.begins("snapshot", notify)
    teller.ended(WELL, notify, 0)
    teller.begins("prune", notify)
    teller.ended(BAD, notify, 1)
    teller.close()
    assert web.asked == [("/uuid/start", ""), ("/uuid", ""), ("/uuid/fail", "not granted")]


def test_a_ping_is_tried_twice_and_then_given_up(web: Web) -> None:
    web.bad = 1
    assert ping(f"{web.url}/a", "")
    web.bad = 2
    assert not ping(f"{web.url}/b", "")
    assert [path for path, _ in web.asked] == ["/a", "/a", "/b", "/b"]


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        assert not ping(f"http://127.0.0.1:{free.getsockname()[1]}/", "")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://h/uuid", "https://h/uuid/fail"),
        ("https://h/uuid/", "https://h/uuid/fail"),
        ("https://h/p?rid=1", "https://h/p/fail?rid=1"),
    ],
)
def test_where_fail_goes(url: str, expected: str) -> None:
    assert add_to_path(url, "/fail") == expected
    assert add_to_path(url, "") == url


def script(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return (str(path), "an argument; not a command")


def test_hooks_get_the_facts(tmp_path: Path) -> None:
    good = script(tmp_path / "good", f'echo "$1 $ZBACKUP_JOB $ZBACKUP_RESULT" >> {tmp_path}/said')
    bad = script(
        tmp_path / "bad",
        f'echo "$ZBACKUP_INSTANCE $ZBACKUP_FAILURES $ZBACKUP_ERROR: $ZBACKUP_MESSAGE" >> {tmp_path}/said',
    )
    notify = Notify(on_success=good, on_failure=bad)
    teller = HookNotifier()
    teller.ended(WELL, notify, 0)
    teller.ended(BAD, notify, 3)
    teller.close()
    said = (tmp_path / "said").read_text().splitlines()
    assert said == ["an argument; not a command snapshot success", "shop 3 LockNotTaken: not granted"]


def test_no_message_keeps_the_next_from_being_told(web: Web, tmp_path: Path) -> None:
    """Programs may print anything before they fail."""
    argv = script(tmp_path / "hook", f'echo "$ZBACKUP_FAILURES" >> {tmp_path}/said')
    notify = Notify(on_failure=argv, ping={"snapshot": web.url})
    teller = HookNotifier()
    for number, message in enumerate(("a \0 byte", "no text: \udcff", "well")):
        teller.ended(replace(BAD, message=message), notify, number)
    teller.close()
    assert (tmp_path / "said").read_text().split() == ["1", "2"]
    assert [body for _, body in web.asked] == ["a \0 byte", "no text: ?", "well"]


def test_hooks_that_fail_or_hang(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="exited with 3: no such luck"):
        run_hook(script(tmp_path / "fails", "echo no such luck >&2; exit 3"), {}, 10)
    with pytest.raises(NotInstalled):
        run_hook((str(tmp_path / "none"),), {}, 10)
    child = tmp_path / "child"
    hangs = script(tmp_path / "hangs", f"sleep 60 & echo $! > {child}; wait")
    with pytest.raises(CommandTimedOut, match="no end within 1 s"):
        run_hook(hangs, {}, 1)
    number = int(child.read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return  # dead, and nobody there to take note
        time.sleep(0.05)
    assert not Path(f"/proc/{number}").exists()


def test_systemd_hears_it(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "3000000"})
        assert notifier.watchdog_s == 1.5
        notifier.ready()
        notifier.status("one\nline")
        notifier.reloading()
        assert [systemd.recv(999) for _ in range(2)] == [b"READY=1", b"STATUS=one line"]
        reloading, _, time_ = systemd.recv(999).partition(b"\nMONOTONIC_USEC=")
        assert reloading == b"RELOADING=1" and int(time_) > 0


def test_a_systemd_that_reads_nothing_holds_up_nobody(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
        told = threading.Thread(target=lambda: [notifier.alive() for _ in range(2000)], daemon=True)
        told.start()
        told.join(60)
        assert not told.is_alive()
        assert systemd.recv(999) == b"WATCHDOG=1"


def test_an_abstract_socket() -> None:
    name = f"zbackup-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name}")
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert systemd.recv(999) == b"STOPPING=1"


def test_without_systemd_nothing_happens(tmp_path: Path) -> None:
    Notifier({}).ready()
    gone = Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone"), "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"})
    gone.ready()
    assert gone.watchdog_s is None


def test_the_bell_rings_for_threads_and_signals() -> None:
    handler = signal.getsignal(signal.SIGUSR1)
    bell = Waker([signal.SIGUSR1])
    try:
        assert bell.wait(0) == set()
        threading.Timer(0.05, bell.ring).start()
        began = time.monotonic()
        assert bell.wait(30) == set() and time.monotonic() - began < 20
        os.kill(os.getpid(), signal.SIGUSR1)
        assert bell.wait(30) == {signal.SIGUSR1}
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGUSR1, handler)


def test_a_hook_gets_no_secret_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    monkeypatch.setenv("ZBACKUP_PASSWORD", "secret")
    monkeypatch.setenv("HOME", "/home/of the daemon")
    run_hook(script(tmp_path / "hook", f"env > {tmp_path}/said"), {"ZBACKUP_JOB": "prune"}, 10)
    said = dict(line.split("=", 1) for line in (tmp_path / "said").read_text().splitlines())
    assert said["HOME"] == "/home/of the daemon" and said["ZBACKUP_JOB"] == "prune" and said["PATH"]
    # A shell adds these by itself.
    assert set(said) - {"PWD", "SHLVL", "_", "OLDPWD"} <= {"PATH", "HOME", "LANG", "ZBACKUP_JOB"}


def test_a_url_that_does_not_answer_delays_no_other(web: Web) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = Notify(ping={"snapshot": f"http://127.0.0.1:{silent.getsockname()[1]}/"})
        teller = HookNotifier()
        teller.ended(WELL, slow, 0)
        connection, _ = silent.accept()  # it is being asked now, and does not answer
        with connection:
            teller.ended(WELL, Notify(ping={"snapshot": f"{web.url}/quick"}), 0)
            answered = threading.Event()
            threading.Thread(target=lambda: (_until(lambda: bool(web.asked)), answered.set())).start()
            assert answered.wait(PING_LIMIT_S * PING_TRIES - 1), "only when the other was given up"


def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        time.sleep(0.01)


def test_nobody_waits_for_a_reader_of_the_log_who_stalls() -> None:
    read, write = os.pipe()
    sink = Sink(write, most=100)
    for number in range(2000):
        sink.put(f"{number} " + "x" * 1000)
    sink.flush(0.1)
    said = b""
    while b"\n0 " not in b"\n" + said or said.count(b"\n") < 100:
        said += os.read(read, 65536)
    numbers = [int(line.split()[0]) for line in said.decode().splitlines()[:100]]
    assert numbers[:50] == list(range(50)), "what was written is in order"
    os.close(read)
    sink.put("nobody reads it any more")
    sink.flush(10)
    sink.put("and still nobody is harmed")
    os.close(write)
