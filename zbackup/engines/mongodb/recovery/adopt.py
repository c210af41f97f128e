"""A clone's files become a mongod of its own: no member of a set, with its own accounts, masked if wanted."""

from zbackup.engines.mongodb.clone.accounts import replace_accounts
from zbackup.engines.mongodb.clone.clone_server import CloneServer
from zbackup.engines.mongodb.clone.identity import forget_replica_set
from zbackup.engines.mongodb.recovery.as_it_is import replay_own
from zbackup.engines.mongodb.recovery.unfinished_indexes import drop_unfinished_indexes
from zbackup.model.cloning import Adoption, PrivateServer
from zbackup.model.errors import Refused
from zbackup.model.progress import Progress


def adopt(server: CloneServer, adoption: Adoption, progress: Progress) -> None:
    """See engines.base.Recovery.

    A member's collections are on disk as of its last checkpoint, and newer only in its oplog. A plain start
    would leave it at that; so it replays its own oplog first, up to where that has no holes, as it would
    after a crash. Raise VerificationFailed where it did not.
    """
    server.make_room()
    if "replica_set" in server.files.record.server and not adoption.recovered:
        progress.phase("recovering", f"the end of {server.files.record.called}")
        replay_own(server)
    progress.phase("preparing the server")
    with server.temporary("open") as opened:
        connection = opened.connection
        if not adoption.recovered:
            with opened.progressing():
                for index in drop_unfinished_indexes(connection):
                    progress.note(f"the index {index} was still being built: it is not there")
                forget_replica_set(connection)
        if adoption.prepare:
            progress.phase("masking", "on a socket that nobody else can reach")
            login = opened.login
            facts = {
                "ZBACKUP_SOCKET": login.socket,
                "ZBACKUP_USER": login.user,
                "ZBACKUP_PASSWORD": login.password() if login.password else "",
            }
            adoption.prepare(PrivateServer(facts=facts, execute=_no_sql))
        if adoption.login:
            with opened.progressing():
                replace_accounts(connection, adoption.login)
        opened.shut_down()
    progress.phase("starting the server")
    server.serve(adoption.serving).close()


def _no_sql(_: str) -> None:
    raise Refused("mongodb knows no SQL: mask with a program")
