"""A port that is kept for a server: nobody gets it but by asking for it."""

import socket
import struct

import pytest

from zbackup.jobs.clones.claim import require_nobody_listens, reserved_ports
from zbackup.model.errors import Taken

IP_LOCAL_PORT_RANGE = 51
"""Which ports a connection may get, the first and last in one number (ip(7), Linux 6.3)."""


def bound(port: int = 0) -> socket.socket:
    """A socket that has the port, or any, and leaves room for others that ask for it."""
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    own.bind(("127.0.0.1", port))
    return own


def connected_from(port: int, to: socket.socket) -> bool:
    """Connect to a listener without choosing a port, where the kernel has only this one to give."""
    with socket.socket() as client:
        client.setsockopt(socket.IPPROTO_IP, IP_LOCAL_PORT_RANGE, struct.pack("I", port << 16 | port))
        try:
            client.connect(to.getsockname())
        except OSError:
            return False
        return int(client.getsockname()[1]) == port


def test_a_server_can_listen_on_a_held_port() -> None:
    with bound() as first:
        port = int(first.getsockname()[1])
        with reserved_ports(port, 0), bound(port) as server:
            server.listen()
            socket.create_connection(("127.0.0.1", port)).close()


def test_no_connection_is_given_a_held_port() -> None:
    with bound() as listener, bound() as first:
        listener.listen()
        port = int(first.getsockname()[1])
        with reserved_ports(port):
            first.close()
            try:
                assert not connected_from(port, listener)
            except OSError:
                pytest.skip("this kernel cannot be told which ports to give")
            require_nobody_listens(port)


def test_a_member_of_a_cluster_has_its_port_on_two_addresses() -> None:
    with (
        bound() as first,
        reserved_ports(port := int(first.getsockname()[1]), host="127.0.0.9"),
        socket.socket() as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(("127.0.0.9", port))
    with socket.socket() as other:
        other.bind(("127.0.0.9", port))
        with (
            pytest.raises(Taken, match=f"port {port} cannot be used"),
            reserved_ports(port, host="127.0.0.9"),
        ):
            pass


def test_a_port_that_a_connection_has_is_refused() -> None:
    with bound() as listener, socket.socket() as client:
        listener.listen()
        client.connect(listener.getsockname())
        port = client.getsockname()[1]
        with pytest.raises(Taken, match=f"port {port} cannot be used: .*ss -tanp"), reserved_ports(port):
            pass
