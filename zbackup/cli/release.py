"""zbackup release"""

from typing import Annotated, Any

import typer

from zbackup.cli import tables
from zbackup.cli.options import Options
from zbackup.cli.output import plain
from zbackup.cli.working import AnyInstance, Done, conclude, on_each
from zbackup.jobs.context import Context
from zbackup.jobs.ship.stale_holds import Stale, find_stale, release_stale
from zbackup.model.errors import UsageError

HELP = """Release snapshots that are held for a destination that is gone.

Shipping holds what it sends, and leaves a bookmark that the next stream starts from. When a destination is
taken out of the configuration, or the host is renamed, both stay for ever: held snapshots are never pruned.
Without --yes they are listed and nothing is changed. Holds and bookmarks of others are never touched. When
you have given a destination another name, ship to it before this: until then it continues from the old
bookmarks.

\b
zbackup release --stale          what would be released
zbackup release --stale --yes
"""


def command(
    options: Options,
    instance: AnyInstance = None,
    stale: Annotated[
        bool, typer.Option("--stale", help="What belongs to destinations that are not configured any more.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it, do not only list it.")] = False,
) -> None:
    if not stale:
        raise UsageError("say what to release: --stale is all there is; the list comes first, --yes does it")

    def act(ctx: Context) -> list[Stale]:
        return release_stale(ctx) if yes else find_stale(ctx)

    def shape(done: Done[list[Stale]]) -> dict[str, Any]:
        return _shape(done, yes=yes)

    def text(turns: list[Done[list[Stale]]]) -> str:
        return "\n".join(_lines(done, yes=yes) for done in turns)

    conclude(options, "release", on_each(options, "release", instance, act), shape=shape, text=text)


def _shape(done: Done[list[Stale]], *, yes: bool) -> dict[str, Any]:
    keys = ("kind", "name", "tag", "why")
    rows = [{key: plain(getattr(each, key)) for key in keys} for each in done.result]
    return {"released": yes, "marks": rows}


def _lines(done: Done[list[Stale]], *, yes: bool) -> str:
    name = done.context.instance
    if not done.result:
        return f"{name}: nothing is pinned for a destination that is gone"
    rows = [["  " + each.kind, each.name, each.tag, each.why] for each in done.result]
    verb = "released" if yes else "would release (--yes does it)"
    return f"{name}: {verb}\n{tables.aligned(rows)}"
