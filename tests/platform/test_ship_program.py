"""zbackup ship as its users run it, as a program: what it says and how it ends."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.lab.pool import Pool, run
from tests.platform.shipping import Yard

ZBACKUP = Path(sys.executable).with_name("zbackup")


class Program:
    """zbackup with a configuration for a yard, to two destinations."""

    def __init__(self, yard: Yard, home: Path) -> None:
        self.config = home / "zbackup.toml"
        self.config.write_text(
            f'run_dir = "{home}"\n[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.outer.name}"]\n'
            f'[[instance.shop.ship]]\nto = "zfs:{yard.root}"\nname = "vault"\nbandwidth = "100MiB"\n'
            '[[instance.shop.ship]]\nto = "ssh://127.0.0.1:1/tank"\nname = "nowhere"\n'
        )

    def __call__(self, *words: str) -> "subprocess.CompletedProcess[str]":
        argv = [str(ZBACKUP), "--config", str(self.config), "ship", *words]
        return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=180)

    def data(self, *words: str, status: int = 0) -> list[dict[str, Any]]:
        done = self(*words, "--json")
        assert done.returncode == status, done.stderr
        rows: list[dict[str, Any]] = json.loads(done.stdout)["data"]
        return rows


def test_the_way_from_nothing_to_a_divergence(pool: Pool, vault: Pool, tmp_path: Path) -> None:
    yard = Yard(pool, vault)
    program = Program(yard, tmp_path)
    first = yard.backup()
    refused = program("shop", "vault")
    assert (refused.returncode, refused.stderr.count("\n")) == (9, 1), refused.stderr
    assert "zbackup ship shop vault --initial" in refused.stderr
    (plan,) = program.data("shop", "vault", "--dry-run", "--initial")
    assert (plan["plan"], plan["commit"], len(plan["send"])) == ("steps", [first], 2)
    (done,) = program.data("shop", "vault", "--initial")
    assert (done["committed"], done["newest"], yard.committed()) == ([first], first, [first])
    assert "up to date" in program("shop", "vault").stdout
    # One destination that cannot be reached does not keep the other from its turn.
    second = yard.backup()
    rows = {row["destination"]: row for row in program.data("--parallel", "2", status=12)}
    assert rows["vault"]["committed"] == [second]
    assert rows["nowhere"]["error"]["kind"] == "ConnectionFailed"
    run("zfs", "snapshot", f"{yard.home}/{yard.outer.name}@mine")
    diverged = program("shop", "vault")
    assert (diverged.returncode, diverged.stderr.count("\n")) == (13, 1)
    assert "@mine (guid" in diverged.stderr and f"@{second} (guid" in diverged.stderr
    assert program("shop", "elsewhere").returncode == 4
