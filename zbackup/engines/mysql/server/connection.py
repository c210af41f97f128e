"""Connections to a server. The only importer of PyMySQL; every failure is one clear line."""

import codecs
import math
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, Self, cast

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR, ER
from pymysql.cursors import Cursor, DictCursor, SSCursor
from pymysql.protocol import OKPacketWrapper

from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.privileges import grant, hint
from zbackup.model.errors import DatabaseError
from zbackup.proc.listening import peer


def tls_arguments(options: ConnectOptions) -> dict[str, Any]:
    """PyMySQL's own leave the server's name unchecked when no CA file is given.

    Raise DatabaseError when a file cannot be used.
    """
    if options.socket:
        return {"ssl_disabled": True}
    if (tls := options.tls) is None:
        return {}
    try:
        context = ssl.create_default_context(cafile=tls.ca)
        if tls.cert:
            context.load_cert_chain(tls.cert, tls.key)
    except OSError as failure:
        raise DatabaseError(f"cannot set up TLS to {options.where}: {failure}") from None
    # The certificates that servers make for themselves lack what strict checking asks for.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return {"ssl": context}


def opened_socket(path: str, expected: tuple[int, int], limit_s: float) -> socket.socket:
    """Connect to a socket at which this process (pid, uid) listens, and no other.

    Raise DatabaseError when another answers, or nobody.
    """
    found = socket.socket(socket.AF_UNIX)
    try:
        found.settimeout(limit_s)
        found.connect(path)
        pid, uid = peer(found)
    except OSError as failure:
        found.close()
        raise DatabaseError(f"cannot reach the server at socket {path}: {failure}; is it running?") from None
    if (pid, uid) != expected:
        found.close()
        raise DatabaseError(
            f"socket {path} is answered by process {pid} of user id {uid}, and not by the server that was "
            f"found there (process {expected[0]}, user id {expected[1]}): nothing was sent to it"
        )
    return found


# A limit on statements that the server's administrator has set is meant for applications. Either flavour
# takes the other's part for a comment (MySQL reference manual and MariaDB's, "Comments").
OWN_SETTINGS = (
    "SET SESSION lc_messages = 'en_US'"
    " /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"
)
CONNECT_LIMIT_S = 10
LOGIN_LIMIT_S = 30
"""Seconds for each answer until a session is open: one that is stopped takes connections all the same."""
LOADED_AT_ONCE = 64 << 10
WORDS = 4
"""Words of a statement in messages: SHOW BINARY LOG STATUS."""

_DUMP = struct.Struct("<IHI")
_DUMP_TO_END, _DUMP_ANNOTATED = 1, 2
"""Offset, flags and a replica's number: 0 for none (both manuals, "COM_BINLOG_DUMP")."""
MOST_EVENT = (1 << 30) + (1 << 20)
"""Bytes that one event has at most (both manuals, "max_allowed_packet"), with room for what is around it."""

# 1698 is ACCESS_DENIED_NO_PASSWORD_ERROR, which PyMySQL does not name: an account that logs in by its socket.
SECURE_TRANSPORT_REQUIRED = 3159

LOGIN_REFUSED = (ER.ACCESS_DENIED_ERROR, 1698)

PRIVILEGE_MISSING = (
    ER.SPECIFIC_ACCESS_DENIED_ERROR,
    ER.TABLEACCESS_DENIED_ERROR,
    ER.DBACCESS_DENIED_ERROR,
    ER.COLUMNACCESS_DENIED_ERROR,
    ER.PROCACCESS_DENIED_ERROR,
    ER.KILL_DENIED_ERROR,
)
NO_ANSWER = (
    ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError, struct.error
)  # fmt: skip
"""Errors that PyMySQL raises of answers that no server gives; RuntimeError where one asks for a file
unasked."""

TIMED_OUT = "timed out"
LOST = (CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, 0)


class _Refused:
    """An authentication plugin that sends nothing: PyMySQL would follow the server to it."""

    def __init__(self, connection: object) -> None:
        pass

    def authenticate(self, packet: object) -> NoReturn:
        """Raise OperationalError."""
        raise pymysql.OperationalError(
            CR.CR_AUTH_PLUGIN_CANNOT_LOAD,
            "it asks for the password in the clear, which zbackup sends to nobody: give the account "
            "caching_sha2_password, ed25519 or mysql_native_password",
        )


IN_THE_CLEAR: dict[str, Any] = {"mysql_clear_password": _Refused, "dialog": _Refused}
"""Plugins by which a server is told the password itself (MySQL reference manual, "Client-Side Cleartext
Pluggable Authentication"; MariaDB's, "Authentication Plugin - PAM")."""


class LoginRefused(DatabaseError):
    """The server is up, but does not know this user with this password."""


class PrivilegeMissing(DatabaseError):
    """The account lacks a privilege, which the message names, with the statement that grants it."""


