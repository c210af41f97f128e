"""Copy tables or collections of a clone into production: look, plan, ask, act, report."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyWish, Difference
from zbackup.features.copyback.ports import Copier
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.lifecycle import find, find_again, require_ready, working_on
from zbackup.jobs.clones.provision import password_file, serving
from zbackup.jobs.context import Context
from zbackup.model.clone import Clone
from zbackup.model.errors import Refused, UsageError
from zbackup.model.event_log import log
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName
from zbackup.proc import secure_files


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyReport:
    """`tables` is empty after a dry run. `differences` are those of tables whose rows are compared."""

    instance: str
    clone: str
    plan: CopyPlan
    differences: Mapping[TableName, Difference] = field(default_factory=dict)
    tables: tuple[CopiedTable, ...] = ()

    @property
    def refused(self) -> int:
        """Count the rows and views that production did not take."""
        return sum(table.refused for table in self.tables)


Confirm = Callable[[CopyReport], None]
"""Asked before production's own rows or tables are changed; raises what ends the copy."""


def require_sensible(wish: CopyWish) -> None:
    """Raise UsageError for wishes that contradict each other."""
    if wish.rows and wish.replace:
        raise UsageError("--replace exchanges the whole table: leave out --missing and --changed")
    if wish.replace and wish.where:
        raise UsageError("--replace with --where would drop the other rows: use --missing or --changed")
    if wish.into and not wish.into.is_schema and (len(wish.tables) > 1 or wish.tables[0].is_schema):
        raise UsageError(f"--into {wish.into} is one table, and more are copied: name a schema alone")


def copier_of(ctx: Context) -> Copier:
    """Return the copier of the instance. Raise Refused without one."""
    if ctx.copier is None:
        raise Refused(f"zbackup copies no tables of {ctx.engine_name}")
    return cast("Copier", ctx.copier())


def copy(
    contexts: Sequence[Context], name: str, wish: CopyWish, confirm: Confirm | None, *, dry_run: bool = False
) -> CopyReport:
    """Copy out of the clone of that name; see CopyWish. With `dry_run` nothing is changed in production.

    Nobody is asked where `confirm` is None: rows that are missing are put back as they are found then.

    Raise UsageError, NotFound, Refused or Taken before anything is changed; DatabaseError or
    VerificationFailed when it could not be finished: the same wish continues it.
    """
    require_sensible(wish)
    ctx, _, _ = find(contexts, name)
    with working_on(ctx, name, "zbackup copy"):
        clone, _ = find_again(ctx, name)
        require_ready(clone)
        require_true(clone)
        copier = copier_of(ctx)
        copier.require_account(wish.schemas)
        wish = replace(wish, clone=clone.id, given=bool(clone.login or clone.parent))
        with entered(ctx, clone, wish) as entrance, copier.session(entrance, wish, ctx.progress) as session:
            ctx.progress.phase("inspecting", "both sides")
            plan = session.plan()
            for note in plan.notes:
                ctx.progress.note(note)
            rows = [step for step in plan.steps if step.action == "rows"]
            compared = rows if wish.changed or confirm or dry_run else []
            differences = {step.source: session.compare(step) for step in compared}
            report = CopyReport(instance=ctx.instance, clone=name, plan=plan, differences=differences)
            if dry_run:
                return report
            if plan.overwrites and confirm:
                confirm(report)
            tables = session.act(plan)
            report = replace(report, tables=tables, differences=differences or _put_back(tables))
    log.info("copy.finished", clone=name, tables=len(report.tables), refused=report.refused)
    return report


def _put_back(tables: Sequence[CopiedTable]) -> dict[TableName, Difference]:
    """Return the differences of tables whose missing rows were put back as they were found."""
    return {
        table.source: Difference(missing=table.inserted + table.refused, changed=None)
        for table in tables
        if table.action == "rows"
    }


def require_true(clone: Clone) -> None:
    """Raise Refused for a clone whose rows are not production's."""
    if clone.masked:
        raise Refused(f"the clone {clone.name} is masked: its rows are not production's")


@contextmanager
def entered(ctx: Context, clone: Clone, wish: CopyWish) -> Iterator[Entrance]:
    """A way into the clone's server: as it runs, where it knows us, else through one started for us alone."""
    running = clone_datasets.server_process(ctx, clone.name) is not None
    if running and (known := copier_of(ctx).admits(_entrance(ctx, clone), wish)):
        yield known
        return
    if running:
        ctx.progress.note(
            f"the clone {clone.name} does not know the copy's account: its server is stopped, and started "
            "again when the copy ends"
        )
        clone_datasets.stop_server(ctx, clone.name)
    files = clone_datasets.open_again(ctx, clone)
    files = clone_datasets.in_sight_of(ctx, files, ctx.members(), [clone])
    try:
        with ctx.recovery.entered(files, ctx.progress) as entrance:
            yield entrance
    finally:
        if running:
            ctx.recovery.serve(files, serving(clone))


def _entrance(ctx: Context, clone: Clone) -> Entrance:
    socket, _ = ctx.recovery.connection(ctx.run_dir / clone.name, clone.port, clone.login)
    if not clone.login:
        return Entrance(socket=socket)
    password = secure_files.read_text(password_file(ctx, clone.name)).strip()
    return Entrance(socket=socket, user=clone.login, password=password)
