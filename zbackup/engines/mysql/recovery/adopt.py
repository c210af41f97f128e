"""A clone's files become a server of its own: nobody's replica, with its own accounts, masked if wanted.

Without masking that takes one start, which is what a dev clone costs: what must have happened before anybody
comes in is in the init file. Masking takes a start of its own, on a socket that nobody else can reach.
"""

from dataclasses import replace
from pathlib import Path

from zbackup.engines.mysql.clone.accounts import at_last, replacement, require_replaced
from zbackup.engines.mysql.clone.clone_server import CloneServer, Temporary
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.recovery import replay_mariadb, replay_mysql
from zbackup.engines.mysql.recovery.covered_log import covered_files, is_readable
from zbackup.engines.mysql.recovery.replicate import follow
from zbackup.engines.mysql.recovery.verify_replay import require_recorded_state
from zbackup.engines.mysql.server.connection import Connection, connect
from zbackup.engines.mysql.server.status import Dialect
from zbackup.model.cloning import Adoption, Prepare, PrivateServer
from zbackup.model.progress import Progress


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
