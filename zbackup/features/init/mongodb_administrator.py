"""The administrator of a mongod."""

from dataclasses import dataclass, replace

from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server import account
from zbackup.engines.mongodb.server.connection import LoginRefused, PrivilegeMissing, connect
from zbackup.engines.mongodb.server.directories import data_paths, dbpath
from zbackup.engines.mongodb.server.inspect import inspect
from zbackup.model.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoAdministrator:
    """`connect` is how the administrator logs in; without a password it is tried without a login."""

    connect: ConnectOptions
    pid: int

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        with connect(self.connect) as connection:
            version = str(connection.command({"buildInfo": 1})["version"])
            options = connection.command({"getCmdLineOpts": 1})["parsed"]
        data = dbpath(options, self.pid)
        return version, tuple(each.path for each in data_paths(data)), self.connect.password is None

    def account_exists(self, user: str) -> bool:
        with connect(self.connect) as connection:
            return account.exists(connection, user)

    def create_account(self, user: str, password: str) -> None:
        with connect(self.connect) as connection:
            if not account.writes(connection):
                raise Refused(
                    f"{connection.where} is no primary: make the account there, and put its password here"
                )
            account.create(connection, user, password)

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
