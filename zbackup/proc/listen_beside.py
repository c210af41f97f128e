"""A port in the network of a server that has one of its own: only that server can reach it.

A thread can be in another network than its process (setns(2)), and a socket stays where it was made.
A server that is not yet in a network of its own would have it made in the host's, where anybody reaches it.
"""

import socket
import threading

from zbackup.model.errors import CommandFailed
from zbackup.proc.detached import Process
from zbackup.proc.network_namespace import in_host_network, join_network

LOOPBACK = "127.0.0.1"


def listen_beside(process: Process) -> socket.socket:
    """Listen on a loopback port there. Raise CommandFailed when the process has ended, when it is in the
    host's network, or when nobody lets us.
    """
    made: list[socket.socket] = []
    failures: list[str] = []

    def work() -> None:
        try:
            join_network(process.pid)
            if in_host_network():
                failures.append("it is in the host's network")
                return
            listening = socket.socket()
            made.append(listening)
            listening.bind((LOOPBACK, 0))
            listening.listen()
        except OSError as failure:
            failures.append(failure.strerror or repr(failure))

    # A thread of its own: this one stays where it is.
    worker = threading.Thread(target=work, name="listen-beside")
    worker.start()
    worker.join()
    # Looked at last: had it ended before, the number could have been another's by then.
    if failures or not process.alive:
        for listening in made:
            listening.close()
        why = failures[0] if failures else "it has ended"
        raise CommandFailed(("setns", str(process.pid)), -1, f"cannot be where the server is: {why}")
    return made[0]