class ConnectionLost(DatabaseError):
    """The server ended the connection, and with it every lock that it held."""


class NotAnswered(ConnectionLost):
    """The server did not answer in time, and may still be at it. The session is of no use any more."""


class StatementFailed(DatabaseError):
    """The server refused a statement. `code` is its error number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class NamedRow(dict[str, Any]):
    """A row by column names, or variables by theirs, that a server gave in answer to the statement `asked`.

    Asking it for anything that is not there raises DatabaseError: who answers may be no server, or one that
    answers what it likes.
    """

    def __init__(self, asked: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._asked = " ".join(asked.split()[:3])

    def __missing__(self, name: str) -> NoReturn:
        raise DatabaseError(f'the server\'s answer to {self._asked} has no "{name}"')


def whole_number(row: Mapping[str, Any], name: str) -> int:
    """A whole number of an answer, 0 for NULL. Raise DatabaseError for anything else."""
    value = row[name]
    try:
        return int(value or 0)
    except (TypeError, ValueError):
        raise DatabaseError(f'the server answered with no number for "{name}": {value!r:.60}') from None


def _replacing(name: str) -> codecs.CodecInfo | None:
    """UTF-8 that reads any bytes: what a client sent is shown by a server to others as it came."""
    if name != TEXT:
        return None
    return codecs.CodecInfo(
        codecs.utf_8_encode, lambda data, _="": codecs.utf_8_decode(data, "replace", True), name=TEXT
    )


TEXT: Final = "zbackup_utf8"
"""The encoding of all text that comes from a server, in the only place where it is decoded."""
codecs.register(_replacing)


class Connection:
    """One session in autocommit mode. Raises the errors above."""

    def __init__(self, raw: "pymysql.Connection[DictCursor]", options: ConnectOptions) -> None:
        self._raw = raw
        self._options = options
        self._account = self.version = ""
        # Errors are told apart by their English words where the number does not say which privilege it is.
        self.execute(OWN_SETTINGS)
        who = self.one("SELECT CONNECTION_ID() AS id, CURRENT_USER() AS account, VERSION() AS version")
        self._id, self._account = whole_number(who, "id"), str(who["account"])
        self.version = str(who["version"])
        limited = cast(Any, raw)
        limited._read_timeout = limited._write_timeout = options.limit_s

    @property
    def id(self) -> int:
        """The server's number for this session, as in its process list."""
        return self._id

    @property
    def where(self) -> str:
        """The server's address, for messages."""
        return self._options.where

    def rows(self, statement: str, arguments: Sequence[object] = ()) -> list[NamedRow]:
        """Run one statement and fetch all of its result."""
        with self._asking(statement), self._raw.cursor() as cursor:
            cursor.execute(statement, tuple(arguments) or None)
            return [NamedRow(statement, row) for row in cursor.fetchall()]

    def one(self, statement: str, arguments: Sequence[object] = ()) -> NamedRow:
        """The first row; an empty one when there is none."""
        return next(iter(self.rows(statement, arguments)), NamedRow(statement, {}))

    def lacking(self, privilege: str, purpose: str) -> PrivilegeMissing:
        """The error for a privilege that is missed where the server itself raises none."""
        return PrivilegeMissing(
            f"{self._options.user} at {self.where} may not {purpose}: {grant(privilege, self._account)}"
        )

    @contextmanager
    def _asking(self, statement: str | bytes) -> Iterator[None]:
        """Raise the errors above for PyMySQL's; nobody can use a session whose server gave no answer."""
        doing = statement if isinstance(statement, str) else statement[:60].decode(errors="replace")
        try:
            yield
        except pymysql.MySQLError as failure:
            raise self._named(failure, doing) from None
        except UnicodeEncodeError:
            raise
        except NO_ANSWER as wrong:
            self._raw._force_close()  # type: ignore[attr-defined]
            words = " ".join(doing.split()[:WORDS])
            raise ConnectionLost(f"what {self.where} answered to {words} is no server's: {wrong}") from None

    def _named(self, failure: pymysql.MySQLError, statement: str) -> DatabaseError:
        code, text = _code_and_text(failure)
        if code not in PRIVILEGE_MISSING:
            limit_s = cast(Any, self._raw)._read_timeout
            return _named(failure, self._options, " ".join(statement.split()[:WORDS]), limit_s)
        advice = hint(text, self._account, mariadb="mariadb" in self.version.lower())
        return PrivilegeMissing(
            f"{self._options.user} at {self.where} lacks a privilege: {text.rstrip('.')}"
            + (f": {advice}" if advice else "")
        )

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Wait for each answer in the body for that long at most, then raise NotAnswered."""
        raw = cast(Any, self._raw)
        before = raw._read_timeout
        raw._read_timeout = raw._write_timeout = seconds
        try:
            yield
        finally:
            raw._read_timeout = raw._write_timeout = before

    def abort(self) -> None:
        """End the session from another thread than the one that waits for its answer, and gets an error.

        One that has ended stays so.
        """
        if (sock := cast(Any, self._raw)._sock) is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def execute(self, statement: str, arguments: Sequence[object] = ()) -> None:
        """Run one statement for its effect."""
        self.rows(statement, arguments)

    def script(self, text: str) -> None:
        """Run any number of statements; the server parses them, so that no DELIMITER is needed.

        What they return is thrown away. The error for one that is refused says which it was.
        """
        number = 1
        try:
            with self._raw.cursor() as cursor:
                cursor.execute(text)
                more = True
                while more:
                    number += 1
                    more = bool(cursor.nextset())
        except pymysql.MySQLError as failure:
            raise self._named(failure, f"statement {number}") from None

    def binlog(self, file: str, offset: int, *, annotated: bool) -> Iterator[bytes]:
        """The events of the binary log from there on, as a replica gets them, until there are no more.

        `annotated`: MariaDB's texts of statements, too. The session is closed at the end. Raise DatabaseError
        where an event is larger than any can be.
        """
        raw, flags = cast(Any, self._raw), _DUMP_TO_END | (_DUMP_ANNOTATED if annotated else 0)
        read, left = raw._read_bytes, MOST_EVENT

        def bounded(count: int) -> bytes:
            nonlocal left
            left -= count
            if left < 0:
                raise pymysql.OperationalError(CR.CR_NET_PACKET_TOO_LARGE, "it sends an event without end")
            return cast(bytes, read(count))

        try:
            raw._execute_command(COMMAND.COM_BINLOG_DUMP, _DUMP.pack(offset, flags, 0) + file.encode())
            raw._read_bytes = bounded
            while not (packet := raw._read_packet()).is_eof_packet():
                left = MOST_EVENT
                yield packet.get_all_data()[1:]
        except pymysql.MySQLError as failure:
            raise self._named(failure, "reading its binary log") from None
        finally:
            # What is under way would be fetched first.
            raw._force_close()

    def keep_for(self, seconds: float) -> None:
        """The session may be silent for that long, or a little longer, before the server ends it."""
        self.execute("SET SESSION wait_timeout = %s", (math.ceil(seconds) + 60,))

    def close(self) -> None:
        """End the session. Lost already is fine."""
        with suppress(pymysql.MySQLError):
            self._raw.close()

    def hand_in(self, statement: str) -> None:
        """Give the server a statement and hang up: it finishes that, and nobody hears how it ends."""
        raw: Any = self._raw
        with suppress(pymysql.MySQLError):
            raw._execute_command(COMMAND.COM_QUERY, statement)
        raw._force_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Row = tuple[bytes | None, ...]


class RowConnection(Connection):
    """A session that reads and writes rows as the bytes that are stored, in whatever character set."""

    def __init__(self, raw: "pymysql.Connection[DictCursor]", options: ConnectOptions) -> None:
        super().__init__(raw, options)
        # Nothing is converted on the way: a column's bytes come as they are (both manuals, "Connection
        # Character Sets and Collations").
        self._raw.use_unicode, self._raw.decoders = False, {}
        self.execute("SET SESSION character_set_results = NULL")

    def read(self, statement: bytes) -> list[Row]:
        """Fetch all rows of a query."""
        with self._asking(statement), self._raw.cursor(Cursor) as cursor:
            cursor.execute(cast(str, statement))  # bytes are sent as they are
            return list(cursor.fetchall())

    def stream(self, statement: bytes) -> Iterator[Row]:
        """Fetch rows one after the other; the server keeps the rest. One stream at a time.

        Nobody can use the session any more when the caller does not fetch them all.
        """
        cursor = self._raw.cursor(SSCursor)
        try:
            with self._asking(statement):
                cursor.execute(cast(str, statement))
                yield from cursor
        finally:
            result = self._raw._result  # type: ignore[attr-defined]
            if result is not None and result.unbuffered_active:
                # PyMySQL would fetch the rest when the cursor is closed, however much that is.
                result.unbuffered_active = False
                self.close()

    def read_strictly(self, statement: bytes) -> list[Row] | None:
        """Fetch all rows of a query; None where the server warned of anything."""
        with self._asking(statement), self._raw.cursor(Cursor) as cursor:
            cursor.execute(cast(str, statement))
            return None if cursor.warning_count else list(cursor.fetchall())

    def load(self, statement: bytes, data: bytes) -> tuple[int, int]:
        """Run a LOAD DATA LOCAL with `data` for its file; how many rows it wrote, and of how many things the
        server warned.

        No file is ever opened, whichever the server asks for. The session must be one that `loads`.
        """
        raw = cast(Any, self._raw)
        with self._asking(statement):
            raw._execute_command(COMMAND.COM_QUERY, statement)
            asked = raw._read_packet()
            if not asked.is_load_local_packet():
                raise ValueError("it did not ask for the rows")
            for start in range(0, len(data), LOADED_AT_ONCE):
                raw.write_packet(data[start : start + LOADED_AT_ONCE])
            raw.write_packet(b"")
            done = OKPacketWrapper(raw._read_packet())
            return int(done.affected_rows), int(done.warning_count)

    def write(self, statement: bytes) -> int:
        """Run a statement; how many rows it changed."""
        with self._asking(statement), self._raw.cursor(Cursor) as cursor:
            return int(cursor.execute(cast(str, statement)))


def connect(options: ConnectOptions, *, scripts: bool = False) -> Connection:
    """Open a session; one for `scripts` takes several statements at once.

    Raise LoginRefused, or DatabaseError when the server cannot be reached.
    """
    return Connection(_opened(options, flags=CLIENT.MULTI_STATEMENTS if scripts else 0), options)


def connect_rows(options: ConnectOptions, *, loads: bool = False) -> RowConnection:
    """Open a session for rows, one that `loads` for RowConnection.load as well; raise what `connect` does."""
    return RowConnection(_opened(options, flags=CLIENT.LOCAL_FILES if loads else 0), options)


def _opened(options: ConnectOptions, *, flags: int = 0) -> "pymysql.Connection[DictCursor]":
    address: dict[str, Any] = (
        {"unix_socket": options.socket} if options.socket else {"host": options.host, "port": options.port}
    )
    # PyMySQL would encode text as Latin-1; servers compare bytes, and clients send UTF-8.
    address |= tls_arguments(options) | {"password": options.password().encode()}
    try:
        raw = pymysql.connect(
            **address,
            user=options.user,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_LIMIT_S,
            program_name="zbackup",
            cursorclass=DictCursor,
            client_flag=flags,
            auth_plugin_map=IN_THE_CLEAR,
            read_timeout=LOGIN_LIMIT_S,
            write_timeout=LOGIN_LIMIT_S,
            defer_connect=True,
        )
        if options.socket and options.peer:
            raw._secure = True  # type: ignore[attr-defined]  # as PyMySQL has it of each socket it opens
            raw.connect(opened_socket(options.socket, options.peer, CONNECT_LIMIT_S))
        else:
            raw.connect()
        raw.encoding = TEXT
    except pymysql.MySQLError as failure:
        raise _named(failure, options, "connecting", LOGIN_LIMIT_S) from None
    except NO_ANSWER as wrong:
        raise DatabaseError(f"what answers at {options.where} is no MySQL or MariaDB: {wrong}") from None
    return raw


def _code_and_text(failure: pymysql.MySQLError) -> tuple[int, str]:
    code = int(failure.args[0]) if failure.args and isinstance(failure.args[0], int) else 0
    text = str(failure.args[1]) if len(failure.args) > 1 else str(failure)
    return code, text or "connection lost"


def _tls_wanted(options: ConnectOptions) -> str:
    """A server does not say that a login was refused for want of TLS."""
    if options.socket:
        return (
            ", and whether the account requires TLS (SHOW CREATE USER: REQUIRE SSL), which no socket has: "
            "then set host, port and tls instead of socket, or ALTER USER ... REQUIRE NONE"
        )
    if options.tls is None:
        return ", and whether the account requires TLS (REQUIRE SSL): then set the instance's tls"
    return ""


def _named(
    failure: pymysql.MySQLError, options: ConnectOptions, doing: str, limit_s: float | None = None
) -> DatabaseError:
    """The server's error under our name. Its text names users and privileges, but never passwords."""
    code, text = _code_and_text(failure)
    where = options.where
    if code in LOGIN_REFUSED:
        return LoginRefused(
            f"{where} refused the login of {options.user}: {text}; check user and password"
            f"{_tls_wanted(options)}"
        )
    if code == SECURE_TRANSPORT_REQUIRED:
        return DatabaseError(f"{where} takes no login without TLS: {text}; set the instance's tls")
    if code == CR.CR_SSL_CONNECTION_ERROR or (code == CR.CR_CONN_HOST_ERROR and "[SSL" in text):
        return DatabaseError(f"no TLS with {where}: {text}; check the instance's tls settings")
    if code in (CR.CR_CONNECTION_ERROR, CR.CR_CONN_HOST_ERROR):
        return DatabaseError(f"cannot reach the server at {where}: {text}; is it running?")
    if code in LOST and TIMED_OUT in text and limit_s is not None:
        return NotAnswered(f"the server at {where} did not answer {doing} within {limit_s:.3g} s")
    if code in LOST:
        return ConnectionLost(f"the server at {where} ended the connection during {doing}: {text}")
    return StatementFailed(f"the server at {where} refused {doing}: {text} ({code})", code)
