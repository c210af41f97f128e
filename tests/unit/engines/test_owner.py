"""No server is started as root, whoever put root's name on its files."""

import os
from pathlib import Path

import pytest

from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.file_owner import owner_of, require_own_user
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.model.errors import Refused


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_a_data_directory_of_roots(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="belongs to root, and zbackup starts no server as root"):
        owner_of(tmp_path)
    os.chown(tmp_path, 27, 28)
    assert owner_of(tmp_path) == (27, 28)


def test_check_says_so_before_a_restore_does() -> None:
    require_own_user({"uid": "27"})
    require_own_user({})
    mysql = MysqlRecovery(flavor="mysql", table=RecoveryTable())
    with pytest.raises(Refused, match="/tank/data belongs to root"):
        mysql.check_version({"uid": "0", "datadir": "/tank/data"}, "9.7.4")
    mongodb = MongoRecovery(table=RecoveryTable())
    with pytest.raises(Refused, match="/tank/db belongs to root"):
        mongodb.check_version({"uid": "0", "dbpath": "/tank/db"}, "6.0.5")
