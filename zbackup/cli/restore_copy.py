"""Read and report the part of zbackup restore that copies tables back into production (--table)."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from zbackup.cli.options import Options
from zbackup.cli.output import emit, emit_incomplete
from zbackup.cli.restore_report import Asked, render_report, report_shape
from zbackup.features.copyback.copying import CopyWish
from zbackup.jobs.context import Context
from zbackup.jobs.restore.restore import RestoreReport
from zbackup.model.errors import UsageError
from zbackup.model.table_name import parse_table

if TYPE_CHECKING:
    from zbackup.features.copyback.copy import CopyReport

Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="TABLE",
        help="Copy this back into production, SCHEMA.TABLE or a whole SCHEMA, and destroy the new server "
        "again; may be repeated. See zbackup copy.",
        show_default=False,
    ),
]
Into = Annotated[
    str,
    typer.Option("--into", metavar="NAME", help="With --table: under another name.", show_default=False),
]
Missing = Annotated[
    bool, typer.Option("--missing", help="With --table: insert the rows whose key production lacks.")
]
Changed = Annotated[bool, typer.Option("--changed", help="With --table: put back the rows that differ.")]


def wished(names: list[str], into: str, engine: str, *, missing: bool, changed: bool) -> CopyWish | None:
    """Return the wish to copy tables back; None without --table. Raise UsageError."""
    if not names:
        if into or missing or changed:
            raise UsageError("--into, --missing and --changed are about what --table names")
        return None
    return CopyWish(
        tables=tuple(dict.fromkeys(parse_table(name, engine) for name in names)),
        into=parse_table(into, engine) if into else None,
        missing=missing,
        changed=changed,
    )


def require_possible(ctx: Context, wish: CopyWish) -> None:
    """See features.copyback.after_restore. All that copying takes is read here: hours later, when the server is
    there, an upgrade may have put other modules in their place."""
    from zbackup.features.copyback import (
        after_restore,
        command,  # noqa: F401
    )

    after_restore.require_possible(ctx, wish)


def bring_back(
    ctx: Context, report: RestoreReport, wish: CopyWish | None, *, yes: bool
) -> "CopyReport | None":
    """Copy what is wished for out of what was restored, and destroy that.

    Nothing is copied, and it stays, where local times or rows in it may be others than production's were.
    """
    if wish is None:
        return None
    # Only who copies back waits until all that copying takes is read.
    from zbackup.features.copyback.after_restore import command_for, copy_and_destroy
    from zbackup.features.copyback.command import confirmed

    if report.recovered.other_zone or report.recovered.other_settings:
        name = report.clone.name
        what = "local times" if report.recovered.other_zone else "rows"
        ctx.progress.note(
            f"nothing was copied into production, because {what} in {name} may differ from the original's. "
            f"{name} is kept: check them, then run {command_for(ctx, name, wish)}"
        )
        return None
    wish = replace(wish, moment=f"{ctx.clock.now():%Y%m%dT%H%M%S}")
    return copy_and_destroy(ctx, report.clone.name, wish, confirmed(yes=yes))


def tell(
    options: Options,
    asked: Asked,
    report: RestoreReport,
    copied: "CopyReport | None",
    configuration: str = "",
) -> None:
    """Print the report of a restore, or of the copy that it was made for; raise what that ends with.

    `configuration` is what was made for an address, and is printed behind it.
    """
    shape = report_shape(asked, report) | ({"configuration": configuration} if configuration else {})
    if copied is None:
        emit(options, "restore", shape, lambda: render_report(asked, report) + _to_keep(configuration))
        return
    from zbackup.features.copyback import command

    more = {"copied": command.shape(copied, dry_run=False)}
    emit_incomplete(
        options, "restore", shape | more, lambda: command.text(copied), command.incomplete(copied)
    )


def _to_keep(configuration: str) -> str:
    if not configuration:
        return ""
    return (
        "\n\nConfiguration of this host, to be kept as /etc/zbackup/config.toml. With it zbackup clone "
        "list, stop and destroy know the new server, and zbackup switch puts it in production's place:\n\n"
        f"{configuration}"
    ).rstrip()
