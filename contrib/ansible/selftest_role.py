"""The Ansible role: its syntax, and what it makes of a machine with ZFS. Needs ansible-core and the lab."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(30 * 60)
"""The lab's own limit is less."""

HERE = Path(__file__).resolve().parent
PROJECT = HERE.parents[1]
BIN = Path(sys.executable).parent
PROVEN = (
    "applied",
    "secrets",
    "the configuration is read",
    "delegated",
    "the key is append-only",
    "quota",
    "run again, it changes nothing",
    "the key's user may receive",
    "a key that may only read cannot receive any more",
    "what zbackup refuses replaces nothing",
    "a key file of two lines lets nobody in",
    "a key that may do more already is refused",
)


def test_the_example_is_a_playbook() -> None:
    done = subprocess.run(
        (str(BIN / "ansible-playbook"), "--syntax-check", "-i", "localhost,", "site.example.yml"),
        cwd=HERE,
        env={**os.environ, "ANSIBLE_ROLES_PATH": "roles"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_role_makes_what_it_says_and_changes_nothing_when_run_again() -> None:
    done = subprocess.run(
        (*_as_root(), "sh", "contrib/ansible/story.sh", str(BIN / "ansible-playbook"), str(BIN / "zbackup")),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    steps = [line.removeprefix("story: ") for line in done.stdout.splitlines() if line.startswith("story: ")]
    assert done.returncode == 0 and [step for step in PROVEN if step not in steps] == [], (
        done.stdout + done.stderr
    )


def test_from_a_wheel_and_under_systemd_the_daemon_runs() -> None:
    wheels = PROJECT / "dist" / "role"  # the guest sees nothing of /tmp
    shutil.rmtree(wheels, ignore_errors=True)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    lock = ("--require-hashes", "-r", "requirements-install.lock")
    for argv in (
        (*pip, "download", *lock, "--dest", str(wheels)),
        (*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), "."),
    ):
        subprocess.run(argv, cwd=PROJECT, check=True)
    lab = ("tests/lab/lab", "run", "--disk", "4G", "--mem", "6G", "--timeout", "20m", "--")
    story = (
        "env",
        f"PYTHONPATH={PROJECT}",
        sys.executable,
        "contrib/ansible/systemd_story.py",
        str(wheels),
    )
    done = subprocess.run((*lab, *story), cwd=PROJECT, capture_output=True, text=True, check=False)
    told = [line.removeprefix("story: ") for line in done.stdout.splitlines() if line.startswith("story: ")]
    assert done.returncode == 0, done.stdout + done.stderr
    assert told == ["applied", "the daemon runs and status is ok", "run again, it changes nothing"], (
        done.stdout + done.stderr
    )


def _as_root() -> tuple[str, ...]:
    """Nothing of it is left in a guest of the lab; a machine of somebody's own is not touched."""
    return ("tests/lab/lab", "run", "--timeout", "10m", "--")
