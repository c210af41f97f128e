"""zbackup restore --table: take tables out of a server that was restored for them, and remove it again."""

from dataclasses import replace

from zbackup.cli.options import Options
from zbackup.cli.output import emit_incomplete
from zbackup.cli.restore_report import Asked, report_shape
from zbackup.features.copyback.command import confirmed, incomplete, text
from zbackup.features.copyback.command import shape as shape_of
from zbackup.features.copyback.copy import Confirm, CopyReport, copier_of, copy, require_sensible
from zbackup.features.copyback.copying import CopyWish
from zbackup.jobs.clones.lifecycle import destroy
from zbackup.jobs.context import Context
from zbackup.jobs.restore.restore import RestoreReport
from zbackup.model.command_line import command_line
from zbackup.model.errors import ZbackupError
from zbackup.model.table_name import parse_table


def wished(ctx: Context, names: list[str], into: str, *, missing: bool, changed: bool) -> CopyWish:
    """The wish to copy these tables back. Raise UsageError, Refused or DatabaseError where it cannot be done:
    before anything is restored.

    All that copying takes is imported with this module: hours later, when the server is there, an upgrade may
    have put other modules in their place.
    """
    wish = CopyWish(
        tables=tuple(dict.fromkeys(parse_table(name, ctx.engine_name) for name in names)),
        into=parse_table(into, ctx.engine_name) if into else None,
        missing=missing,
        changed=changed,
    )
    require_possible(ctx, wish)
    return wish


def require_possible(ctx: Context, wish: CopyWish) -> None:
    """Look at what a copy needs. Raise UsageError, Refused or DatabaseError."""
    require_sensible(wish)
    copier_of(ctx).require_account(wish.schemas)


def bring_back(ctx: Context, report: RestoreReport, wish: CopyWish, *, yes: bool) -> CopyReport | None:
    """Copy what is wished for out of what was restored, and destroy that.

    Nothing is copied, the clone stays, and None is returned where local times or rows in it may be others
    than production's were.
    """
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


def tell(options: Options, asked: Asked, report: RestoreReport, copied: CopyReport) -> None:
    """Print the report of the copy that a restore was made for; raise what that ends with."""
    shape = report_shape(asked, report) | {"copied": shape_of(copied, dry_run=False)}
    emit_incomplete(options, "restore", shape, lambda: text(copied), incomplete(copied))


def copy_and_destroy(ctx: Context, name: str, wish: CopyWish, confirm: Confirm | None) -> CopyReport:
    """Copy out of the clone of that name, and destroy it when all that was wished for is there.

    Raise what `copy` raises; the clone is kept then, and where production did not take all rows, and it is
    said how to go on.
    """
    contexts = ctx.everywhere()
    again = command_for(ctx, name, wish)
    remove = command_line("zbackup", "clone", "destroy", name)
    kept = f"the clone {name} is kept: {again} goes on, {remove} removes it"
    try:
        report = copy(contexts, name, wish, confirm)
    except (ZbackupError, KeyboardInterrupt):
        ctx.progress.note(kept)
        raise
    if report.refused:
        ctx.progress.note(kept)
    else:
        ctx.progress.phase("removing", name)
        destroy(contexts, name)
    return report


def command_for(ctx: Context, name: str, wish: CopyWish) -> str:
    """Return the command that wishes the same of the clone."""
    engine = ctx.engine_name
    into = ("--into", wish.into.typed(engine)) if wish.into else ()
    tables = (each.typed(engine) for each in wish.tables)
    given = [*(["--missing"] if wish.missing else []), *(["--changed"] if wish.changed else [])]
    return command_line("zbackup", "copy", name, *tables, *into, *given)
