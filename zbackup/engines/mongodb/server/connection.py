"""Connections to a mongod. The only importer of PyMongo; every failure is one clear line."""

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC
from types import TracebackType
from typing import Any, cast
from urllib.parse import quote

import pymongo
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo.client_session import ClientSession
from pymongo.errors import (
    AutoReconnect,
    ConfigurationError,
    InvalidURI,
    NetworkTimeout,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)
from pymongo.read_concern import ReadConcern
from pymongo.uri_parser import parse_uri
from pymongo.write_concern import WriteConcern

from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.privileges import advice
from zbackup.engines.mongodb.server.transacted import RAW, REPLIES, Reply, Transacted
from zbackup.model.errors import DatabaseError

Document = dict[str, Any]


def address(options: ConnectOptions) -> str:
    """Return the URI of the server."""
    if options.uri:
        return options.uri()
    host = quote(options.socket, safe="") if options.socket else f"{_bracketed(options.host)}:{options.port}"
    return f"mongodb://{host}/"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def login(options: ConnectOptions) -> Document:
    """Return the options of PyMongo that log in."""
    if options.mechanism == "MONGODB-X509":
        return {"authMechanism": options.mechanism, "authSource": "$external"}
    if options.uri or options.password is None:
        return {}
    named = {"authMechanism": options.mechanism} if options.mechanism else {}
    return {
        "username": options.user,
        "password": options.password(),
        "authSource": options.auth_source,
        **named,
    }


def tls(options: ConnectOptions) -> Document:
    """Return the options of PyMongo for TLS."""
    wanted = options.tls
    if wanted is None or options.socket:
        return {}
    files = {"tlsCAFile": wanted.ca, "tlsCertificateKeyFile": wanted.cert}
    lax = {} if wanted.verify else {"tlsAllowInvalidCertificates": True}
    return {"tls": True, **{key: str(path) for key, path in files.items() if path}, **lax}


CONNECT_LIMIT_S = 5
INSERT_LIMIT_S = 600
ANSWER_LIMIT_S = 30
CHANGES_LIMIT_MS = 5000
POLL_S = 0.2

COMMITTED, AT_ONE_TIME = ReadConcern("majority"), ReadConcern("snapshot")
TO_MAJORITY = WriteConcern("majority", wtimeout=60_000)
# A batch ends at 16 MiB before it has as many documents as that.
RAW_BATCH = 1_000_000

# MongoDB's error codes (src/mongo/base/error_codes.yml in its sources).
USER_NOT_FOUND, UNAUTHORIZED, AUTHENTICATION_FAILED, MAX_TIME_EXPIRED = 11, 13, 18, 50


FAILURES = (PyMongoError, BSONError)
"""Errors of PyMongo; the second are a document that is too large, and an answer that cannot be read."""


class LoginRefused(DatabaseError):
    """The server is up, but does not know this user with this password or certificate."""


class PrivilegeMissing(DatabaseError):
    """The account lacks a privilege, which the message names, with the command that grants it."""


class ConnectionLost(DatabaseError):
    """The server ended the connection or stopped answering. Locks of the server go on without it."""


class NotAnswered(ConnectionLost):
    """The server did not answer in time: it is there, and may yet do what it was told."""


