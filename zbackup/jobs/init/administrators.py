"""Find who may make accounts: of each engine the administrator that suits a server that was found."""

from zbackup.engines.base import Administrator
from zbackup.engines.mongodb.options import ConnectOptions as MongoConnectOptions
from zbackup.engines.mysql.administrator import MysqlAdministrator
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server import account
from zbackup.model.setup import Server

ANSWER_S = 30.0
"""Seconds that a server may be silent before it is given up."""


def administrator(server: Server, user: str, password: str | None) -> Administrator:
    """The server as its administrator sees it; with no `password` by the socket alone, or without a login."""
    if server.engine == "mongodb":
        # PyMongo takes long to read: only who has a MongoDB waits for it.
        from zbackup.engines.mongodb.administrator import MongoAdministrator

        return MongoAdministrator(
            connect=MongoConnectOptions(
                socket=server.socket,
                host=server.host,
                port=server.port,
                user=user,
                password=None if password is None else lambda: password,
            ),
            pid=server.process.pid,
        )
    return MysqlAdministrator(
        connect=ConnectOptions(
            socket=server.socket,
            user=user,
            password=lambda: password or "",
            peer=(server.process.pid, server.process.uid),
            limit_s=ANSWER_S,
        ),
        flavor=server.engine,
    )


def account_script(server: Server, user: str, password: str) -> str:
    """Return the script that an administrator runs to make zbackup's account."""
    if server.engine == "mongodb":
        from zbackup.engines.mongodb.server import account as of_mongodb

        return of_mongodb.script(user, password)
    return account.script(server.engine, user, password)
