"""A real mongod's answers to an account that lacks something. Needs no ZFS; run with pytest by name."""

from contextlib import suppress
from pathlib import Path

import pytest
from pymongo.errors import PyMongoError

from tests.lab.mongo_fixture import (
    MongoServer,
)
from tests.lab.mongo_lock_holder import engine
from tests.lab.mongo_locking import is_locked, primary, room
from zbackup.config.lock import Lock
from zbackup.engines.mongodb.engine import MongoEngine
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import LoginRefused, PrivilegeMissing
from zbackup.engines.mongodb.server.privileges import role_document
from zbackup.model.errors import DatabaseError

__all__ = ["primary", "room"]


def test_a_wrong_password_and_no_password_are_told_apart(primary: MongoServer) -> None:
    settings = primary.settings
    with pytest.raises(LoginRefused, match="refused the login of zbackup"):
        engine(settings.socket, settings.run_dir, Lock(), password="wrong").inspect()
    nobody = MongoEngine(
        instance="lab",
        connect=ConnectOptions(socket=str(settings.socket)),
        lock=Lock(),
        run_dir=settings.run_dir,
    )
    with pytest.raises(LoginRefused, match="wants a login"):
        nobody.inspect()


def test_a_server_that_is_down_is_said_to_be(room: Path) -> None:
    with pytest.raises(DatabaseError, match=r"cannot reach the server at socket .*is it running"):
        engine(room / "mongodb-1.sock", room, Lock()).inspect()


@pytest.mark.parametrize("action", ["getCmdLineOpts", "replSetGetStatus", "serverStatus", "getParameter"])
def test_a_privilege_that_is_missed_when_looking_is_named(primary: MongoServer, action: str) -> None:
    zbackup = _with_role(primary, action)
    with pytest.raises(PrivilegeMissing) as refused:
        zbackup.inspect()
    _grant_and_try(primary, zbackup, str(refused.value), action)


@pytest.mark.parametrize("action", ["fsync", "unlock", "inprog"])
def test_a_privilege_that_is_missed_for_the_lock_is_named_before_it_is_taken(
    primary: MongoServer, action: str
) -> None:
    zbackup = _with_role(primary, action)
    facts = zbackup.inspect()
    zbackup.require_privileges(facts, "none")
    with pytest.raises(PrivilegeMissing) as refused, zbackup.consistent(facts, "fsync"):
        raise AssertionError(f"locked without {action}")
    assert not is_locked(primary)
    _grant_and_try(primary, zbackup, str(refused.value), action)


def _with_role(server: MongoServer, without: str) -> MongoEngine:
    """The engine with an account that lacks one action of the documented role."""
    document = role_document()
    for privilege in document["privileges"]:
        privilege["actions"] = [a for a in privilege["actions"] if a != without]
    with server.client() as client:
        for command, name in (("dropUser", "poor"), ("dropRole", "poor")):
            with suppress(PyMongoError):
                client.admin.command(command, name)
        client.admin.command("createRole", "poor", **document)
        client.admin.command("createUser", "poor", pwd="poor", roles=["poor"])
    return engine(server.settings.socket, server.settings.run_dir, Lock(), "poor", "poor")


def _grant_and_try(server: MongoServer, zbackup: MongoEngine, said: str, action: str) -> None:
    """The advice names the action; once followed, with the account's own role, nothing is missing."""
    assert f'"actions": ["{action}"]' in said and "grantPrivilegesToRole" in said
    privilege = {"resource": {"cluster": True}, "actions": [action]}
    with server.client() as client:
        client.admin.command("grantPrivilegesToRole", "poor", privileges=[privilege])
    with zbackup.consistent(zbackup.inspect(), "fsync") as held:
        held.confirm()
