"""A proxy before a real S3 server that breaks requests: answers of 5xx, and connections that are reset.

Requests and answers pass as they are, so that signatures and checksums hold.
"""

import http.client
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.lab.certificate import Certificate

ERROR = b'<?xml version="1.0"?><Error><Code>%s</Code><Message>made by the proxy</Message></Error>'


@dataclass(frozen=True, slots=True)
class Fault:
    """`status` with `code` is answered instead of asking the server; or the connection is reset: when so
    many bytes of the request's body have come (`body`), or of the answer's have gone (`answer`), which is
    after the request took effect."""

    status: int = 0
    code: str = "InternalError"
    body: int | None = None
    answer: int | None = None


@dataclass(slots=True)
class AtChange:
    """`fault` at the `at`th request, from 1, that changes something; if `staying`, at all from it on."""

    at: int
    fault: Fault
    staying: bool = False
    count: int = 0

    def __call__(self, _: int, method: str) -> Fault | None:
        changes = method in ("PUT", "POST", "DELETE")
        self.count += changes
        hit = self.count >= self.at if self.staying else changes and self.count == self.at
        return self.fault if hit else None


@dataclass(slots=True)
class Proxy:
    """`fault` is asked with each request's number, from 1, and method; `seen` are the requests so far.

    `ahead` is what is added to the time that the server says it is.
    """

    endpoint: str
    fault: Callable[[int, str], Fault | None]
    ahead: timedelta
    seen: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def next(self, method: str, path: str) -> Fault | None:
        with self.lock:
            self.seen.append(f"{method} {path}")
            return self.fault(len(self.seen), method)


@contextmanager
def proxy(
    upstream: str,
    fault: Callable[[int, str], Fault | None],
    ahead: timedelta = timedelta(0),
    tls: Certificate | None = None,
) -> Iterator[Proxy]:
    """In front of the server at `upstream`; with `tls` one speaks TLS to it."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls.cert, tls.key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    scheme = "https" if tls else "http"
    made = Proxy(f"{scheme}://127.0.0.1:{server.server_address[1]}", fault, ahead)
    server.proxy = made  # type: ignore[attr-defined]
    server.upstream = urlsplit(upstream).netloc  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Who asked may be killed at any moment: that is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _pass(self) -> None:
        server: Any = self.server
        fault = server.proxy.next(self.command, self.path) or Fault()
        length = int(self.headers.get("Content-Length") or 0)
        if fault.body is not None:
            self.rfile.read(min(fault.body, length))
            self._reset()
            return
        body = self.rfile.read(length)
        if fault.status:
            self._answer(fault.status, {}, ERROR % fault.code.encode())
            return
        asked = http.client.HTTPConnection(server.upstream, timeout=60)
        asked.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            asked.putheader(name, value)
        asked.endheaders(body)
        answer = asked.getresponse()
        content = answer.read()
        if fault.answer is None:
            self._answer(answer.status, dict(answer.getheaders()), content)
        else:
            if fault.answer:
                self._head(answer.status, dict(answer.getheaders()), len(content))
                self.wfile.write(content[: fault.answer])
            self._reset()
        asked.close()

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _pass  # noqa: N815

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self._head(status, headers, len(content))
        self.wfile.write(content)

    def _head(self, status: int, headers: dict[str, str], length: int) -> None:
        self.send_response_only(status)
        proxy: Proxy = self.server.proxy  # type: ignore[attr-defined]
        for name, value in headers.items():
            if name.lower() == "date":
                self.send_header(
                    name, format_datetime(parsedate_to_datetime(value) + proxy.ahead, usegmt=True)
                )
            elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        known = headers.get("Content-Length") if self.command == "HEAD" else None
        self.send_header("Content-Length", known or str(length))
        self.end_headers()

    def _reset(self) -> None:
        """Not a decent end: the other side gets ECONNRESET."""
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            return

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what was asked is in Proxy.seen."""
