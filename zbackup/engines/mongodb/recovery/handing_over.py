"""From recovered files to the server of their users: in one start where nothing keeps it from that."""

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
    """A server for our own use while the body runs, and its users' afterwards; gone if the body fails.

    It goes on as theirs where it can be kept from them until then, else it is stopped and started. With
    None it is gone at the end.
    """
    if serving and server.can_stay(serving):
        with server.staying(serving) as staying:
            yield staying
        return
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
