"""Check on the recovered server that a search of the log found the right transaction: plan.recovery.proof."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import CLONE_PROPERTIES
from zbackup.jobs.clones.clone_datasets import PART, SECOND, SECOND_ORIGIN, SNAPSHOT
from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.model.clone import Clone
from zbackup.model.errors import DatabaseError, Disproved, Refused, ReplayFailed, ZbackupError
from zbackup.model.moment import local_text
from zbackup.model.proof import NEXT, Proof, ProofSubject
from zbackup.model.recovery import Recovered, RecoveryFiles
from zbackup.model.relocation import Relocation
from zbackup.model.table_name import TableName
from zbackup.plan.recovery.proof import goes_on, judge
from zbackup.proc import secure_files

LIMIT_S = 600.0


@contextmanager
def second_clone(ctx: Context, clone: Clone, files: RecoveryFiles) -> Iterator[RecoveryFiles]:
    """Yield the files of a second clone of the first clone's current state; remove it afterwards."""
    container = f"{ctx.clones}/{clone.name}"
    home, own = f"{container}/{SECOND}", {**CLONE_PROPERTIES, PART: clone.id}
    count = len(files.record.members)
    try:
        ctx.zfs.snapshot(
            [f"{container}/{n}@{SECOND_ORIGIN}" for n in range(count)], {SNAPSHOT: clone.id}, timeout=LIMIT_S
        )
        ctx.zfs.create(home, own)
        ctx.zfs.mount(home)
        taken = {s.dataset: s for s in ctx.zfs.snapshots_below(container) if s.name == SECOND_ORIGIN}
        parts = {f"{home}/{n}": taken[f"{container}/{n}"] for n in range(count)}
        ctx.zfs.clone_each(parts, own)
        for part in parts:
            ctx.zfs.mount(part)
        yield _files(ctx, clone, files)
    finally:
        _remove(ctx, clone)


def _files(ctx: Context, clone: Clone, files: RecoveryFiles) -> RecoveryFiles:
    home = files.home / SECOND
    moves = tuple((original, str(home / str(n))) for n, (original, _) in enumerate(files.where.moves))
    second = replace(
        files, where=Relocation(moves), home=home, run=clone_datasets.second_run(ctx, clone.name)
    )
    # Its server need not see the first one's files, nor those of a log.
    return replace(second, hide=(*files.hide, *(now for _, now in files.where.moves)), beside=())


def _remove(ctx: Context, clone: Clone) -> None:
    """Remove it, or note that it will go with the clone."""
    try:
        clone_datasets.destroy_second(ctx, clone)
    except ZbackupError as failure:
        ctx.progress.note(
            f"{ctx.clones}/{clone.name}/{SECOND} cannot be removed now, and goes with the clone: {failure}"
        )


def prove(
    ctx: Context,
    made: tuple[Clone, RecoveryFiles],
    plan: RestorePlan,
    recovered: Recovered,
    subject: ProofSubject,
) -> Proof | None:
    """Check the recovered server, and its state one transaction later in a second clone.

    Raise Disproved if the search found the wrong transaction. Return None if the engine reported no sights.
    """
    if not recovered.sights:
        return None
    proof = judge(subject, recovered.sights)
    if proof.result == "open" and len(recovered.sights) == 1 and not recovered.sights[0].unclear:
        ctx.progress.phase("proving", "the state one transaction later")
        proof = _one_later(ctx, made, plan, recovered, subject)
    secure_files.remove_tree(made[1].home / NEXT)
    if proof.result == "open":
        ctx.progress.note(f"warning: the result of the search could not be checked: {proof.text}")
    if proof.result in ("proved", "open"):
        return proof
    in_production = has_table(ctx, subject.table) if proof.result == "remains" else None
    raise Disproved(_told(ctx, proof, recovered), _found(recovered), goes_on=goes_on(proof, in_production))


def _one_later(
    ctx: Context,
    made: tuple[Clone, RecoveryFiles],
    plan: RestorePlan,
    recovered: Recovered,
    subject: ProofSubject,
) -> Proof:
    clone, base = made
    following = recovered.first_skipped
    if following is None or plan.log is None:
        raise AssertionError("the engine saw something of no transaction")
    try:
        with second_clone(ctx, clone, base) as second:
            log = plan.log.record
            seen = ctx.recovery.step_on(second, base.home, log, following, subject, ctx.progress)
    except ReplayFailed as fails:
        if subject.table is None:
            return judge(subject, recovered.sights, str(fails))
        return Proof("remains", f"{judge(subject, recovered.sights).text}, and the statement fails: {fails}")
    except (ZbackupError, OSError) as problem:
        # What was recovered is there, whatever keeps it from being looked at again.
        return judge(subject, recovered.sights, str(problem))
    return judge(subject, (*recovered.sights, seen))


def has_table(ctx: Context, name: TableName | None) -> bool | None:
    """Whether production has the table; None if production cannot be asked."""
    if name is not None:
        with suppress(DatabaseError, Refused):
            return ctx.engine.has_table(name)
    return None


def _found(recovered: Recovered) -> str:
    return recovered.first_skipped.start if recovered.first_skipped else ""


def _told(ctx: Context, proof: Proof, recovered: Recovered) -> str:
    following = recovered.first_skipped
    if following is None:
        return f"in the recovered server, {proof.text}"
    name, at = following.gtid or following.start, local_text(following.committed, ctx.zone)
    return f"{name} of {at} is not what you asked for: in the recovered server, {proof.text}"
