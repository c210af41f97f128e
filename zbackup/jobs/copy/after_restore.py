"""Take tables out of a server that was just restored for them alone, and remove it again."""

from zbackup.jobs.clones.lifecycle import destroy
from zbackup.jobs.context import Context
from zbackup.jobs.copy.copy import Confirm, CopyReport, copier_of, copy, require_sensible
from zbackup.model.command_line import command_line
from zbackup.model.copying import CopyWish
from zbackup.model.errors import ZbackupError


def require_possible(ctx: Context, wish: CopyWish) -> None:
    """Look at what a copy needs before anything is restored. Raise UsageError, Refused or DatabaseError."""
    require_sensible(wish)
    copier_of(ctx).require_account(wish.schemas)


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
