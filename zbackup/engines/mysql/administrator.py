"""The administrator of a MySQL or MariaDB, over its socket."""

from dataclasses import dataclass, replace

from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server import account
from zbackup.engines.mysql.server.connection import LoginRefused, PrivilegeMissing, connect
from zbackup.engines.mysql.server.inspect import inspect
from zbackup.model.setup import EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlAdministrator:
    """See engines.base.Administrator. `connect` is how the administrator logs in."""

    connect: ConnectOptions
    flavor: EngineName

    def inspect(self) -> tuple[str, tuple[str, ...], bool]:
        """See engines.base.Administrator."""
        with connect(self.connect) as connection:
            facts = inspect(connection)
        return facts.version, tuple(each.path for each in facts.data_paths), False

    def account_exists(self, user: str) -> bool:
        """See engines.base.Administrator."""
        with connect(self.connect) as connection:
            return account.exists(connection, user)

    def create_account(self, user: str, password: str) -> None:
        """See engines.base.Administrator."""
        with connect(self.connect) as connection:
            account.create(connection, self.flavor, user, password)

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
