"""Run the pages: sockets, one-time links for who may have them, and the way down."""

import os
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn

from zbackup.model.errors import Refused, UsageError
from zbackup.model.event_log import log
from zbackup.proc import secure_files
from zbackup.proc.helper_socket import answer, hear
from zbackup.web.connections import AT_ONCE, KEEP_ALIVE_S, PageConnection, Places
from zbackup.web.guard import RequestGuard, WebAccess
from zbackup.web.pages import build
from zbackup.web.sessions import Sessions
from zbackup.web.source import SharedSource, SocketSource

LOGIN_SOCKET = "login.sock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """The address it is served at: `host` and `port`, or the Unix socket `path` if that is not None.

    `origin` is how browsers reach it, "" for that address itself. `header` names who is there, for a proxy at
    the socket.
    """

    host: str = "127.0.0.1"
    port: int = 8420
    path: Path | None = None
    origin: str = ""
    header: str = ""

    def access(self) -> WebAccess:
        """Return what requests must be like. Raise UsageError for what lets somebody in unasked."""
        if self.header and self.path is None:
            raise UsageError("--trust-header needs --socket: whoever reaches a port could send that header")
        if self.path is None and not _is_loopback(self.host):
            raise UsageError(
                f"--listen {self.host} is not of this machine alone: listen at 127.0.0.1 or at a --socket, "
                "and put a proxy with TLS in front"
            )
        origins = {self.origin.rstrip("/")} if self.origin else set()
        if self.path is not None and not origins:
            raise UsageError(
                "--socket needs --origin: how browsers reach the proxy, as https://zbackup.example.net"
            )
        for text in origins:
            parts = urlsplit(text)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path or parts.query:
                raise UsageError(f'"{text}" is no origin: write https://zbackup.example.net')
        if self.path is None:
            names = {f"[{self.host}]" if ":" in self.host else self.host, "localhost"}
            origins |= {f"http://{name}:{self.port}" for name in names}
        hosts = frozenset(urlsplit(text).netloc for text in origins)
        return WebAccess(
            hosts=hosts,
            origins=frozenset(origins),
            header=self.header,
            secure=self.origin.startswith("https:"),
        )

    @property
    def address(self) -> str:
        """How browsers reach it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return self.origin.rstrip("/") or f"http://{host}:{self.port}"


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    listening: Listening, reader: Path, cloner: Path, run_dir: Path, clock: Callable[[], datetime]
) -> None:
    """Serve until told to stop. Raise UsageError or Refused when it cannot begin."""
    access = listening.access()
    sessions = Sessions()
    guard = RequestGuard(access, sessions)
    app = build(SharedSource(SocketSource(reader, cloner)), guard, clock)
    config = uvicorn.Config(
        app,
        http=partial(PageConnection, places=Places(guard.knows)),  # type: ignore[arg-type]  # it makes one
        backlog=AT_ONCE,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=int(KEEP_ALIVE_S),
        h11_max_incomplete_event_size=16 << 10,
        lifespan="off",
        ws="none",
    )
    sock = _bound(listening)
    with sock, Links(run_dir / LOGIN_SOCKET, sessions, listening):
        log.info("web.listening", address=listening.address, socket=str(listening.path or "") or None)
        # When all is ended it passes on what it was told to end by, which is no failure.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[sock])
        log.info("web.stopped")


def _bound(listening: Listening) -> socket.socket:
    try:
        if listening.path is not None:
            return _unix(listening.path, 0o660)
        family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listening.host, listening.port))
        return sock
    except OSError as failure:
        where = listening.path or f"{listening.host}:{listening.port}"
        raise Refused(f"cannot listen at {where}: {failure.strerror}") from failure


def _unix(path: Path, mode: int) -> socket.socket:
    """A socket in place of one that nobody listens at any more."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with probe:
        if probe.connect_ex(str(path)) == 0:
            raise Refused(f"somebody listens at {path} already")
    if path.is_socket():
        path.unlink()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o777 & ~mode)
    try:
        sock.bind(str(path))
    finally:
        os.umask(before)
    return sock


class Links:
    """Gives one-time links to root and to who we are, at a socket of its own, as long as it is open."""

    def __init__(self, path: Path, sessions: Sessions, listening: Listening) -> None:
        secure_files.ensure_directory(path.parent)
        self._path = path
        self._listener = _unix(path, 0o600)
        self._listener.listen(4)

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                try:
                    connection, uid, _ = hear(self.request.fileno())
                except Refused as silent:
                    log.warning("web.link_refused", why=str(silent))
                    return
                if uid not in (0, os.geteuid()):
                    log.warning("web.link_refused", uid=uid)
                    answer(connection, {"refused": "only root gets a link"})
                    return
                log.info("web.link_made", uid=uid)
                answer(connection, {"link": f"{listening.address}/login?link={sessions.new_link()}"})

        self._server = socketserver.UnixStreamServer(str(path), Handler, bind_and_activate=False)
        self._server.socket.close()
        self._server.socket = self._listener
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._path.unlink(missing_ok=True)
