"""A link between two hosts that can be cut: a TCP relay in the test's own process.

`cut_after(n)` lets n more bytes through in the direction of the receiver and then resets every connection, so
that a transfer breaks at exactly that offset; `mend()` makes it whole again. Its address never changes.
"""

import contextlib
import socket
import struct
import threading

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER with no time: close() sends RST, as a broken line looks to TCP
_CHUNK = 1 << 16


class Link:
    """Relays 127.0.0.1:`port` to `target` (address, port) while used as a context manager."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._allowed: dict[bool, int | None] = {True: None, False: None}
        self._passed = 0
        self._cut = False
        self.connections = 0
        """How many were made so far, refused ones not counted."""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    @property
    def is_cut(self) -> bool:
        """Whether nothing gets through any more."""
        return self._cut

    @property
    def passed(self) -> int:
        """Bytes that went towards the receiver so far."""
        return self._passed

    def cut_after(self, count: int, *, back: bool = False) -> None:
        """Let `count` more bytes (of all connections together) reach the receiver, then cut.

        `back`: count those that come from it instead.
        """
        with self._lock:
            self._allowed[not back] = count

    def cut(self) -> None:
        """Reset every connection and refuse new ones, until `mend`."""
        with self._lock:
            self._cut = True
            broken, self._open = self._open, set()
        for end in broken:
            _reset(end)

    def mend(self) -> None:
        """Whole again, with no cut to come."""
        with self._lock:
            self._cut, self._allowed = False, {True: None, False: None}

    def __enter__(self) -> "Link":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which close() alone does not
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self._join(near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = socket.create_connection(self._target, timeout=10)
        except OSError:
            _reset(near)
            return
        far.settimeout(None)
        with self._lock:
            refused = self._cut
            if not refused:
                self._open |= {near, far}
                self.connections += 1
        if refused:
            _reset(near)
            _reset(far)
            return
        for source, sink, towards in ((near, far, True), (far, near, False)):
            threading.Thread(target=self._pump, args=(source, sink, towards), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, towards: bool) -> None:
        with contextlib.suppress(OSError):
            for data in iter(lambda: source.recv(_CHUNK), b""):
                part = data[: self._take(len(data), towards)]
                sink.sendall(part)
                if len(part) < len(data):
                    self.cut()
                    return
            sink.shutdown(socket.SHUT_WR)

    def _take(self, wanted: int, towards: bool) -> int:
        """How many of `wanted` bytes may still pass that way."""
        with self._lock:
            allowed = self._allowed[towards]
            may = wanted if allowed is None else min(wanted, allowed)
            if allowed is not None:
                self._allowed[towards] = allowed - may
            self._passed += may if towards else 0
            return may


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        end.shutdown(socket.SHUT_RDWR)
    end.close()
