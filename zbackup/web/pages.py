"""The pages: each looks at the overview, asks what more it needs, and is drawn by a template."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from zbackup.model.command_line import command_line
from zbackup.model.errors import ZbackupError
from zbackup.model.event_log import log
from zbackup.model.moment import utc_text
from zbackup.model.overview import Overview, OverviewInstance
from zbackup.model.run import JobRun
from zbackup.plan.timeline.axis import TimelineView, view_of
from zbackup.plan.timeline.moment_answer import best_destination, can_be_restored, estimate
from zbackup.plan.timeline.picture import Picture, draw, zoom
from zbackup.plan.timeline.upcoming_prunes import leaving
from zbackup.web import clone_pages
from zbackup.web.guard import COOKIE, RequestGuard
from zbackup.web.page import Pages, instance_of, link, moment_of, shown
from zbackup.web.sessions import SESSION_S
from zbackup.web.source import WebSource
from zbackup.web.template_filters import ORDER

HERE = Path(__file__).parent
WIDTH, NARROW = 960, 360
MOST_ROWS, MOST_RUNS, MOST_MEMBERS, MOST_LEAVING = 60, 400, 500, 26
FINE = timedelta(minutes=12)
"""A view that is no longer than this is chosen moments from; in a longer one a click goes closer."""
FAR = timedelta(days=366 * 50)
SPANS = (
    ("1 h", timedelta(hours=1)),
    ("6 h", timedelta(hours=6)),
    ("1 day", timedelta(days=1)),
    ("1 week", timedelta(days=7)),
    ("1 month", timedelta(days=31)),
    ("1 year", timedelta(days=366)),
)
MOVES = (("Earlier", 1, -0.5), ("Later", 1, 0.5), ("Zoom in", 0.25, 0), ("Zoom out", 4, 0))
"""Each with the factor of the view's length, and how far it goes, in lengths."""


