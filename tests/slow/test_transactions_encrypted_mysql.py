"""Encrypted tables and logs of MySQL, with a keyring component for the installed server."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.lab import servers
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import Pool
from tests.lab.server_user import SERVER_UID
from tests.lab.variants import Variant
from tests.system.conftest import end_clones
from tests.system.encryption_story import EncryptionStory
from tests.system.house import House, build

FLAVOUR = "mysql-9.7"
# OpenZFS from 2.3 refuses the direct I/O of encrypted pages ("Invalid argument"), and the server ends.
OPTIONS = ("--innodb-flush-method=fsync",)


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    """A server with a keyring outside of the datasets, where it belongs."""
    keyring = pool.home / "keyring"
    keyring.mkdir()
    os.chown(keyring, SERVER_UID, SERVER_UID)
    root = servers.path(FLAVOUR) / "root" / "usr"
    manifest, settings = root / "sbin/mysqld.my", root / "lib/mysql/plugin/component_keyring_file.cnf"
    manifest.write_text(json.dumps({"components": "file://component_keyring_file"}))
    settings.write_text(json.dumps({"path": str(keyring / "keys"), "read_only": False}))
    try:
        yield from _running(pool)
    finally:
        _remove(manifest, settings)


def _running(pool: Pool) -> Iterator[House]:
    with build(pool, pool.home, Variant(flavour=FLAVOUR, options=OPTIONS), pool.data, pool.log) as server:
        house = House(pool, pool.home, server, (pool.data.name,))
        yield house
        end_clones(house)


def _remove(*files: Path) -> None:
    for file in files:
        file.unlink()


@pytest.fixture
def encrypt_log() -> Callable[[House], DatabaseServer]:
    """Has the running server encrypt its log from now on."""

    def encrypt(house: House) -> DatabaseServer:
        house.server.sql("SET GLOBAL binlog_encryption = ON")
        return house.server

    return encrypt


def test_keys_are_made_without_touching_productions(house: House) -> None:
    house.server.sql("CREATE TABLE shop.keyed (id INT PRIMARY KEY) ENCRYPTION='Y'")
    house.snapshot()
    house.server.sql("ALTER INSTANCE ROTATE INNODB MASTER KEY")
    house.server.sql("INSERT INTO shop.keyed VALUES (1), (2)")
    keys = house.home / "keyring" / "keys"
    before = (keys.read_bytes(), keys.stat().st_mtime_ns)
    report = house.restore("now", "rotated")
    with house.clone(report) as clone, clone.cursor() as cursor:
        cursor.execute("ALTER INSTANCE ROTATE INNODB MASTER KEY")
        cursor.execute("SELECT COUNT(*) FROM shop.keyed")
        assert cursor.fetchone() == (2,)
    assert (keys.read_bytes(), keys.stat().st_mtime_ns) == before
    assert list(keys.parent.iterdir()) == [keys]
    assert (house.home / "clones" / "rotated" / "keyring" / "keys").read_bytes() != before[0]
    house.destroy("rotated")


class TestEncryption(EncryptionStory):
    """See EncryptionStory."""
