"""Encrypted tables and logs of MariaDB, with keys from a file."""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import Pool
from tests.lab.server_user import SERVER_UID
from tests.lab.variants import Variant
from tests.system.conftest import end_clones
from tests.system.encryption_story import EncryptionStory
from tests.system.house import House, build


@pytest.fixture(scope="module")
def house(pool: Pool) -> Iterator[House]:
    """A server that encrypts; its keys lie outside of the datasets, where they belong."""
    keys = pool.home / "keys"
    keys.write_text(f"1;{'0123456789abcdef' * 4}\n")
    keys.chmod(0o400)
    os.chown(keys, SERVER_UID, SERVER_UID)
    options = (
        "--plugin-load-add=file_key_management",
        f"--file-key-management-filename={keys}",
        "--innodb-encrypt-tables=ON",
        "--innodb-encrypt-log=ON",
    )
    variant = Variant(flavour="mariadb-10.11", options=options)
    with build(pool, pool.home, variant, pool.data, pool.log) as server:
        house = House(pool, pool.home, server, (pool.data.name,))
        yield house
        end_clones(house)
        if house.server.running:
            house.server.stop()


@pytest.fixture
def encrypt_log() -> Callable[[House], DatabaseServer]:
    """Restarts the server with an encrypted log."""

    def restart(house: House) -> DatabaseServer:
        house.server.stop()
        settings = house.server.settings
        return DatabaseServer(replace(settings, options=(*settings.options, "--encrypt-binlog=ON"))).start()

    return restart


class TestEncryption(EncryptionStory):
    """See EncryptionStory."""