def build(source: WebSource, guard: RequestGuard, clock: Callable[[], datetime]) -> Starlette:
    """The application: every request passes the guard."""
    pages = Pages(source, guard, clock, _environment())
    routes = [
        Route("/", shown(pages, overview)),
        Route("/instance/{name}", shown(pages, instance)),
        Route("/instance/{name}/moment", shown(pages, moment)),
        *(
            Route(path, shown(pages, handler), methods=[method])
            for path, method, handler in clone_pages.handlers()
        ),
        Route("/fleet", shown(pages, fleet)),
        Route("/jobs", shown(pages, jobs)),
        Route("/settings", shown(pages, settings)),
        Route("/login", pages_login(pages), methods=["GET", "POST"]),
        Route("/logout", pages_logout(pages), methods=["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
        exception_handlers={404: _nothing(pages)},
    )


@cache
def _environment() -> Environment:
    """One for all applications of a process: it keeps the templates that it has compiled."""
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["quote"] = command_line
    environment.globals["link"] = link
    return environment


def _nothing(pages: Pages) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, _: Exception) -> Response:
        return pages.page(request, "problem.html", None, problem="There is no such page.", status=404)

    return answer


def overview(pages: Pages, request: Request, seen: Overview) -> Response:
    """All instances, the worst first."""
    if seen.fleet and not seen.instances:
        return RedirectResponse("/fleet", status_code=303)
    now = pages.clock()
    ending = sorted(
        (c for c in seen.clones if c.lease_ends),
        key=lambda c: c.lease_ends.timestamp() if c.lease_ends else 0,
    )
    rows = [
        (each, best_destination(each), *_drawn(each, _usual(each), ZoneInfo(seen.zone)))
        for each in sorted(seen.instances, key=lambda i: (ORDER[i.health], i.name))
    ]
    soon = [c for c in ending if c.lease_ends and c.lease_ends - now < timedelta(days=1)]
    return pages.page(request, "overview.html", seen, rows=rows, ending=soon)


def instance(pages: Pages, request: Request, seen: Overview) -> Response:
    """One instance: the picture, and below it what is in the view, in words."""
    found = instance_of(seen, request.path_params["name"])
    view = _view(request, found, ZoneInfo(seen.zone))
    picture, narrow = _drawn(found, view, ZoneInfo(seen.zone))
    backups = [b for b in found.backups if view.start <= b.taken <= view.end]
    gaps = [g for g in found.gaps if view.touches(g.after, g.to)]
    marks, problem = None, ""
    if "marks" in request.query_params:
        try:
            marks = pages.source.marks(found.name, view.start, min(view.end, found.looked))
        except ZbackupError as failure:
            problem = str(failure)
    return pages.page(
        request,
        "instance.html",
        seen,
        instance=found,
        picture=picture,
        narrow=narrow,
        backups=list(reversed(backups))[:MOST_ROWS],
        backups_more=max(0, len(backups) - MOST_ROWS),
        gaps=list(reversed(gaps))[:MOST_ROWS],
        gaps_more=max(0, len(gaps) - MOST_ROWS),
        going=[b for b in found.backups if not b.keep],
        leaving=leaving(found.backups, found.looked, ZoneInfo(seen.zone))[:MOST_LEAVING],
        forever=sum(b.forever for b in found.backups if b.keep),
        undated=sum(b.until is None for b in found.backups if b.keep),
        prune=next((j for j in found.jobs if j.job == "prune"), None),
        best=best_destination(found),
        marks=marks,
        marks_problem=problem,
        mark_columns=[(m, view.column(m.at)) for m in marks.marks] if marks else [],
        narrow_columns=[(m, narrow.view.column(m.at)) for m in marks.marks] if marks else [],
        **_links(found, view),
    )


def _links(found: OverviewInstance, view: TimelineView) -> dict[str, Any]:
    """The other views that this one leads to; `fine`: moments are chosen from it."""
    path = f"/instance/{found.name}"

    def at(start: datetime, end: datetime) -> str:
        return link(path, **{"from": utc_text(start), "to": utc_text(end)})

    return {
        "at": at,
        "fine": view.span <= FINE,
        "coming": at(found.looked - timedelta(days=1), found.looked + timedelta(days=7)),
        "spans": [(label, at(found.looked - span, found.looked)) for label, span in SPANS],
        "moves": [(label, at(*zoom(view, factor, shift))) for label, factor, shift in MOVES],
        "marks_at": f"{at(view.start, view.end)}&marks=1",
    }


def moment(pages: Pages, request: Request, seen: Overview) -> Response:
    """Whether a moment can be restored, what that takes, and the command."""
    found = instance_of(seen, request.path_params["name"])
    zone = ZoneInfo(seen.zone)
    text = request.query_params.get("at", "")
    wanted = moment_of(found, text, zone, pages.clock())
    # What is asked for now is not yet in the overview, which is some seconds old.
    answer = can_be_restored(replace(found, looked=max(found.looked, pages.clock())), wanted.at)
    if wanted.is_now and found.ranges and found.ranges[-1].live:
        answer = replace(answer, verdict="yes")
    plan, problem = None, ""
    if answer.verdict in ("yes", "unknown"):
        try:
            plan = pages.source.moment(found.name, wanted.at)
        except ZbackupError as failure:
            problem = str(failure)
    command = command_line("zbackup", "restore", found.name, "--to", utc_text(wanted.at))
    half = timedelta(minutes=30)
    return pages.page(
        request,
        "moment.html",
        seen,
        instance=found,
        wanted=wanted,
        answer=answer,
        plan=plan,
        plan_problem=problem,
        estimate=estimate(found.drills, plan.transactions) if plan else None,
        command=command,
        once=secrets.token_hex(16),
        around=link(
            f"/instance/{found.name}",
            **{"from": utc_text(wanted.at - half), "to": utc_text(wanted.at + half)},
        ),
    )


def jobs(pages: Pages, request: Request, seen: Overview) -> Response:
    """Show how the daemon's jobs and the drills went: of one instance, or of all, and failures alone."""
    only, failed = request.query_params.get("of", ""), "failed" in request.query_params
    drills = {i.name: sorted(i.drills, key=lambda d: d.at, reverse=True) for i in seen.instances}
    operations = pages.source.operations() if seen.may_clone else ()
    found: tuple[JobRun, ...] = ()
    problem = ""
    try:
        found = pages.source.history()
    except ZbackupError as failure:
        problem = str(failure)
    runs = [r for r in found if only in ("", r.instance) and (r.result == "failed" or not failed)]
    most = MOST_RUNS if only or failed else MOST_ROWS
    return pages.page(
        request,
        "jobs.html",
        seen,
        drills=drills,
        operations=operations,
        runs=runs[:most],
        runs_more=max(0, len(runs) - most),
        runs_problem=problem,
        only=only,
        failed=failed,
    )


def fleet(pages: Pages, request: Request, seen: Overview) -> Response:
    """Every instance that ships here, the worst first."""
    found = pages.source.fleet()
    return pages.page(request, "fleet.html", seen, fleet=found, most=MOST_MEMBERS)


def settings(pages: Pages, request: Request, seen: Overview) -> Response:
    """The effective configuration."""
    return pages.page(request, "settings.html", seen)


def pages_login(pages: Pages) -> Callable[[Request], Any]:
    """The page that a one-time link leads to; the button on it uses the link up, so that nothing that merely
    looks at links does."""

    async def answer(request: Request) -> Response:
        if request.state.by_header:
            return RedirectResponse("/", status_code=303)
        if request.method != "POST":
            secret = request.query_params.get("link", "")
            return pages.page(request, "login.html", None, link=secret, wrong=False)
        cookie = pages.guard.sessions.log_in(request.state.form.get("link", ""))
        if cookie is None:
            log.warning("web.login_refused")
            return pages.page(request, "login.html", None, link="", wrong=True, status=403)
        log.info("web.login")
        done = RedirectResponse("/", status_code=303)
        done.set_cookie(
            COOKIE,
            cookie,
            max_age=int(SESSION_S),
            httponly=True,
            samesite="strict",
            secure=pages.guard.access.secure,
        )
        return done

    return answer


def pages_logout(pages: Pages) -> Callable[[Request], Any]:
    """End the session."""

    async def answer(request: Request) -> Response:
        pages.guard.sessions.log_out(request.cookies.get(COOKIE, ""))
        log.info("web.logout")
        done = RedirectResponse("/login", status_code=303)
        done.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return done

    return answer


def _drawn(found: OverviewInstance, view: TimelineView, zone: ZoneInfo) -> tuple[Picture, Picture]:
    """For wide screens, and for phones."""
    return draw(found, view, zone), draw(found, replace(view, width=NARROW), zone)


def _usual(found: OverviewInstance) -> TimelineView:
    """From a little before all that there is, or was promised, to now."""
    firsts = [b.taken for b in found.backups[:1]] + [r.after for r in found.ranges[:1]]
    start = min([*firsts, *([found.promised] if found.promised else [])], default=found.looked)
    start = max(start, found.looked - timedelta(days=366 * 10))
    start = min(start, found.looked - timedelta(hours=1))
    return view_of(start - (found.looked - start) * 0.02, found.looked, WIDTH)


def _view(request: Request, found: OverviewInstance, zone: ZoneInfo) -> TimelineView:
    start, end = (request.query_params.get(name, "") for name in ("from", "to"))
    if not (start and end):
        return _usual(found)
    now = found.looked
    times = [moment_of(found, text, zone, now).at for text in (start, end)]
    # Beyond is nothing; and a calendar has an end.
    earliest, latest = (min(max(at, now - FAR), now + timedelta(days=366)) for at in times)
    return view_of(earliest, latest, WIDTH)
