"""A client that is logged in, or not, at pages about a host that was made up."""

import re

from starlette.testclient import TestClient

from tests.unit.web.host import NOW, Told
from zbackup.web.guard import RequestGuard, WebAccess
from zbackup.web.pages import build
from zbackup.web.sessions import Sessions

ORIGIN = "http://127.0.0.1:8420"
ACCESS = WebAccess(
    hosts=frozenset(("127.0.0.1:8420", "localhost:8420")),
    origins=frozenset((ORIGIN, "http://localhost:8420")),
)


def stopped() -> float:
    """Nobody may ask more often because the machine is slow."""
    return 1000.0


def client(
    source: Told | None = None,
    access: WebAccess = ACCESS,
    sessions: Sessions | None = None,
    origin: str = ORIGIN,
) -> TestClient:
    """Nobody is logged in yet."""
    app = build(source or Told(), RequestGuard(access, sessions or Sessions(), stopped), lambda: NOW)
    return TestClient(app, base_url=origin, follow_redirects=False, raise_server_exceptions=True)


def logged_in(source: Told | None = None) -> TestClient:
    """As by the button on the page that a link leads to."""
    sessions = Sessions()
    found = client(source, sessions=sessions)
    answer = found.post("/login", data={"link": sessions.new_link()}, headers={"Origin": ORIGIN})
    assert answer.status_code == 303
    return found


def form_token(page: str) -> str:
    found = re.search(r'name="token" value="([0-9a-f]{64})"', page)
    assert found
    return found[1]
