"""The frame of every page: what all of them have, and what is shown where one cannot be."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from zbackup.model.errors import NotFound, ZbackupError
from zbackup.model.overview import Overview, OverviewInstance
from zbackup.web.guard import RequestGuard
from zbackup.web.source import WebSource
from zbackup.web.template_filters import Words


@dataclass(frozen=True, slots=True)
class Pages:
    """The things that every page is made of. `clock` tells the time."""

    source: WebSource
    guard: RequestGuard
    clock: Callable[[], datetime]
    environment: Environment

    def page(self, request: Request, template: str, seen: Overview | None, /, **values: Any) -> Response:
        """A page, with what all of them have."""
        now = self.clock()
        zone = ZoneInfo(seen.zone) if seen else ZoneInfo("UTC")
        status = values.pop("status", 200)
        text = self.environment.get_template(template).render(
            seen=seen,
            words=Words(zone, now),
            path=request.url.path,
            who=request.state.who,
            by_header=request.state.by_header,
            token=request.state.form_token,
            **values,
        )
        return HTMLResponse(text, status_code=status)


Handler = Callable[[Pages, Request, Overview], Response]


def link(path: str, **query: str) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def shown(pages: Pages, handler: Handler) -> Callable[[Request], Response]:
    """A page, or why it cannot be shown. It runs in a thread: to ask takes a while."""

    @wraps(handler)
    def answer(request: Request) -> Response:
        try:
            seen = pages.source.overview()
        except ZbackupError as problem:
            return pages.page(request, "problem.html", None, problem=str(problem), status=503)
        try:
            return handler(pages, request, seen)
        except NotFound as problem:
            return pages.page(request, "problem.html", seen, problem=str(problem), status=404)
        except ZbackupError as problem:
            return pages.page(request, "problem.html", seen, problem=str(problem), status=400)

    return answer


def instance_of(seen: Overview, name: str) -> OverviewInstance:
    found = next((i for i in seen.instances if i.name == name), None)
    if found is None:
        raise NotFound("There is no such instance.")
    return found