class CommandRefused(DatabaseError):
    """The server refused a command. `code` is its error number."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One server, reached directly, over one connection that is logged in from the start.

    Raises the errors above. Nothing is sent to any other member of a replica set.
    """

    def __init__(self, client: "pymongo.MongoClient[Document]", options: ConnectOptions, where: str) -> None:
        self._client, self._options, self.where = client, options, where
        self._lasting: list[ClientSession] = []

    def command(self, command: Mapping[str, Any], *, limit_s: float = ANSWER_LIMIT_S) -> Document:
        """Run a command of the admin database. `limit_s` is how long its answer is waited for.

        An answer that does not come is NotAnswered, and says nothing of what the server does.
        """
        return self.run("admin", command, limit_s=limit_s)

    def run(self, database: str, command: Mapping[str, Any], *, limit_s: float = ANSWER_LIMIT_S) -> Document:
        """The same for a command of any database."""
        try:
            with pymongo.timeout(limit_s):
                return self._client[database].command(dict(command), codec_options=REPLIES)
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, next(iter(command))) from None

    def await_server(self, limit_s: float) -> None:
        """Return when the server is known to be there, or after `limit_s` seconds when that is not certain.

        Raise ConnectionLost when it has ended: nobody listens at its address any more. One that is slow, or
        whose host does not answer, may live.
        """
        deadline = time.monotonic() + limit_s
        while not self._client.topology_description.has_known_servers and time.monotonic() < deadline:
            if any(map(is_deserted, self._client.topology_description.server_descriptions())):
                raise ConnectionLost(f"the server at {self.where} has ended: nobody listens there")
            time.sleep(POLL_S)

    def find(
        self,
        collection: tuple[str, str],
        wanted: Mapping[str, Any],
        *,
        fields: Sequence[str] = (),
        backwards: bool = False,
        most: int = 1,
        limit_s: float | None = ANSWER_LIMIT_S,
    ) -> list[Document]:
        """Up to `most` documents of (database, collection) in natural order, or in its reverse."""
        database, name = collection
        try:
            with pymongo.timeout(limit_s):
                found = self._client[database][name].find(
                    dict(wanted), {field: 1 for field in fields} or None, limit=most
                )
                return list(found.sort("$natural", -1 if backwards else 1))
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, f"reading {database}.{name}") from None

    def in_order(
        self, collection: tuple[str, str], wanted: Mapping[str, Any], fields: Sequence[str]
    ) -> Iterator[Document]:
        """All documents of (database, collection) in natural order, with these fields alone."""
        database, name = collection
        try:
            found = self._client[database][name].find(dict(wanted), {field: 1 for field in fields})
            yield from found.hint([("$natural", 1)])
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, f"reading {database}.{name}") from None

    def raw_batches(self, collection: tuple[str, str], wanted: Mapping[str, Any]) -> Iterator[bytes]:
        """Documents of (database, collection) in natural order: BSON, many at a time, one behind another."""
        database, name = collection
        try:
            cursor = self._client[database][name].find_raw_batches(dict(wanted), batch_size=RAW_BATCH)
            yield from cursor.hint([("$natural", 1)])
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, f"reading {database}.{name}") from None

    def committed_batches(
        self, collection: tuple[str, str], wanted: Mapping[str, Any], most: int
    ) -> tuple[list[bytes], bool]:
        """The same of what a majority has, up to `most` bytes; and whether there may be more."""
        found: list[bytes] = []
        try:
            with pymongo.timeout(ANSWER_LIMIT_S):
                source = self._client[collection[0]].get_collection(collection[1], read_concern=COMMITTED)
                for batch in source.find_raw_batches(
                    dict(wanted), batch_size=RAW_BATCH, hint=[("$natural", 1)]
                ):
                    found.append(cast(bytes, batch))
                    if sum(map(len, found)) >= most:
                        return found, True
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, f"reading {'.'.join(collection)}") from None
        return found, False

    def documents(
        self,
        collection: tuple[str, str],
        wanted: Mapping[str, Any],
        *,
        ordered: bool = False,
        start: object = None,
        only_id: bool = False,
        lasting: bool = False,
    ) -> Iterator[RawBSONDocument]:
        """Documents of (database, collection) as they are stored, one after the other.

        `ordered`: by their _id, and from `start`, a document that has one, on. `lasting`: the next may be
        asked for much later, if keep_cursors is called meanwhile.
        """
        database, name = collection
        session = self._client.start_session() if lasting else None
        if session:
            self._lasting.append(session)
        try:
            found = self._client[database].get_collection(name, codec_options=RAW)
            cursor = found.find(dict(wanted), {"_id": 1} if only_id else None, session=session)
            if ordered:
                cursor = cursor.sort("_id", 1)
            if start is not None:
                # A comparison would leave out values of other types, which this does not.
                cursor = cursor.min([("_id", cast(Any, start))]).hint([("_id", 1)])
            yield from cursor
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, f"reading {database}.{name}") from None
        finally:
            if session:
                self._lasting.remove(session)
                session.end_session()

    def keep_cursors(self) -> None:
        """Keep those that are to last for another half an hour.

        A cursor ends with its session, which ends when it is not used for that long (MongoDB manual,
        "cursor.noCursorTimeout()", "refreshSessions").
        """
        if self._lasting:
            self.command({"refreshSessions": [dict(session.session_id) for session in self._lasting]})

    def changes(self, collection: tuple[str, str], at: Timestamp) -> Iterator[RawBSONDocument]:
        """Change events from a cluster time on that there are now, each with the document before and after.

        Raise CommandRefused where the server does not have all of these images.
        """
        database, name = collection
        images = {"fullDocumentBeforeChange": "required", "fullDocument": "required"}
        stages = [{"$changeStream": {"startAtOperationTime": at, **images}}]
        try:
            found = self._client[database].get_collection(name, codec_options=RAW)
            with found.aggregate(stages, maxAwaitTimeMS=CHANGES_LIMIT_MS) as cursor:
                while (there := cursor.try_next()) is not None:
                    yield cast(RawBSONDocument, there)
        except FAILURES as failure:
            doing = f"reading changes of {database}.{name}"
            raise _named(failure, self._options, self.where, doing) from None

    @contextmanager
    def transaction(self) -> Iterator[Transacted]:
        """A transaction, committed to a majority of the members at the end of the body, unless that raises.

        Raise CommandRefused.
        """
        try:
            with self._client.start_session() as session, session.start_transaction(AT_ONE_TIME, TO_MAJORITY):
                yield Transacted(self._client, session)
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, "a transaction") from None

    def last_id(self, collection: tuple[str, str]) -> RawBSONDocument | None:
        """The document, its _id alone, that comes last in that order."""
        database, name = collection
        try:
            found = self._client[database].get_collection(name, codec_options=RAW)
            return cast("RawBSONDocument | None", found.find_one({}, {"_id": 1}, sort=[("_id", -1)]))
        except FAILURES as failure:
            raise _named(failure, self._options, self.where, f"reading {database}.{name}") from None

    def insert_raw(self, collection: tuple[str, str], documents: Sequence[bytes]) -> None:
        """Insert BSON documents in their order, 16 MiB together at most.

        Raise DatabaseError when one is refused, without its content.
        """
        database, name = collection
        wrapped = [RawBSONDocument(document) for document in documents]
        said = self.run(database, {"insert": name, "documents": wrapped}, limit_s=INSERT_LIMIT_S)
        if said["n"] != len(wrapped):
            refused = said["writeErrors"][0]
            reason = str(refused.get("errmsg", ""))[:200]
            raise CommandRefused(
                f"the server at {self.where} refused to insert into {database}.{name}: {reason}",
                int(refused.get("code", 0)),
            )

    def close(self) -> None:
        """End the connection. Lost already is fine."""
        self._client.close()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(options: ConnectOptions) -> Connection:
    """Connect and log in. Raise LoginRefused, or DatabaseError when the server cannot be reached."""
    where = options.where
    try:
        where = _where(options)
        client: pymongo.MongoClient[Document] = pymongo.MongoClient(
            address(options),
            **login(options),
            **tls(options),
            directConnection=True,
            appname="zbackup",
            # One connection, so that what is logged in before a lock is what releases it.
            maxPoolSize=1,
            retryReads=False,
            retryWrites=False,
            serverSelectionTimeoutMS=CONNECT_LIMIT_S * 1000,
            connectTimeoutMS=CONNECT_LIMIT_S * 1000,
            tz_aware=True,
            tzinfo=UTC,
            document_class=Reply,
            unicode_decode_error_handler=REPLIES.unicode_decode_error_handler,
        )
    except (PyMongoError, ValueError, OSError) as failure:
        raise DatabaseError(f"cannot connect to {where}: {_harmless(failure)}") from None
    connection = Connection(client, options, where)
    try:
        connection.command({"ping": 1}, limit_s=CONNECT_LIMIT_S)
    except DatabaseError:
        connection.close()
        raise
    return connection


