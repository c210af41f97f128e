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
    """See engines.base.Administrator. `connect` is how the administrator logs in; without a password nobody
    does."""

    connect: ConnectOptions
    pid: int

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        """See engines.base.Administrator."""
        with connect(self.connect) as connection:
            version = str(connection.command({"buildInfo": 1})["version"])
            options = connection.command({"getCmdLineOpts": 1})["parsed"]
        data = dbpath(options, self.pid)
        return version, tuple(each.path for each in data_paths(data)), self.connect.password is None

    def account_exists(self, user: str) -> bool:
        """See engines.base.Administrator."""
        with connect(self.connect) as connection:
            return account.exists(connection, user)

    def create_account(self, user: str, password: str) -> None:
        """See engines.base.Administrator."""
        with connect(self.connect) as connection:
            if not account.writes(connection):
                raise Refused(
                    f"{connection.where} is no primary: make the account there, and put its password here"
                )
            account.create(connection, user, password)

    def account_admits(self, user: str, password: str) -> bool:
        """See engines.base.Administrator."""
        try:
            connect(replace(self.connect, user=user, password=lambda: password)).close()
        except LoginRefused:
            return False
        return True

    def account_works(self, user: str, password: str) -> bool:
        """See engines.base.Administrator."""
        try:
            with connect(replace(self.connect, user=user, password=lambda: password)) as connection:
                inspect(connection)
        except (LoginRefused, PrivilegeMissing):
            return False
        return True
