"""The pages of clones: what there is, what may be asked for, and how far it is.

Nothing is done here. An order goes to the socket of one who has root's rights, and who decides whether this
page may give it (features.webpage.operations).
"""

import secrets
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from zbackup.model.errors import NotFound, UsageError
from zbackup.model.event_log import log
from zbackup.model.overview import Overview, OverviewClone, OverviewInstance
from zbackup.web.guard import audit_name
from zbackup.web.page import Pages, instance_of, moment_of
from zbackup.web.source import CloneWish

FAR = timedelta(days=366 * 50)
LEASES = {
    "14400": "4 hours",
    "28800": "8 hours",
    "86400": "1 day",
    "259200": "3 days",
    "604800": "1 week",
}
"""The leases that are offered, in seconds."""
SURE = ("reset", "destroy")
"""Operations that cannot be taken back, and so are asked for twice."""
KINDS = ("dev", "restore")


def clones(pages: Pages, request: Request, seen: Overview) -> Response:
    """All clones, those whose lease ends first in front, and the form for a new one."""
    far = seen.looked + FAR
    rows = sorted(seen.clones, key=lambda c: (c.lease_ends or far, c.name))
    asked = request.query_params
    return pages.page(
        request,
        "clones.html",
        seen,
        rows=rows,
        leases=LEASES,
        once=secrets.token_hex(16),
        makers=[i for i in seen.instances if not i.problem],
        chosen=asked.get("instance", "")[:64],
        at=asked.get("at", "")[:80],
    )


def clone(pages: Pages, request: Request, seen: Overview) -> Response:
    """One clone, and what may be done to it."""
    found = _clone(seen, request.path_params["name"])
    return _one(pages, request, seen, found)


def connect(pages: Pages, request: Request, seen: Overview) -> Response:
    """The same with its address and password, which somebody asked for by a form."""
    found = _clone(seen, request.path_params["name"])
    wish = CloneWish(verb="connect", who=audit_name(request), instance=found.instance, clone=found.name)
    return _one(pages, request, seen, found, address=pages.source.connect(wish))


def _one(
    pages: Pages, request: Request, seen: Overview, found: OverviewClone, *, address: str = ""
) -> Response:
    return pages.page(
        request,
        "clone.html",
        seen,
        clone=found,
        address=address,
        leases=LEASES,
        usual=next((i for i in seen.instances if i.name == found.instance), None),
        may_change=seen.may_clone and found.kind in KINDS,
        once=[secrets.token_hex(16) for _ in range(4)],
    )


def order(pages: Pages, request: Request, seen: Overview) -> Response:
    """Pass an order on, and lead to the page that follows it."""
    form = request.state.form
    verb = form.get("verb", "")
    if verb in SURE and not form.get("sure"):
        raise UsageError(f"Nothing was done: say that you are sure, by the box beside “{verb.capitalize()}”.")
    found = instance_of(seen, form.get("instance", ""))
    wish = CloneWish(
        verb=verb,
        id=form.get("once", ""),
        who=audit_name(request),
        instance=found.name,
        clone=form.get("clone", "").strip(),
        at=_at(pages, seen, verb, found, form.get("at", "").strip()),
        lease=form.get("lease", ""),
    )
    name = pages.source.order(wish)
    log.info("web.ordered", who=wish.who, verb=verb, instance=wish.instance, clone=wish.clone, operation=name)
    return RedirectResponse(f"/operations/{name}", status_code=303)


def operation(pages: Pages, request: Request, seen: Overview) -> Response:
    """Show how far an operation is, and what came of it."""
    wanted = request.path_params["id"]
    found = next((each for each in pages.source.operations() if each.id == wanted), None)
    if found is None:
        raise NotFound("There is no such operation: only the last ones since this host was started are kept.")
    if found.state != "running" and (found.ended or found.began) > seen.looked:
        pages.source.forget()
        seen = pages.source.overview()
    there = any(c.name == found.clone for c in seen.clones)
    return pages.page(request, "operation.html", seen, operation=found, there=there)


def handlers() -> tuple[tuple[str, str, Callable[[Pages, Request, Overview], Any]], ...]:
    """The path and method of each page, and what makes it."""
    return (
        ("/clones", "GET", clones),
        ("/clones/{name}", "GET", clone),
        ("/clones/{name}/connect", "POST", connect),
        ("/operations", "POST", order),
        ("/operations/{id}", "GET", operation),
    )


def _clone(seen: Overview, name: str) -> OverviewClone:
    found = next((c for c in seen.clones if c.name == name), None)
    if found is None:
        raise NotFound("There is no such clone.")
    return found


def _at(pages: Pages, seen: Overview, verb: str, found: OverviewInstance, text: str) -> str:
    """A moment as the other side takes it. Raise as moment_of() does."""
    if verb == "reset" or not text:
        return text
    return moment_of(found, text, ZoneInfo(seen.zone), pages.clock()).at.isoformat()
