"""Another user of the host opens connections to the page, without a login, and keeps nobody out."""

import errno
import os
import selectors
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import uvicorn.lifespan.off
import uvicorn.loops.auto  # noqa: F401

from zbackup import clock
from zbackup.proc.helper_socket import ask
from zbackup.web.server import LOGIN_SOCKET, Listening, serve

NOWHERE = Path("/nowhere")
ANSWER_S = 10.0
PAGE, OTHER = 65533, 65534
SILENT, HEAD, BODY = b"", b"GET /login HTTP/1.1\r\n", b"POST /login HTTP/1.1\r\nContent-Length: 4000\r\n"


@pytest.fixture
def page() -> Iterator[tuple[int, Path]]:
    """Serve the page, as a user without rights who reads no program of root's: what it needs is imported."""
    with TemporaryDirectory(dir="/tmp") as name, socket.socket() as probe:
        run = Path(name)
        os.chown(run, PAGE, PAGE)
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        web = forked(
            PAGE, lambda: serve(Listening(port=port), NOWHERE, NOWHERE, run, clock.SystemClock().now)
        )
        try:
            end = time.monotonic() + 30
            while not (run / "login.sock").exists() and time.monotonic() < end:
                assert os.waitpid(web, os.WNOHANG) == (0, 0)
                time.sleep(0.05)
            yield port, run
        finally:
            os.kill(web, signal.SIGTERM)
            os.waitpid(web, 0)


def forked(user: int, do: Callable[[], object]) -> int:
    """Start a process of that user's, which does nothing else."""
    if child := os.fork():
        return child
    try:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        do()
    except BaseException:  # noqa: BLE001  the process ends below, whatever it was
        traceback.print_exc()
    finally:
        os._exit(1)


def ask_page(port: int, path: str, *, form: str = "", cookie: str = "") -> str:
    """The head of a page, or of the answer to a form; "" where the connection ends, or nothing comes."""
    here = f"127.0.0.1:{port}"
    head = f"{'POST' if form else 'GET'} {path} HTTP/1.1\r\nHost: {here}\r\nOrigin: http://{here}\r\n"
    head += f"Cookie: {cookie}\r\nContent-Length: {len(form)}\r\nConnection: close\r\n\r\n{form}"
    answer = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as s:
        s.sendall(head.encode())
        while more := s.recv(1 << 16):
            answer += more
    return answer.decode().partition("\r\n\r\n")[0]


def hold(port: int, count: int, begin: bytes) -> None:
    """Hold connections for ever: send `begin`, then a byte a second, and open another for each that ends."""
    with selectors.DefaultSelector() as held:
        while True:
            while len(held.get_map()) < count:
                s = socket.socket()
                s.setblocking(False)
                if s.connect_ex(("127.0.0.1", port)) not in (0, errno.EINPROGRESS):
                    raise AssertionError("the page is gone")
                held.register(s, selectors.EVENT_READ)
                with suppress(BlockingIOError, OSError):
                    s.sendall(begin)
            for key, _ in held.select(1):
                gone = key.fileobj
                assert isinstance(gone, socket.socket)
                with suppress(OSError):
                    if gone.recv(1 << 16):
                        continue
                held.unregister(gone)
                gone.close()
            if begin:
                for key in list(held.get_map().values()):
                    assert isinstance(key.fileobj, socket.socket)
                    with suppress(OSError):
                        key.fileobj.send(b"x")


@pytest.mark.parametrize("count", [100, 300, 600])
@pytest.mark.parametrize("begin", [SILENT, HEAD, BODY], ids=["silent", "head", "body"])
def test_connections_of_others_keep_nobody_out(page: tuple[int, Path], count: int, begin: bytes) -> None:
    port, run = page
    head = begin and begin + f"Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}\r\n".encode()
    if begin == BODY:
        head += b"\r\n"
    attacker = forked(OTHER, lambda: hold(port, count, head))
    try:
        time.sleep(2)
        for _ in range(5):
            # Too many requests without a login are told so; whoever has a link is not among them.
            others = ask_page(port, "/login")
            assert others.startswith("HTTP/1.1 200") or (begin == BODY and others.startswith("HTTP/1.1 429"))
            link = str(ask(run / LOGIN_SOCKET, {})["link"]).removeprefix(f"http://127.0.0.1:{port}")
            assert ask_page(port, link).startswith("HTTP/1.1 200"), "root's link opens no more"
            entered = ask_page(port, "/login", form=link.partition("?")[2])
            assert entered.startswith("HTTP/1.1 303"), "root's link logs in no more"
            cookie = entered.lower().partition("set-cookie: ")[2].partition(";")[0]
            cookie = entered[entered.lower().index(cookie) :][: len(cookie)]
            assert ask_page(port, "/nothing", cookie=cookie).startswith("HTTP/1.1 404"), "no login counts"
            time.sleep(1)
        assert os.waitpid(attacker, os.WNOHANG) == (0, 0), "the attack is over"
    finally:
        with suppress(ProcessLookupError):
            os.kill(attacker, 9)
        os.waitpid(attacker, 0)
