"""A pool that was imported read-only, or not at all, or whose key is not loaded: who looks is told, and who
would change something fails."""

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab.pool import Pool, run_until_free
from tests.lab.pool import run as tool
from tests.system.house import ZBACKUP
from tests.system.program import spoken
from tests.unit.samples import PLAIN
from zbackup.model.errors import PoolReadOnly
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
    (line,) = spoken(done.stderr)
    assert "the pool is read-only: cannot" in line and "without readonly=on" in line and "exited" not in line


@pytest.mark.parametrize(
    "change",
    [
        lambda zfs, name: zfs.set_properties(name, {"zbackup:x": "1"}),
        lambda zfs, name: zfs.clear_property(name, "zbackup:x"),
        lambda zfs, name: zfs.create(f"{name}/new", {}),
        lambda zfs, name: zfs.snapshot([f"{name}@new"], {}, timeout=60),
        lambda zfs, name: zfs.clone_each({f"{name}-clone": zfs.snapshots(name)[0]}, {}),
        lambda zfs, name: zfs.destroy_snapshot(zfs.snapshots(name)[0]),
        lambda zfs, name: zfs.hold("x", zfs.snapshots(name)[0]),
    ],
    ids=["set", "inherit", "create", "snapshot", "clone", "destroy", "hold"],
)
def test_whatever_changes_it_is_refused_in_one_clear_line(
    config: Path, change: Callable[[Zfs, str], object]
) -> None:
    with pytest.raises(PoolReadOnly, match=r"^the pool is read-only: cannot .*without readonly=on"):
        change(Zfs(), f"{NAME}/db")


def test_of_a_pool_that_is_not_there_it_is_said_how_to_get_it(config: Path) -> None:
    run_until_free("zpool", "export", NAME)
    for words in (("status",), ("snapshot",), ("prune",)):
        done = zb(config, *words)
        assert done.returncode == 4, done
        (line,) = spoken(done.stderr)
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


def test_keys_that_are_not_loaded(pool: Pool, tmp_path: Path) -> None:
    """A dataset that cannot be mounted is not ok, and a restore would fail: both say which key to load."""
    key, name = tmp_path / "key", f"{pool.name}/locked"
    key.write_text("a long passphrase")
    options = ("encryption=on", "keyformat=passphrase", f"keylocation=file://{key}")
    tool("zfs", "create", *(word for option in options for word in ("-o", option)), name)
    tool("zfs", "create", f"{name}/log")
    made = tmp_path / "zbackup.toml"
    made.write_text(
        f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
        f'[instance.shop]\nengine = "mysql"\ndatasets = ["{name}"]\n'
    )
    for loaded in (True, False):
        if not loaded:
            tool("zfs", "unmount", name)
            tool("zfs", "unload-key", name)
        (status,), (check,) = data(made, "status"), data(made, "check")
        for found in (status["findings"], check["findings"]):
            said = [f for f in found if f["subject"] == "datasets" and f["severity"] != "ok"]
            assert [(f["severity"], f["fix"]) for f in said] == (
                [] if loaded else [("critical", f"zfs load-key {name} && zbackup mount {name} {name}/log")]
            )
            assert all(f"the key of {name} is not loaded" in f["text"] for f in said)
        assert any(f["subject"] == "datasets" and f["severity"] == "ok" for f in check["findings"]) == loaded
    assert zb(made, "check").returncode == 3
    tool("zfs", "destroy", "-r", name)
