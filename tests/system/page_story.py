"""A clone from the web page: its orders go to a socket, as systemd would have them answered."""

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.testclient import TestClient

from tests.system.clone_story import asked, entered
from tests.system.forked import Begun, shared
from tests.system.house import House, wait_until
from zbackup.model.errors import Refused
from zbackup.proc.helper_socket import ask
from zbackup.web.guard import RequestGuard, WebAccess
from zbackup.web.pages import build
from zbackup.web.sessions import Sessions
from zbackup.web.source import SharedSource, SocketSource

ORIGIN = "http://127.0.0.1:8420"
STRANGER = 65534


@contextmanager
def answered(config: Path, address: Path, *words: str) -> Iterator[None]:
    """For each connection a `zbackup helper WORDS` with it as its standard input, several at a time."""
    forks = shared()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
        listening.bind(str(address))
        address.chmod(0o666)  # so that the kernel's word counts, and not the file's mode
        listening.listen()
        argv = ("--config", str(config), "helper", *words)
        started: list[Begun] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    started.append(forks.begin(argv, {}, connection.fileno()))

        threading.Thread(target=serve, daemon=True).start()
        yield
        listening.shutdown(socket.SHUT_RDWR)
        for each in started:
            each.wait()


class Page:
    """A browser that is logged in, at a page that asks at these sockets."""

    def __init__(self, reader: Path, cloner: Path) -> None:
        access = WebAccess(hosts=frozenset(("127.0.0.1:8420",)), origins=frozenset((ORIGIN,)))
        sessions = Sessions()
        app = build(
            SharedSource(SocketSource(reader, cloner)),
            RequestGuard(access, sessions),
            lambda: datetime.now(UTC),
        )
        self.browser = TestClient(app, base_url=ORIGIN, follow_redirects=False)
        self.browser.post("/login", data={"link": sessions.new_link()}, headers={"Origin": ORIGIN})

    def text(self, path: str) -> str:
        answer = self.browser.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def post(self, path: str, **fields: str) -> Any:
        token = re.search(r'name="token" value="(\w+)"', self.text("/clones"))
        assert token
        data = {"token": token[1], "instance": "shop", "once": os.urandom(16).hex(), **fields}
        return self.browser.post(path, data=data, headers={"Origin": ORIGIN})

    def done(self, **fields: str) -> str:
        """Order something, and follow it until it is done."""
        answer = self.post("/operations", **fields)
        assert answer.status_code == 303, answer.text
        where, said = answer.headers["location"], [""]

        def ended() -> bool:
            said[0] = self.text(where)
            return "data-live" not in said[0]

        wait_until("the operation ends", ended, 300)
        assert "Done: " in said[0], said[0]
        return said[0]


def refused_to_a_stranger(address: Path) -> bool:
    """Whether another user than those who are named is refused."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setuid(STRANGER)
            ask(address, {})
        except Refused as why:
            status = 0 if "may not ask for clones" in str(why) else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


class PageStory:
    """The test."""

    def test_a_clone_from_the_page(self, house: House, history: dict[str, Any]) -> None:
        config = house.configure("page", web={"clones": True}, clones={"lease": "6h", "quota": "4GiB"})
        before = house.names()
        with TemporaryDirectory(prefix="zb") as name:
            home = Path(name)
            home.chmod(0o755)
            with answered(config, home / "read", "--read"), answered(config, home / "clone", "--clones"):
                page = Page(home / "read", home / "clone")
                assert "paged runs" in page.done(verb="create", clone="paged")
                with entered(house, "paged") as clone:
                    assert asked(clone, "SELECT COUNT(*) > 0 FROM shop.customers") == ((1,),)
                assert "4.0 GiB (quota)" in page.text("/clones/paged")
                address = page.post("/clones/paged/connect").text
                secret = Path(house.zb("clone", "show", "paged", "--json").data["password_file"]).read_text()
                assert secret.strip() in address
                assert "its lease ends" in page.done(verb="extend", clone="paged", lease="86400")
                assert refused_to_a_stranger(home / "clone")
                assert "is destroyed" in page.done(verb="destroy", clone="paged", sure="yes")
                assert "paged" not in page.text("/clones")
        assert house.names() == before
