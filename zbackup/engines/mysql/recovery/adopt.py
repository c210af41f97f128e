"""A clone's files become a server of its own: nobody's replica, with its own accounts, masked if wanted.

Without masking that takes one start, which is what a dev clone costs: what must have happened before anybody
comes in is in the init file. Masking takes a start of its own, on a socket that nobody else can reach.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from zbackup.engines.mysql.clone.accounts import at_last, replacement, require_replaced
from zbackup.engines.mysql.clone.clone_server import CloneServer, Temporary
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.recovery import replay_mariadb, replay_mysql
from zbackup.engines.mysql.recovery.covered_log import covered_files, end_of, is_readable
from zbackup.engines.mysql.recovery.verify_replay import require_recorded_state
from zbackup.engines.mysql.server.connection import Connection, connect
from zbackup.engines.mysql.server.status import Dialect
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.cloning import Adoption, Prepare, PrivateServer, SourceServer
from zbackup.model.errors import DatabaseError
from zbackup.model.log import LogPosition
from zbackup.model.progress import Progress

CONNECTED_WITHIN_S = 60.0
POLL_S = 0.2


def follow(temporary: Temporary, source: SourceServer) -> None:
    """Start replication from the end of the clone's own copy of production's log, and wait until it flows.

    Raise DatabaseError with what the server says when it does not within a minute.
    """
    files, flavor = temporary.server.files, temporary.server.flavor
    # Those behind the newest of production's the clone has begun itself.
    last = LogPosition.parse(files.record.log_to).sequence
    covered = covered_files(files.record, files.where)
    known = [file for file in covered if LogPosition.of(file.name, 0).sequence <= last]
    start = end_of(files.record, files.where, known)
    for statement in statements(flavor, files.record.server, source, start):
        temporary.connection.execute(statement)
    _await_connection(temporary.connection, flavor)


def statements(
    flavor: str, recorded: Mapping[str, str], source: SourceServer, start: LogPosition
) -> list[str]:
    """What makes a server follow the source from there: by GTIDs where MySQL has them, else by
    position."""
    who = (literal(source.host), source.port, literal(source.user), literal(source.password()))
    if flavor == "mariadb":
        return [
            f"CHANGE MASTER TO MASTER_HOST = {who[0]}, MASTER_PORT = {who[1]}, MASTER_USER = {who[2]}, "
            f"MASTER_PASSWORD = {who[3]}, MASTER_LOG_FILE = {literal(start.file)}, "
            f"MASTER_LOG_POS = {start.offset}, MASTER_USE_GTID = no",
            "START SLAVE",
        ]
    where = f"SOURCE_LOG_FILE = {literal(start.file)}, SOURCE_LOG_POS = {start.offset}"
    if recorded.get("gtid_mode") == "ON":
        where = "SOURCE_AUTO_POSITION = 1"
    return [
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = {who[0]}, SOURCE_PORT = {who[1]}, "
        f"SOURCE_USER = {who[2]}, SOURCE_PASSWORD = {who[3]}, GET_SOURCE_PUBLIC_KEY = 1, {where}",
        "START REPLICA",
    ]


def _await_connection(connection: Connection, flavor: str) -> None:
    new = "Replica" if flavor == "mysql" else "Slave"
    statement = "SHOW REPLICA STATUS" if flavor == "mysql" else "SHOW SLAVE STATUS"
    deadline = time.monotonic() + CONNECTED_WITHIN_S
    while True:
        row: dict[str, Any] = connection.one(statement)
        said = str(row.get("Last_IO_Error") or row.get("Last_SQL_Error") or "")
        if row.get(f"{new}_IO_Running") == "Yes" and row.get(f"{new}_SQL_Running") == "Yes":
            return
        if said or time.monotonic() > deadline:
            raise DatabaseError(f"the clone cannot replicate production: {said or 'no connection in time'}")
        time.sleep(POLL_S)


def adopt(server: CloneServer, adoption: Adoption, progress: Progress) -> None:
    server.make_room()
    server.forget_identity()
    server.name_log_files()
    files = server.files
    newest = covered_files(files.record, files.where)[-1] if is_readable(files.record) else None
    before = replacement(server.flavor, adoption.login) if adoption.login else ""
    after = at_last(server.flavor, adoption.login) if adoption.login else ()
    if adoption.prepare is None:
        progress.phase("starting the server")
        # At the first start there is what production replicated from, and nobody must go on with that.
        first = replace(adoption.serving, follows=False)
        opened = server.opened(first, before, after, calls_out=adoption.serving.follows)
        with opened as temporary, temporary.progressing():
            _make_its_own(temporary, adoption, newest)
            if adoption.source:
                follow(temporary, adoption.source)
        return
    progress.phase("masking", "on a socket that nobody else can reach")
    with server.temporary(before, recovers=True) as temporary:
        with temporary.progressing():
            _make_its_own(temporary, adoption, newest)
        _prepare(temporary, adoption.prepare)
        temporary.hand_over(after)
    progress.phase("starting the server")
    server.serve(adoption.serving)


def _make_its_own(temporary: Temporary, adoption: Adoption, newest: Path | None) -> None:
    connection, flavor = temporary.connection, temporary.server.flavor
    if not adoption.recovered:
        require_recorded_state(connection, temporary.server.files.record, newest)
    forget_replication(flavor, connection)
    if adoption.login:
        require_replaced(connection, flavor, adoption.login)


def forget_replication(flavor: str, connection: Connection) -> None:
    """Remove what came with the files of whom to replicate, and the password for it."""
    (replay_mysql if flavor == "mysql" else replay_mariadb).forget_replication(connection)


def _prepare(temporary: Temporary, prepare: Prepare) -> None:
    """Mask a clone, and delete its log, if there is one: what the masking changes is in it as it was
    before."""
    account, socket = temporary.account, str(temporary.server.own.socket)
    facts = {"ZBACKUP_SOCKET": socket, "ZBACKUP_USER": account.user, "ZBACKUP_PASSWORD": account.password}
    options = ConnectOptions(socket=socket, user=account.user, password=lambda: account.password)
    with connect(options, scripts=True) as scripts:

        def execute(script: str) -> None:
            # A program that masks has a limit of its own, and may leave the server alone for long.
            with temporary.progressing():
                scripts.script(script)

        prepare(PrivateServer(facts=facts, execute=execute))
    if not temporary.server.files.record.server.get("log_bin_basename"):
        return
    new_words = Dialect.of(temporary.connection.version).is_mysql(8, 2)
    with temporary.progressing():
        temporary.connection.execute("RESET BINARY LOGS AND GTIDS" if new_words else "RESET MASTER")