def is_deserted(address: tuple[str, int | None]) -> bool:
    """Whether the kernel says that nobody listens there, at a socket where the port is None. No answer,
    or a file that is gone, is no proof."""
    host, port = address
    try:
        if port is not None:
            socket.create_connection((host, port), CONNECT_LIMIT_S).close()
            return False
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(CONNECT_LIMIT_S)
            probe.connect(host)
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return False


def _where(options: ConnectOptions) -> str:
    """The address for messages: of a URI its host only, for it may hold a password."""
    if not options.uri:
        return options.where
    uri = options.uri()
    if uri.startswith("mongodb+srv://"):
        raise ConfigurationError("name the one mongod of this machine, not a whole cluster (mongodb+srv)")
    nodes = parse_uri(uri, validate=False, warn=False)["nodelist"]
    if len(nodes) != 1:
        raise ConfigurationError(f"the uri names {len(nodes)} servers; name the one on this machine")
    host, port = nodes[0]
    return f"{host}:{port}" if port else f"socket {host}"


def _named(
    failure: PyMongoError | BSONError, options: ConnectOptions, where: str, doing: str
) -> DatabaseError:
    """The server's error under our name. Its text names users and privileges, but never passwords."""
    if isinstance(failure, BSONError):
        return DatabaseError(f"{doing} at {where} failed: {failure}")
    if isinstance(failure, OperationFailure):
        return _refused(failure, options, where, doing)
    if isinstance(failure, ServerSelectionTimeoutError):
        return _unreachable(failure, where)
    if isinstance(failure, NetworkTimeout) or failure.timeout:
        return NotAnswered(f"the server at {where} did not answer {doing} in time")
    if isinstance(failure, AutoReconnect):
        why = str(failure).partition(", full error")[0]
        return ConnectionLost(f"the server at {where} ended the connection during {doing}: {why}")
    return DatabaseError(f"{doing} at {where} failed: {_harmless(failure)}")


