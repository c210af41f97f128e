"""The frame of every page: what all of them have, and what is shown where one cannot be."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from zbackup.model.command_line import command_line
from zbackup.model.errors import NotFound, Refused, UsageError, ZbackupError
from zbackup.model.moment import Moment, parse_moment
from zbackup.model.overview import Overview, OverviewInstance
from zbackup.model.target import LATEST, NamedBackup, parse_target
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


def moment_of(found: OverviewInstance, text: str, zone: ZoneInfo, now: datetime) -> Moment:
    """Parse what was typed: a moment, or backup:NAME or label:LABEL for the moment that its data is of.

    Raise UsageError for a target that only the command line takes, NotFound for no such backup.
    """
    if len(text) > 100:
        raise UsageError("That is no moment: it is too long.")
    with suppress(OverflowError, ValueError):
        named = parse_target(text)
        if isinstance(named, str):
            return parse_moment("now" if named == LATEST else named, zone, now)
        if isinstance(named, NamedBackup):
            return Moment(_data_of(found, named), text, zone)
        command = command_line("zbackup", "restore", found.name, "--to", text)
        raise UsageError(f"This page takes moments and backups. On the command line: {command}")
    raise Refused("That is no moment.")


def _data_of(found: OverviewInstance, named: NamedBackup) -> datetime:
    """The time that a backup's data is of: the newest with this label, or the one of this name."""
    those = [b for b in found.backups if (b.name if named.by == "backup" else b.label) == named.name]
    if not those:
        raise NotFound("There is no such backup.")
    newest = those[-1]  # in the order in which they were taken, which a clock need not tell
    if newest.kind != "base":
        # As on the command line: an older one of this label is not what was asked for.
        raise Refused(f"Nothing is restored from {newest.name}: see the list of backups.")
    return newest.as_of or newest.taken
