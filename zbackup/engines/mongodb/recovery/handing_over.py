"""Start the server of the users on recovered files.

That is a start of its own: a server on a member's files finds the configuration of its set when it starts,
warns of that for as long as it runs, and nothing would expire on it whatever it is told, as its TTL monitor
is not even made (seen of 6.0). Nor can that be deleted before the replay, which treats unfinished indexes in
another way without it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from zbackup.engines.mongodb.clone.clone_server import START_LIMIT_S, CloneServer, Temporary
from zbackup.engines.mongodb.clone.identity import make_replica_set
from zbackup.engines.mongodb.clone.server_options import LOOPBACK
from zbackup.model.cluster import SHARD
from zbackup.model.progress import Progress
from zbackup.model.recovery import Serving


@contextmanager
def handed_over(server: CloneServer, serving: Serving | None, progress: Progress) -> Iterator[Temporary]:
    """A server for our own use while the body runs, and one of its users' afterwards, unless the body fails.

    With None there is none at the end.
    """
    with server.temporary("open") as finished:
        yield finished
        finished.shut_down()
    if serving:
        _serve_first(server, serving, progress)


def _serve_first(server: CloneServer, serving: Serving, progress: Progress) -> None:
    """Start it for its users; a new replica set is made by its member itself, once it runs."""
    if not serving.replica_set:
        server.serve(serving).close()
        return
    shared = serving.addresses.key if serving.addresses else ""
    if serving.host and serving.role == SHARD and serving.addresses:
        where = serving.addresses.connection(serving.addresses.config)
        progress.phase("starting the shard", f"which waits until the config server answers at {where}")
        # Its host may take hours longer than this one.
        server = replace(server, stall=START_LIMIT_S)
    login = server.by_key(shared) if server.asks_for_login else server.by_socket
    server.serve(serving).close()
    make_replica_set(login, serving.replica_set, f"{serving.host or LOOPBACK}:{serving.port}")
