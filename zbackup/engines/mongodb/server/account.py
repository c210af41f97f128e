"""Make zbackup's role and account, with exactly the privileges that the documentation names.

The exception that lets anybody on the host make the first account of a server is not used: it ends with
that account,
and zbackup's may make no other, so nobody could administrate the server any more (MongoDB manual,
"Localhost Exception").
"""

import json

from zbackup.engines.mongodb.server.connection import Connection
from zbackup.engines.mongodb.server.privileges import ROLE, role_document

DATABASE = "admin"


def exists(connection: Connection, user: str) -> bool:
    """Whether there is such an account. Raise PrivilegeMissing when we may not see that."""
    return bool(connection.run(DATABASE, {"usersInfo": user})["users"])


def create(connection: Connection, user: str, password: str) -> None:
    """Make the role and the account, or complete what is there; a password stays. Raise DatabaseError."""
    document = role_document()
    if connection.run(DATABASE, {"rolesInfo": ROLE})["roles"]:
        connection.run(DATABASE, {"grantPrivilegesToRole": ROLE, "privileges": document["privileges"]})
    else:
        connection.run(DATABASE, {"createRole": ROLE, **document})
    if exists(connection, user):
        connection.run(DATABASE, {"grantRolesToUser": user, "roles": [ROLE]})
    else:
        connection.run(DATABASE, {"createUser": user, "pwd": password, "roles": [ROLE]})


def writes(connection: Connection) -> bool:
    """Whether accounts can be made here: on a secondary they come from the primary."""
    return bool(connection.command({"hello": 1}).get("isWritablePrimary"))


def script(user: str, password: str) -> str:
    """The same for an administrator's mongosh. Pure."""
    role = json.dumps({"role": ROLE, **role_document()})
    account = json.dumps({"user": user, "pwd": password, "roles": [ROLE]})
    at = f"db.getSiblingDB({json.dumps(DATABASE)})"
    return f"{at}.createRole({role})\n{at}.createUser({account})\n"
