"""A pool that was imported read-only, or not at all: who looks is told, who would change something fails."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab.pool import Pool
from tests.lab.pool import run as tool
from tests.system.house import ZBACKUP
from tests.unit.samples import PLAIN
from zbackup.model.record import to_properties
from zbackup.zfs.datasets import Zfs

NAME = "lab-read-only"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an instance with three backups, of which two may go, on a pool that is imported read-only."""
    home = tmp_path_factory.mktemp("read-only")
    vdev = home / "vdev"
    with vdev.open("xb") as file:
        file.truncate(256 << 20)
    tool("zpool", "create", "-o", "cachefile=none", "-O", f"mountpoint={home / 'pool'}", NAME, str(vdev))
    tool("zfs", "create", f"{NAME}/db")
    for number in range(3):
        taken = datetime.now(UTC) - timedelta(days=9 - number)
        members = ((f"{NAME}/db", str(home / "pool" / "db")),)
        record = replace(
            PLAIN, backup=f"b{number}", members=members, taken=taken, as_of=taken, complete_to=taken
        )
        Zfs().snapshot([f"{NAME}/db@zbackup-{number}"], to_properties(record), timeout=60)
    tool("zpool", "export", NAME)
    tool("zpool", "import", "-d", str(vdev), "-o", "cachefile=none", "-o", "readonly=on", NAME)
    made = home / "zbackup.toml"
    made.write_text(
        f'run_dir = "{home}"\ndaemon = {{ state_dir = "{home}" }}\n'
        f'[instance.shop]\nengine = "mysql"\ndatasets = ["{NAME}/db"]\n'
        'retention = { last = 1, minimum = 1, window = "1 minute" }\n'
    )
    yield made
    if subprocess.run(("zpool", "list", NAME), capture_output=True, check=False).returncode == 0:
        tool("zpool", "export", NAME)


def zb(config: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        (str(ZBACKUP), "--config", str(config), *words), capture_output=True, text=True, check=False
    )


def data(config: Path, *words: str) -> Any:
    return json.loads(zb(config, *words, "--json").stdout)["data"]


def test_status_and_check_say_it(config: Path) -> None:
    (status,) = data(config, "status")
    assert status["health"] == "critical" and status["space"]["pool"]["readonly"]
    (check,) = data(config, "check")
    for found in (status["findings"], check["findings"]):
        (said,) = [f for f in found if f["subject"] == "pool"]
        assert (said["severity"], said["text"]) == ("critical", f"{NAME} is imported read-only")
        assert said["fix"] == f"zpool export {NAME} && zpool import {NAME}"


def test_a_prune_fails_in_one_line_instead_of_skipping_all(config: Path) -> None:
    (plan,) = data(config, "prune", "--dry-run")
    assert [b["name"] for b in plan["destroy"]] == ["zbackup-0", "zbackup-1"]
    done = zb(config, "prune")
    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert "pool is read-only" in line and "without readonly=on" in line


def test_of_a_pool_that_is_not_there_it_is_said_how_to_get_it(config: Path) -> None:
    tool("zpool", "export", NAME)
    for words in (("status",), ("snapshot",), ("prune",)):
        done = zb(config, *words)
        assert done.returncode == 4, done
        (line,) = done.stderr.splitlines()
        assert line.endswith(f"there is no pool {NAME} here now: zpool import {NAME}")
    (check,) = data(config, "check")
    (said,) = [f["text"] for f in check["findings"] if f["subject"] == "datasets"]
    assert "zpool import" in said


def test_of_a_dataset_that_is_not_there_on_a_pool_that_is_no_import_is_asked_for(
    pool: Pool, tmp_path: Path
) -> None:
    made = tmp_path / "zbackup.toml"
    made.write_text(
        f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
        f'[instance.shop]\nengine = "mysql"\ndatasets = ["{pool.name}/gone"]\n'
    )
    done = zb(made, "status")
    assert done.returncode == 4 and "does not exist" in done.stderr and "import" not in done.stderr
