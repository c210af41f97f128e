"""Attacks by owners of directories during restores."""

import contextlib
import json
from pathlib import Path

import pytest

from tests.attacks.file_attacks import Canary, SqlFileAttacks, swapping
from tests.lab.pool import run as tool
from tests.lab.server_user import SERVER_UID
from tests.system.house import House, Zbackup, next_second

VARIANTS = ("mysql-9.7", "mariadb-11.8")


def plant_links(clones: Path, run: Path, canary: Path) -> int:
    """Links where a restore is about to write."""
    wanted = [d / "relay" / "relay-zbackup.index" for d in clones.iterdir()]
    wanted += [d / "init.sql" for d in run.iterdir() if d.is_dir()]
    planted = 0
    for link in wanted:
        with contextlib.suppress(OSError):
            link.symlink_to(canary / "file")
            planted += 1
    return planted


class TestFiles(SqlFileAttacks):
    @pytest.mark.told_with("mysql-9.7")
    def test_links_where_a_restore_writes(self, house: House, tmp_path: Path) -> None:
        """MySQL alone replays from files that are written for it below directories of its user's."""
        house.server.sql("UPDATE shop.customers SET email = CONCAT('x', id, RAND())")
        moment = next_second()
        house.server.sql("UPDATE shop.customers SET email = CONCAT('y', id, RAND())")
        canary = Canary(tmp_path / "canary")
        clones, run = house.home / "clones", house.home / "run"
        with swapping(lambda: plant_links(clones, run, canary.home)) as planted:
            ended = house.zb(*house.restoring(moment, "r1"))
        canary.assert_untouched()
        assert planted[0] > 0 and Path(ended.data["socket"]).is_socket()
        assert (house.home / "run" / "r1").lstat().st_uid == SERVER_UID
        house.destroy("r1")

    @pytest.mark.told_with("mysql-9.7")
    def test_a_record_that_names_a_file_of_roots_as_the_keyring(self, house: Zbackup, tmp_path: Path) -> None:
        key = tmp_path / "keys" / "ssh" / "x_key"
        key.parent.mkdir(parents=True)
        key.write_text("a private key of root's")
        key.chmod(0o600)
        taken = house.snapshot()
        for snapshot in sorted(name for name in house.snapshots() if name.endswith(f"@{taken['name']}")):
            server = json.loads(tool("zfs", "get", "-Hpo", "value", "zbackup:server", snapshot))
            named = json.dumps({**server, "keyring_file": str(key)})
            tool("zfs", "set", f"zbackup:server={named}", snapshot)
        said = house.zb(*house.restoring("now", "r4"), "-q").refused(9)
        assert "cannot read the keyring" in said
        assert not [p for p in (house.home / "clones").rglob("x_key*")]
