"""Connections to a server. The only importer of PyMySQL; every failure is one clear line."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any

import pymysql
from pymysql.constants import CR, ER
from pymysql.cursors import DictCursor

from zbackup.engines.mysql.options import ConnectOptions
from zbackup.model.errors import DatabaseError

CONNECT_LIMIT_S = 10

# 1698 is ACCESS_DENIED_NO_PASSWORD_ERROR, which PyMySQL does not name: an account that logs in by its socket.
LOGIN_REFUSED = (ER.ACCESS_DENIED_ERROR, 1698)

PRIVILEGE_MISSING = (
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    ER.TABLEACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.PROCACCESS_DENIED_ERROR,
)
LOST = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 0)


class LoginRefused(DatabaseError):
    """The server is up, but does not know this user with this password."""


class PrivilegeMissing(DatabaseError):
    """The account lacks a privilege, which the message names."""


class ConnectionLost(DatabaseError):
    """The server ended the connection, and with it every lock that it held."""


class StatementFailed(DatabaseError):
    """The server refused a statement. `code` is its error number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One session in autocommit mode. Raises the errors above. Rows are dictionaries by column name."""

    def __init__(self, raw: "pymysql.Connection[DictCursor]", options: ConnectOptions) -> None:
        self._raw = raw
        self._options = options

    @property
    def id(self) -> int:
        """The server's number for this session, as in its process list."""
        return int(self.one("SELECT CONNECTION_ID() AS id")["id"])

    def rows(self, statement: str, arguments: Sequence[object] = ()) -> list[dict[str, Any]]:
        """Run one statement and fetch all of its result."""
        try:
            with self._raw.cursor() as cursor:
                cursor.execute(statement, tuple(arguments) or None)
                return list(cursor.fetchall())
        except pymysql.MySQLError as failure:
            raise _named(failure, self._options, statement.split(None, 3)[:3]) from None

    def one(self, statement: str, arguments: Sequence[object] = ()) -> dict[str, Any]:
        """The first row; {} when there is none."""
        return next(iter(self.rows(statement, arguments)), {})

    def execute(self, statement: str, arguments: Sequence[object] = ()) -> None:
        """Run one statement for its effect."""
        self.rows(statement, arguments)

    def close(self) -> None:
        """End the session. Lost already is fine."""
        try:
            self._raw.close()
        except pymysql.MySQLError:
            return

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(options: ConnectOptions) -> Connection:
    """Open a session. Raise LoginRefused, or DatabaseError when the server cannot be reached."""
    place: dict[str, Any] = (
        {"unix_socket": options.socket} if options.socket else {"host": options.host, "port": options.port}
    )
    try:
        raw = pymysql.connect(
            **place,
            **_tls(options),
            user=options.user,
            password=options.password(),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_LIMIT_S,
            program_name="zbackup",
            cursorclass=DictCursor,
        )
    except pymysql.MySQLError as failure:
        raise _named(failure, options, ("connecting",)) from None
    except OSError as failure:
        raise DatabaseError(f"cannot set up TLS to {options.where}: {failure}") from None
    return Connection(raw, options)


def _tls(options: ConnectOptions) -> dict[str, Any]:
    tls = options.tls
    if tls is None or options.socket:
        return {}
    return {
        "ssl_ca": tls.ca or None,
        "ssl_cert": tls.cert or None,
        "ssl_key": tls.key or None,
        "ssl_verify_cert": tls.verify,
        "ssl_verify_identity": tls.verify,
        "ssl": {"ca": tls.ca} if tls.ca else {"check_hostname": tls.verify},
    }


def _named(failure: pymysql.MySQLError, options: ConnectOptions, doing: Sequence[str]) -> DatabaseError:
    """The server's error under our name. Its text names users and privileges, but never passwords."""
    code = int(failure.args[0]) if failure.args and isinstance(failure.args[0], int) else 0
    text = str(failure.args[1]) if len(failure.args) > 1 else str(failure) or "connection lost"
    where, what = options.where, " ".join(doing)
    if code in LOGIN_REFUSED:
        return LoginRefused(f"{where} refused the login of {options.user}: {text}; check user and password")
    if code in (CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR):
        return DatabaseError(f"cannot reach the server at {where}: {text}; is it running?")
    if code in PRIVILEGE_MISSING:
        return PrivilegeMissing(f"{options.user} at {where} lacks a privilege for {what}: {text}")
    if code in LOST:
        return ConnectionLost(f"the server at {where} ended the connection during {what}: {text}")
    return StatementFailed(f"the server at {where} refused {what}: {text} ({code})", code)
