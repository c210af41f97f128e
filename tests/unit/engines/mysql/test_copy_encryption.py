"""Encrypted tables: a copy is encrypted, too, or it is refused by name."""

from typing import Any, cast

import pytest

from zbackup.engines.mysql.production.tables import ServerTable, read_table
from zbackup.engines.mysql.server.connection import PrivilegeMissing, StatementFailed
from zbackup.features.copyback.mysql.encryption import make, require_keys
from zbackup.model.errors import Refused
from zbackup.model.table_name import TableName

MYSQL, MARIADB = "9.7.0", "11.8.3-MariaDB"
NAME = TableName("shop", "secret")


def table(*, encrypted: bool = True) -> ServerTable:
    return ServerTable(
        name=NAME, type="BASE TABLE", engine="InnoDB", rows=1, row_bytes=1, columns=(), encrypted=encrypted
    )


class Server:
    """Production with a plugin of the kind that has keys, or a component, or neither."""

    def __init__(self, version: str, *, plugin: bool = False, component: bool | None = False) -> None:
        self.version, self.plugin, self.component = version, plugin, component
        self.fails: StatementFailed | None = None
        self.options: str | None = None

    def rows(self, statement: str, _: object = ()) -> list[dict[str, Any]]:
        if "information_schema.PLUGINS" in statement:
            assert ("keyring" in statement) is (self.version == MYSQL)
            return [{"1": 1}] if self.plugin else []
        if "keyring_component_status" in statement:
            if self.component is None:
                raise PrivilegeMissing("SELECT command denied")
            return [{"name": "Component_status", "value": "Active"}] if self.component else []
        return []

    def one(self, _: str, __: object = ()) -> dict[str, Any]:
        return {"type": "BASE TABLE", "engine": "InnoDB", "n": 1, "length": 1, "options": self.options}

    def execute(self, _: str) -> None:
        if self.fails:
            raise self.fails


@pytest.mark.parametrize(
    ("server", "keys"),
    [
        (Server(MYSQL), False),
        (Server(MYSQL, plugin=True), True),
        (Server(MYSQL, component=True), True),
        (Server(MYSQL, component=None), True),
        (Server(MARIADB), False),
        (Server(MARIADB, plugin=True), True),
    ],
)
def test_without_keys_it_is_refused_before_anything_is_made(server: Server, keys: bool) -> None:
    require_keys(cast(Any, server), table(encrypted=False))
    if keys:
        require_keys(cast(Any, server), table())
        return
    with pytest.raises(Refused, match=r"it is encrypted, and production has no keys .* with --missing"):
        require_keys(cast(Any, server), table())


@pytest.mark.parametrize(("code", "remedy"), [(1005, "ENCRYPTION_KEY_ID"), (3827, "TABLE_ENCRYPTION_ADMIN")])
def test_what_production_makes_of_it_is_told_in_one_line(code: int, remedy: str) -> None:
    server = Server(MYSQL)
    make(cast(Any, server), table(), "CREATE TABLE t (id INT)")
    server.fails = StatementFailed("the server refused CREATE TABLE", code)
    with pytest.raises(Refused, match=rf"^shop\.secret is encrypted, and the server refused .*{remedy}"):
        make(cast(Any, server), table(), "CREATE TABLE t (id INT)")
    with pytest.raises(StatementFailed):
        make(cast(Any, server), table(encrypted=False), "CREATE TABLE t (id INT)")


@pytest.mark.parametrize(
    ("options", "encrypted"),
    [
        ("row_format=DYNAMIC ENCRYPTION='Y'", True),
        ('row_format=DYNAMIC ENCRYPTION="Y" ', True),
        ("ENCRYPTION='N'", False),
        ('ENCRYPTION="N"', False),
        ("`ENCRYPTED`=YES `ENCRYPTION_KEY_ID`=2", True),
        ("`encrypted`='yes'", True),
        ('"ENCRYPTED"=YES', True),
        ('`ENCRYPTED`="YES"', True),
        ("`ENCRYPTED`=NO", False),
        ("`ENCRYPTION_KEY_ID`=1", False),
        (None, False),
    ],
)
def test_its_own_definition_tells(options: str | None, encrypted: bool) -> None:
    server = Server(MARIADB)
    server.options = options
    found = read_table(cast(Any, server), NAME)
    assert found and found.encrypted is encrypted
