"""Every snapshot that has a watchdog waits until it has started."""

import subprocess
import sys
from pathlib import Path

import pytest

from zbackup.config.tls import Tls
from zbackup.engines.mongodb import options as mongodb
from zbackup.engines.mongodb.lock import watchdog_message as fsync_message
from zbackup.engines.mysql import options as mysql
from zbackup.engines.mysql.lock import watchdog_message as applier_message


@pytest.mark.parametrize("module", ["mysql.lock.applier_watchdog", "mongodb.lock.watchdog"])
def test_a_watchdog_imports_nothing_slow_but_its_client(module: str) -> None:
    slow = "structlog", "typer", "pydantic", "rich", "boto3"
    look = f"import sys, zbackup.engines.{module}; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_watchdog_that_cannot_log_in_says_why_and_ends() -> None:
    """On one line, before anything dangerous is done; its secrets come through a pipe."""
    away = mysql.ConnectOptions(socket="/nowhere/s", user="u", password=lambda: "hidden")
    applier = applier_message.WatchOrder(connect=away, channels=("",), note=Path("/nowhere/n"), limit_s=1)
    tls = Tls(ca=Path("/nowhere/ca"))
    astray = mongodb.ConnectOptions(user="u", password=lambda: "hidden", tls=tls)
    fsync = fsync_message.WatchOrder(connect=astray, note=Path("/nowhere/n"), wait_s=1, hold_s=1)
    for module, order in (
        ("mysql.lock.applier_watchdog", applier.to_line()),
        ("mongodb.lock.watchdog", fsync.to_line()),
    ):
        argv = [sys.executable, "-m", f"zbackup.engines.{module}"]
        done = subprocess.run(argv, input=order + "\n", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout.count("\n"), done.stderr) == (1, 1, "")
        assert "nowhere" in done.stdout and "hidden" not in done.stdout


def test_an_order_of_an_earlier_version_is_understood() -> None:
    """A daemon that runs on while another is installed: what is not configured was "" in it."""
    tls = Tls(ca=Path("/etc/ca"))
    away = mysql.ConnectOptions(host="db", user="u", password=lambda: "hidden", tls=tls)
    order = applier_message.WatchOrder(connect=away, channels=("",), note=Path("/nowhere/n"), limit_s=1)
    fsync = fsync_message.WatchOrder(
        connect=mongodb.ConnectOptions(host="db", tls=tls), note=Path("/nowhere/n"), wait_s=1, hold_s=1
    )
    for each in (order, fsync):
        earlier = each.to_line().replace('"cert": null, "key": null', '"cert": "", "key": ""')
        assert earlier != each.to_line()
        assert type(each).from_line(earlier).connect.tls == tls
