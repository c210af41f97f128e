"""The Debian package after it was unpacked: no upgrade ends a daemon without a word."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "packaging" / "debian" / "postinst"
PROGRAMS = ("systemctl", "systemd-tmpfiles", "systemd-sysusers", "zbackup", "getent", "chgrp", "chmod")


@dataclass(frozen=True)
class Said:
    """The commands that were run, and what was warned of."""

    rc: int
    ran: list[str]
    warned: str


def configured(home: Path, before: str, **statuses: int) -> Said:
    """Run the script as dpkg does, with every program of the system's replaced by one that notes it."""
    (home / "bin").mkdir()
    log = home / "log"
    log.touch()
    for name in PROGRAMS:
        program = home / "bin" / name
        cases = "".join(f'[ "$1" = {k.replace("_", "-")} ] && exit {v}\n' for k, v in statuses.items())
        program.write_text(
            f'#!/bin/sh\necho "{name} $*" >> {log}\n[ {name} = zbackup ] && echo no >&2\n{cases}'
        )
        program.write_text(program.read_text() + "exit 0\n")
        program.chmod(0o755)
    script = home / "postinst"
    script.write_text(SCRIPT.read_text().replace("/run/systemd/system", str(home)))
    run = subprocess.run(
        ("/bin/sh", str(script), "configure", before),
        env={"PATH": f"{home / 'bin'}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return Said(run.returncode, log.read_text().splitlines(), run.stderr)


RESTART = "systemctl try-restart zbackup.service"


def test_an_upgrade_restarts_a_daemon_that_runs(tmp_path: Path) -> None:
    said = configured(tmp_path, "1.0")
    assert said.rc == 0 and RESTART in said.ran and not said.warned


def test_one_that_would_refuse_its_configuration_is_left_running(tmp_path: Path) -> None:
    said = configured(tmp_path, "1.0", list=2)
    assert said.rc == 0 and RESTART not in said.ran
    assert "refuses the configuration: no" in said.warned and "systemctl restart zbackup" in said.warned


@pytest.mark.parametrize("listed", [0, 1])
def test_one_that_does_not_start_again_is_told_of(tmp_path: Path, listed: int) -> None:
    said = configured(tmp_path, "1.0", list=listed, try_restart=1)
    assert said.rc == 0 and RESTART in said.ran and "did NOT start again" in said.warned


def test_a_daemon_that_does_not_run_stays_so(tmp_path: Path) -> None:
    said = configured(tmp_path, "1.0", is_active=3)
    assert said.rc == 0 and RESTART not in said.ran and not said.warned


@pytest.mark.parametrize(("before", "modes"), [("", 1), ("1.0", 0)])
def test_a_stricter_mode_is_not_taken_back_at_upgrades(tmp_path: Path, before: str, modes: int) -> None:
    said = configured(tmp_path, before)
    assert sum(line == "chmod 750 /etc/zbackup" for line in said.ran) == modes
