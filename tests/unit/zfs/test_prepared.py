"""Programs that stand by for a snapshot, and do not behave. With ZFS it is tried in
tests/platform/test_txg.py."""

import json
import os
import signal
from pathlib import Path

import pytest

from zbackup.model.errors import CommandTimedOut
from zbackup.zfs import prepared as room
from zbackup.zfs.prepared import prepared

NAMES, PROPERTIES = ["tank/db@s", "tank/log@s"], {"zbackup:test": "\xe4\n'\"", "zbackup:more": "x" * 100_000}


@pytest.fixture
def systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory in which the system's `zfs` lies, and that PATH names."""
    there = tmp_path / "usr" / "sbin"
    _put(there)
    monkeypatch.setattr(room, "PACKAGED", str(there))
    monkeypatch.setenv("PATH", str(there))
    return there


def _put(directory: Path) -> None:
    directory.mkdir(parents=True)
    (directory / "zfs").write_text("#!/bin/sh\n")
    (directory / "zfs").chmod(0o755)


@pytest.fixture(autouse=True)
def _obedient(monkeypatch: pytest.MonkeyPatch) -> None:
    stands_by(monkeypatch, "echo ready; read order")


def stands_by(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """This stands by from now on."""
    monkeypatch.setattr(room, "own_module", lambda _: ("/bin/sh", "-c", script))


def test_the_order_is_one_line(systems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "told"
    stands_by(monkeypatch, f"echo ready; exec /bin/cat > {told}")
    with prepared() as by:
        assert by
        assert by.snapshot(NAMES, PROPERTIES, timeout=60)
    assert told.read_bytes().count(b"\n") == 1
    assert told.read_bytes().endswith(b"\n")
    assert json.loads(told.read_text()) == {"snapshots": NAMES, "properties": PROPERTIES}


@pytest.mark.parametrize(
    "says", ["printf rea; read never; echo dy", "echo no; read never", "exit 1", "echo readyready"]
)
def test_one_that_does_not_say_that_it_is_ready_is_not_waited_for(
    says: str, systems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_by(monkeypatch, says)
    with prepared() as by:
        assert by is None


def test_one_that_hangs_is_given_up_and_called_what_people_know_it_by(
    systems: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stands_by(monkeypatch, "echo ready; exec /bin/sleep 600")
    with prepared() as by:
        assert by
        with pytest.raises(CommandTimedOut, match=r"^zfs snapshot: no answer within 0.3 s$"):
            by.snapshot(NAMES, {}, timeout=0.3)
        assert by.process.returncode == -signal.SIGKILL


def test_a_signal_to_us_and_our_children_does_not_reach_it(systems: Path) -> None:
    """It would end half-way, and `zfs snapshot` begin in its place, when nothing is wanted any more."""
    with prepared() as by:
        assert by
        assert os.getpgid(by.process.pid) != os.getpgid(0)
        assert by.snapshot(NAMES, {}, timeout=60)


def test_the_systems_zfs_is_known_by_each_of_its_names(
    systems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As sudo's PATH on some systems names /sbin first, which is a link to /usr/sbin."""
    (tmp_path / "sbin").symlink_to(systems)
    monkeypatch.setenv("PATH", f"{tmp_path}/sbin:{systems}")
    with prepared() as by:
        assert by


def test_one_that_was_put_before_the_packages_is_somebodys_own(
    systems: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = tmp_path / "usr" / "local" / "sbin"
    _put(local)
    monkeypatch.setenv("PATH", f"{local}:{systems}")
    monkeypatch.setattr(room, "FIXED_PATH", f"{local}:{systems}")
    with prepared() as by:
        assert by is None
    # Where there is no other it is the system's.
    (systems / "zfs").unlink()
    with prepared() as by:
        assert by
