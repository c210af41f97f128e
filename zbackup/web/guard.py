"""The guard: every request passes it, and nothing behind it asks who is there.

A browser is told by a Host that is ours (no other name leads here: DNS rebinding), a form by an Origin that
is ours and a token, a person by a cookie that a one-time link was exchanged for, or by a header of a proxy
that alone reaches the Unix socket.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from zbackup.model.event_log import log
from zbackup.model.printable import is_plain, printable
from zbackup.web.sessions import Clock, Rate, Sessions

COOKIE = "zbackup"
LONGEST_FORM = 4096
LONGEST_NAME = 128
LONGEST_URL = 2048
ORDERS = "/operations"
OPEN = ("/login", "/static/style.css", "/static/page.js", "/static/icon.svg")
"""Paths that are shown to everybody."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer" a browser says of its own forms that they come from nowhere (Origin: null).
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WebAccess:
    """`hosts` are what a Host may be, `origins` what an Origin. `header` is the name of the proxy's, "" for
    logins by link. `secure`: browsers reach it by https, and the cookie travels no other way."""

    hosts: frozenset[str]
    origins: frozenset[str]
    header: str = ""
    secure: bool = False


class RequestGuard:
    """Lets a request through, or answers it."""

    def __init__(self, access: WebAccess, sessions: Sessions, clock: Clock = time.monotonic) -> None:
        self.access, self.sessions = access, sessions
        self._asking, self._logins = Rate(120, 20, clock), Rate(10, 1 / 6, clock)
        self._ordering = Rate(20, 1 / 6, clock)

    async def __call__(
        self, request: Request, following: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        answer = await self._answered(request, following)
        for name, value in HEADERS.items():
            answer.headers[name] = value
        if not request.url.path.startswith("/static/"):
            answer.headers["Cache-Control"] = "no-store"
        self._note(request, answer)
        return answer

    async def _answered(
        self, request: Request, following: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        if request.headers.get("host", "") not in self.access.hosts:
            return _refused(421, "This is not the address of this page.")
        if request.method not in ("GET", "HEAD", "POST"):
            return _refused(405, "No such method.")
        if len(str(request.url)) > LONGEST_URL:
            return _refused(414, "The address is too long.")
        who = self._who(request)
        request.state.who = who
        request.state.form_token = self.sessions.form_token(who) if who else ""
        request.state.by_header = bool(self.access.header)
        if not self._asking.admits(who or "nobody") and not await self._has_link(request):
            return _refused(429, "Too many requests: wait a moment.")
        if request.method == "POST" and (problem := await self._problem(request, who)):
            return problem
        if who or request.url.path in OPEN:
            return await following(request)
        if self.access.header:
            return _refused(403, f"The proxy names nobody in {self.access.header}.")
        return RedirectResponse("/login", status_code=303)

    def knows(self, request: Request) -> bool:
        """Whether the request is one of a user who is logged in, or has a link that logs in."""
        return bool(self._who(request)) or (
            request.url.path == "/login" and self.sessions.opens(request.query_params.get("link", ""))
        )

    def _who(self, request: Request) -> str:
        """Who is logged in, "" for nobody."""
        if self.access.header:
            names = request.headers.getlist(self.access.header)
            name = names[0].strip() if len(names) == 1 else ""
            return name if len(name) <= LONGEST_NAME and is_plain(name) else ""
        cookie = request.cookies.get(COOKIE, "")
        return f"session:{cookie}" if cookie and self.sessions.known(cookie) else ""

    async def _has_link(self, request: Request) -> bool:
        """Whether somebody comes to log in, with a link that opens: whatever others ask for, who has not
        logged in either, does not keep him out."""
        if request.url.path != "/login" or self.access.header:
            return False
        form = await _form_of(request) if request.method == "POST" else request.query_params
        return form is not None and self.sessions.opens(form.get("link", ""))

    async def _problem(self, request: Request, who: str) -> Response | None:
        """Why a form is not taken; None where it is."""
        if request.headers.get("origin", "") not in self.access.origins:
            return _refused(403, "This form comes from another page.")
        form = await _form_of(request)
        if form is None:
            return _refused(413, "The form is too large.")
        if request.url.path == "/login":
            if self.sessions.opens(form.get("link", "")) or self._logins.admits(""):
                return None
            return _refused(429, "Too many logins: wait a minute.")
        if not who or not self.sessions.is_form_token(who, form.get("token", "")):
            return _refused(403, "The form is too old: load the page again.")
        if request.url.path == ORDERS and not self._ordering.admits(who):
            return _refused(429, "Too many operations: wait a minute.")
        return None

    def _note(self, request: Request, answer: Response) -> None:
        """For the audit log; a secret is never in it, for none is in a path."""
        if request.url.path.startswith("/static/") and answer.status_code < 400:
            return
        tell = log.warning if answer.status_code >= 400 else log.info
        tell(
            "web.request",
            who=audit_name(request) or None,
            method=request.method,
            path=printable(request.url.path[:LONGEST_URL]),
            status=answer.status_code,
            peer=request.client.host if request.client else None,
        )


def audit_name(request: Request) -> str:
    """Who that is, "" for nobody. A cookie is a key: of it only what tells one session from another."""
    state = request.state
    who: str = getattr(state, "who", "")
    return printable(who) if getattr(state, "by_header", False) else state.form_token[:8] if who else ""


async def _form_of(request: Request) -> Mapping[str, str] | None:
    """The fields of a form, read once."""
    if not hasattr(request.state, "form"):
        request.state.form = await _form(request)
    form: Mapping[str, str] | None = request.state.form
    return form


async def _form(request: Request) -> Mapping[str, str] | None:
    """The fields of a form, the last of each name; None when it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > LONGEST_FORM:
            return None
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=20)
    except ValueError:
        return None
    return {name: values[-1] for name, values in fields.items()}


def _refused(status: int, why: str) -> Response:
    return PlainTextResponse(f"{why}\n", status_code=status)
