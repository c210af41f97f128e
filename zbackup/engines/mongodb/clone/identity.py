"""Tell who a recovered server is: nobody of the original's replica set."""

import hashlib
import time

from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.server.connection import Connection, connect
from zbackup.model.errors import DatabaseError, VerificationFailed

# A member of the old set would be known by these (MongoDB manual, "Replica Set Data in the local Database").
SET_COLLECTIONS = ("system.replset", "oplog.rs", "replset.election", "replset.minvalid")

PRIMARY_WITHIN_S = 120.0
POLL_S = 0.1

# The user that members of a set are to each other; its password is the key (MongoDB manual, "Keyfiles").
INTERNAL_USER = "__system"


def forget_replica_set(connection: Connection) -> None:
    """Drop what made the server a member of its set: the whole database local, which holds nothing else.

    That is how the manual has it too ("Restore a Self-Managed Replica Set from MongoDB Backups").
    """
    _forget_open_transactions(connection)
    _forget_own_sessions(connection)
    connection.run("local", {"dropDatabase": 1})
    for name in SET_COLLECTIONS:
        if connection.find(("local", name), {}):
            raise VerificationFailed(
                f"local.{name} is still there: the server would know its old replica set"
            )


def _forget_open_transactions(connection: Connection) -> None:
    """Delete the notes on transactions that were open at the target: of none of them there is anything.

    A member that finds one prepared looks for its entry in an oplog that is not there any more, and ends.
    """
    noted = {"q": {"state": {"$in": ["prepared", "inProgress"]}}, "limit": 0}
    connection.run("config", {"delete": "transactions", "deletes": [noted]})


def _forget_own_sessions(connection: Connection) -> None:
    """Delete the notes on what servers did for each other, such as for a migration of a chunk.

    A note says where in the oplog that is. A shard that is asked for it again, as a migration was not over at
    the target, would look there, in an oplog that is not there any more, and refuse for ever
    (IncompleteTransactionHistory). Without a note it does it again, as such requests are meant to be taken.
    Clients' notes stay: better refused than done twice.
    """
    uid = hashlib.sha256(f"{INTERNAL_USER}@local".encode()).digest()
    connection.run("config", {"delete": "transactions", "deletes": [{"q": {"_id.uid": uid}, "limit": 0}]})


def make_replica_set(server: ConnectOptions, name: str, address: str) -> None:
    """Make a set of this one member, known as HOST:PORT, and wait until it takes writes.

    Raise DatabaseError when it does not within two minutes.
    """
    with connect(server) as connection:
        members = [{"_id": 0, "host": address}]
        connection.command({"replSetInitiate": {"_id": name, "members": members}})
        deadline = time.monotonic() + PRIMARY_WITHIN_S
        while not connection.command({"hello": 1}).get("isWritablePrimary"):
            if time.monotonic() > deadline:
                raise DatabaseError(f"the new replica set {name} has no primary after {PRIMARY_WITHIN_S:g} s")
            time.sleep(POLL_S)


def as_internal_user(socket: str, key: str) -> ConnectOptions:
    """The one login that a server with a key has before anybody made another, or forgot theirs."""
    return ConnectOptions(socket=socket, user=INTERNAL_USER, password=lambda: key, auth_source="local")
