"""Privileges of MongoDB's that are more than a developer may have."""

from typing import Any

import pytest

from zbackup.engines.mongodb.clone.accounts import exceeds

SHOP = {"db": "shop", "collection": ""}
EVERYWHERE = {"db": "", "collection": ""}
ADMIN = {"db": "admin", "collection": ""}
USERS = {"db": "admin", "collection": "system.users"}


@pytest.mark.parametrize(
    ("resource", "actions", "more"),
    [
        (SHOP, ["find", "insert", "createUser", "grantRole", "dropDatabase"], False),
        (EVERYWHERE, ["find", "insert", "dropDatabase", "renameCollectionSameDB"], False),
        (EVERYWHERE, ["grantRole"], True),
        (ADMIN, ["find", "insert"], False),
        (ADMIN, ["createUser"], True),
        (USERS, ["find"], False),
        (USERS, ["insert"], True),
        ({"cluster": True}, ["listDatabases", "serverStatus"], False),
        ({"cluster": True}, ["listDatabases", "shutdown"], True),
        ({"cluster": True}, ["an action of a later version"], True),
        ({"anyResource": True}, ["find"], True),
        ({"system_buckets": ""}, ["find", "insert"], False),
        ({"a resource of a later version": True}, ["find"], True),
    ],
)
def test_what_reaches_the_server_or_its_accounts_is_more(
    resource: dict[str, Any], actions: list[str], more: bool
) -> None:
    assert exceeds([{"resource": resource, "actions": actions}]) is more
    assert not exceeds([])
