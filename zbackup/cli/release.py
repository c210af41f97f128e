"""zbackup release"""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from zbackup.cli import tables
from zbackup.cli.command_context import AnyInstance, Done, conclude, on_each, on_one
from zbackup.cli.options import Options
from zbackup.cli.output import emit, plain
from zbackup.jobs.backup.end_keep import end_keep, find_kept
from zbackup.jobs.context import Context
from zbackup.jobs.ship.stale_holds import Stale, find_stale, release_stale
from zbackup.model.backup import Backup
from zbackup.model.errors import UsageError
from zbackup.model.moment import local_text

HELP = """Release what is kept: backups with a date, and snapshots held for a destination that is gone.

--keep ends what zbackup snapshot --keep or --label asked for: from then on the retention policy alone decides
about the backup, and the next prune may delete it. Its label stays, and so does the date of copies that were
shipped.

Shipping holds what it sends, and leaves a bookmark that the next stream starts from. When a destination is
taken out of the configuration, or the host is renamed, both stay for ever: held snapshots are never pruned.
--stale releases them. Holds and bookmarks of others are never touched. When you have given a destination
another name, ship to it before this: until then it continues from the old bookmarks.

Without --yes it is listed, and nothing is changed.

\b
zbackup release shop --keep before-deploy         the backups with this label, or the one of this name
zbackup release shop --keep before-deploy --yes
zbackup release --stale                           what would be released
zbackup release --stale --yes
"""


def command(
    options: Options,
    instance: AnyInstance = None,
    keep: Annotated[
        str,
        typer.Option(
            "--keep",
            metavar="BACKUP",
            help="Keep the backup of this name, or those with this label, no longer than the policy does.",
            show_default=False,
        ),
    ] = "",
    stale: Annotated[
        bool, typer.Option("--stale", help="Release what destinations left that are no longer configured.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without this it is only listed.")] = False,
) -> None:
    if bool(keep) == stale:
        raise UsageError(
            "say what to release, one of --keep BACKUP and --stale; the list comes first, --yes does it"
        )
    if keep:
        _end_keep(options, instance, keep, yes=yes)
    else:
        _release_stale(options, instance, yes=yes)


def _end_keep(options: Options, instance: str | None, named: str, *, yes: bool) -> None:
    with on_one(options, "release", instance) as ctx:
        found = end_keep(ctx, named) if yes else find_kept(ctx, named)
    emit(
        options,
        "release",
        [_kept_shape(ctx.instance, found, yes=yes)],
        lambda: _kept_text(ctx, found, yes=yes),
    )


def _kept_shape(instance: str, found: Sequence[Backup], *, yes: bool) -> dict[str, Any]:
    rows = [{"backup": b.name, "label": b.record.label or None, "until": b.record.keep_until} for b in found]
    return {"instance": instance, "released": yes, "kept": plain(rows)}


def _kept_text(ctx: Context, found: Sequence[Backup], *, yes: bool) -> str:
    verb = "not kept any more" if yes else "would not be kept any more (--yes does it)"
    rows = [
        [
            f"  {b.name}",
            b.record.label or "-",
            f"was until {local_text(end.replace(microsecond=0), ctx.zone)}",
        ]
        for b in found
        if (end := b.record.keep_until)
    ]
    lines = [f"{ctx.instance}: {verb}", tables.aligned(rows)]
    if ctx.destinations:
        lines.append("  copies that were shipped keep their dates, for a year at most")
    return "\n".join(lines)


def _release_stale(options: Options, instance: str | None, *, yes: bool) -> None:
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
