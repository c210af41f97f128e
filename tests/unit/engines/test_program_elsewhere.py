"""A server program on the instance's own datasets is not run: a clone runs nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.samples import PLAIN
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.base import Recovery
from zbackup.engines.mongodb.recovery.recover import MongoRecovery
from zbackup.engines.mysql.recovery.recover import MysqlRecovery
from zbackup.model.errors import Refused

SAYS = {"mysqld": "/x/mysqld  Ver 9.7.4 for Linux on x86_64", "mongod": "db version v6.0.5"}
VERSIONS = {"mysqld": "9.7.4", "mongod": "6.0.5"}


@pytest.mark.parametrize("name", ["mysqld", "mongod"])
def test_check_says_so_before_a_restore_does(rooted: Path, name: str) -> None:
    program = rooted / "tank" / "bin" / name
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{SAYS[name]}'\n")
    program.chmod(0o755)
    linked = rooted / name
    linked.symlink_to(program)
    version, wanted = (
        VERSIONS[name],
        "lies on the instance's own datasets, and nothing in a clone is run: name one elsewhere in rec",
    )
    for path in (program, linked):
        recovery = recovery_with(name, str(path))
        assert recovery.check_version({}, version, [str(rooted / "elsewhere")]) == str(path)
        with pytest.raises(Refused, match=f"{path} {wanted}"):
            recovery.check_version({}, version, ["/elsewhere", str(rooted / "tank")])
        record = replace(PLAIN, engine="mysql", server={}, server_version=version)
        with pytest.raises(Refused, match=f"{path} {wanted}"):
            recovery.check_program(replace(record, members=(("tank/db", str(rooted / "tank")),)))


def recovery_with(name: str, server: str) -> Recovery:
    if name == "mysqld":
        return MysqlRecovery(flavor="mysql", table=RecoveryTable(server=(server,)))
    return MongoRecovery(table=RecoveryTable(server=(server,)))
