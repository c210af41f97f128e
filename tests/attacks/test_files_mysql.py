"""What owners of directories try during restores of MySQL."""

import json
from pathlib import Path

import pytest

from tests.attacks.file_attacks import SqlFileAttacks
from tests.lab.pool import run
from tests.system.house import Variant, Zbackup


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestFiles(SqlFileAttacks):
    def test_a_record_that_names_a_file_of_roots_as_the_keyring(self, house: Zbackup, tmp_path: Path) -> None:
        key = tmp_path / "keys" / "ssh" / "x_key"
        key.parent.mkdir(parents=True)
        key.write_text("a private key of root's")
        key.chmod(0o600)
        taken = house.snapshot()
        for snapshot in sorted(name for name in house.snapshots() if name.endswith(f"@{taken['name']}")):
            server = json.loads(run("zfs", "get", "-Hpo", "value", "zbackup:server", snapshot))
            named = json.dumps({**server, "keyring_file": str(key)})
            run("zfs", "set", f"zbackup:server={named}", snapshot)
        said = house.zb(*house.restoring("now", "r4"), "-q").refused(9)
        assert "cannot read the keyring" in said
        assert not [p for p in (house.home / "clones").rglob("x_key*")]