def _refused(failure: OperationFailure, options: ConnectOptions, where: str, doing: str) -> DatabaseError:
    said = str((failure.details or {}).get("errmsg") or failure).rstrip(".")
    user = options.user if options.password else "the account"
    if failure.code in (AUTHENTICATION_FAILED, USER_NOT_FOUND):
        known = "the certificate's subject" if options.mechanism == "MONGODB-X509" else user
        return LoginRefused(
            f"{where} refused the login of {known}: {said}; check user, password and auth_source"
        )
    if failure.code == UNAUTHORIZED:
        if "requires authentication" in said:
            return LoginRefused(f"{where} wants a login ({said}): set user and password")
        return PrivilegeMissing(f"{user} at {where} lacks a privilege for {doing}{advice(doing)}")
    if failure.code == MAX_TIME_EXPIRED:
        return NotAnswered(f"the server at {where} did not answer {doing} in time")
    return CommandRefused(
        f"the server at {where} refused {doing}: {said} ({failure.code})", failure.code or 0
    )


def _unreachable(failure: ServerSelectionTimeoutError, where: str) -> DatabaseError:
    # Behind the reason come the topology and settings, which help nobody who reads one line.
    reason = str(failure).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
    if "SSL" in reason or "certificate" in reason:
        return DatabaseError(f"no TLS with {where}: {reason}; check the instance's tls settings")
    if "Got response id" in reason:
        return DatabaseError(f"what answers at {where} is no MongoDB; check engine, socket, host and port")
    if "reset by peer" in reason or "connection closed" in reason:
        # It says why in its own log alone. A socket is no way around that.
        hint = "does it require TLS (then name host, port and tls, and no socket), or refuse this host?"
        return DatabaseError(f"the server at {where} is there and closes connections: {reason}; {hint}")
    return DatabaseError(f"cannot reach the server at {where}: {reason}; is it running?")


def _harmless(failure: Exception) -> str:
    """PyMongo quotes parts of a URI that it cannot read, and the password may be in them."""
    return "the address cannot be read" if isinstance(failure, InvalidURI | ValueError) else str(failure)
