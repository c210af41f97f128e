"""Find who may make accounts: of each engine the administrator that suits a server that was found."""

from dataclasses import dataclass, replace
from typing import Protocol

from zbackup.engines.mongodb.options import ConnectOptions as MongoConnectOptions
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server import account
from zbackup.engines.mysql.server.connection import LoginRefused, PrivilegeMissing, connect
from zbackup.engines.mysql.server.inspect import inspect
from zbackup.features.init.setup import EngineName, FoundServer

ANSWER_S = 30.0
"""Seconds that a server may be silent before it is given up."""


class Administrator(Protocol):
    """A server seen by who may make accounts on it, or needs none. Its methods raise DatabaseError."""

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        """The version, where all of its files are, as it says, and whether nobody has to log in."""

    def account_exists(self, user: str) -> bool:
        """Whether zbackup's account is there. Raise DatabaseError when that cannot be seen."""

    def create_account(self, user: str, password: str) -> None:
        """Make zbackup's account with what it needs, or complete one; a password that it has stays.

        Raise DatabaseError, or Refused where accounts cannot be made.
        """

    def account_admits(self, user: str, password: str) -> bool:
        """Whether the account can log in with this password, whatever it may do."""

    def account_works(self, user: str, password: str) -> bool:
        """Whether the account can log in with this password, and look at all that zbackup has to see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlAdministrator:
    """`connect` is how the administrator logs in."""

    connect: ConnectOptions
    flavor: EngineName

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        with connect(self.connect) as connection:
            facts = inspect(connection)
        return facts.version, tuple(each.path for each in facts.data_paths), False

    def account_exists(self, user: str) -> bool:
        with connect(self.connect) as connection:
            return account.exists(connection, user)

    def create_account(self, user: str, password: str) -> None:
        with connect(self.connect) as connection:
            account.create(connection, self.flavor, user, password)

    def account_admits(self, user: str, password: str) -> bool:
        try:
            connect(replace(self.connect, user=user, password=lambda: password)).close()
        except LoginRefused:
            return False
        return True

    def account_works(self, user: str, password: str) -> bool:
        try:
            with connect(replace(self.connect, user=user, password=lambda: password)) as connection:
                inspect(connection)
        except (LoginRefused, PrivilegeMissing):
            return False
        return True


def administrator(server: FoundServer, user: str, password: str | None) -> Administrator:
    """The server as its administrator sees it; with no `password` by the socket alone, or without a login."""
    if server.engine == "mongodb":
        # PyMongo takes long to read: only who has a MongoDB waits for it.
        from zbackup.features.init.mongodb_administrator import MongoAdministrator

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


def account_script(server: FoundServer, user: str, password: str) -> str:
    """Return the script that an administrator runs to make zbackup's account."""
    if server.engine == "mongodb":
        from zbackup.engines.mongodb.server import account as of_mongodb

        return of_mongodb.script(user, password)
    return account.script(server.engine, user, password)
