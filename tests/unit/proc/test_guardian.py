"""A guardian outlives its maker, and does what it is for unless it is sent home."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zbackup.model.errors import CommandFailed
from zbackup.proc import guardian
from zbackup.proc.guardian import start_guardian
from zbackup.proc.start import OWN

GUARD = "tests.unit.proc.guard"

MAKER = """
import signal, sys
from zbackup.proc.guardian import start_guardian

guarding = start_guardian("tests.unit.proc.guard", sys.argv[1])
guarding.ready()
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def deed(tmp_path: Path) -> Path:
    """What a guardian leaves that has acted."""
    return tmp_path / "deed"


def appears(deed: Path, within: float = 20) -> bool:
    deadline = time.monotonic() + within
    while not deed.exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_sent_home_it_does_nothing(deed: Path) -> None:
    guarding = start_guardian(GUARD, f"ready 60 {deed}")
    guarding.ready()
    guarding.done()
    assert not deed.exists(), "done() waits for its end"


def test_told_to_act_it_acts(deed: Path) -> None:
    guarding = start_guardian(GUARD, f"ready 60 {deed}")
    guarding.ready()
    guarding.act()
    assert appears(deed)


def test_it_is_zbackups_own_whatever_lies_where_its_maker_stands(deed: Path, tmp_path: Path) -> None:
    """Root may stand in a directory of the database's user's, who can put packages there."""
    hostile, trace = tmp_path / "zbackup", tmp_path / "imported"
    hostile.mkdir()
    (hostile / "__init__.py").write_text(f"open({str(trace)!r}, 'w').close()\n")
    for name in ("json", "select"):
        (tmp_path / f"{name}.py").write_text((hostile / "__init__.py").read_text())
    maker = subprocess.run(
        [sys.executable, "-I", "-c", MAKER.replace("signal.pause()", ""), f"ready 60 {deed}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert maker.stdout == "ready\n", maker.stderr
    assert appears(deed)
    assert not trace.exists()


def test_it_inherits_no_secret(deed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("SHOP_PASSWORD", "secret")
    guarding = start_guardian(GUARD, f"ready 60 {deed}")
    guarding.ready()
    guarding.act()
    assert appears(deed)
    # The last one zbackup sets itself, in every process of its own.
    assert set(deed.read_text().splitlines()) <= {*OWN, "LC_ALL", "LC_CTYPE", "PYDANTIC_DISABLE_PLUGINS"}


def test_a_maker_that_is_silent_for_too_long_counts_as_dead(deed: Path) -> None:
    guarding = start_guardian(GUARD, f"ready 0.1 {deed}")
    guarding.ready()
    assert appears(deed)
    guarding.done()


@pytest.mark.parametrize(
    ("number", "group"), [(signal.SIGKILL, False), (signal.SIGKILL, True), (signal.SIGINT, True)]
)
def test_a_maker_that_dies_is_avenged(deed: Path, number: signal.Signals, group: bool) -> None:
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKER, f"ready 60 {deed}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert maker.stdout is not None and maker.stdout.readline() == "ready\n"
    assert not deed.exists()
    (os.killpg if group else os.kill)(maker.pid, number)
    maker.wait()
    maker.stdout.close()
    assert appears(deed)


def test_what_keeps_it_from_being_ready_is_said(deed: Path) -> None:
    guarding = start_guardian(GUARD, f"no-login 60 {deed}")
    with pytest.raises(CommandFailed, match="no-login"):
        guarding.ready()
    assert not deed.exists(), "it was ended before anything depended on it"


def test_one_that_cannot_even_begin_is_noticed(deed: Path) -> None:
    with pytest.raises(CommandFailed, match="not ready"):
        start_guardian("no_such_module_at_all", "x").ready()


def test_one_that_never_answers_is_given_up(deed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guardian, "READY_LIMIT_S", 0.3)
    with pytest.raises(CommandFailed, match=r"not ready within 0\.3 s"):
        start_guardian(GUARD, f"mute 60 {deed}").ready()


def test_without_an_interpreter_it_is_a_failed_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(CommandFailed, match="cannot run /nowhere/python"):
        start_guardian(GUARD, "x")
