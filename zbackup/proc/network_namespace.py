"""Network namespaces of servers: one of their own with a loopback interface alone, or that of another."""

import ctypes
import fcntl
import os
import struct
from pathlib import Path

_C = ctypes.CDLL(None, use_errno=True)

_CLONE_NEWNET = 0x40000000
_INTERNET, _DATAGRAM = 2, 2  # of socket(2): reading Python's module takes longer than all else here
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # netdevice(7)
_REQUEST = "16sH14s"


def leave_network() -> None:
    """Be in a network in which there is nobody else; Unix sockets are reached as before. Raise OSError."""
    _require(_C.unshare(ctypes.c_int(_CLONE_NEWNET)))
    any_socket = _C.socket(ctypes.c_int(_INTERNET), ctypes.c_int(_DATAGRAM), ctypes.c_int(0))
    _require(min(any_socket, 0))
    try:
        asked = fcntl.ioctl(any_socket, _GET_FLAGS, struct.pack(_REQUEST, b"lo", 0, b""))
        flags = struct.unpack(_REQUEST, asked)[1]
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack(_REQUEST, b"lo", flags | _UP, b""))
    finally:
        os.close(any_socket)


def join_network(pid: int) -> None:
    """Be in the network of the process with this number. Raise OSError."""
    descriptor = os.open(Path("/proc", str(pid), "ns/net"), os.O_RDONLY | os.O_CLOEXEC)
    try:
        _require(_C.setns(ctypes.c_int(descriptor), ctypes.c_int(_CLONE_NEWNET)))
    finally:
        os.close(descriptor)


def in_host_network() -> bool:
    """Whether this thread is in the network of our process's first thread, which is the host's."""
    return Path("/proc/thread-self/ns/net").samefile("/proc/self/ns/net")


def _require(done: int) -> None:
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
