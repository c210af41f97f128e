"""Check on the recovered server that a search of the log found the right transaction: plan.recovery.proof."""

from contextlib import suppress

from zbackup.jobs.clones import second_clone
from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.model.clone import Clone
from zbackup.model.errors import DatabaseError, Disproved, Refused, ReplayFailed, ZbackupError
from zbackup.model.moment import local_text
from zbackup.model.proof import NEXT, Proof, ProofSubject
from zbackup.model.recovery import Recovered, RecoveryFiles
from zbackup.model.table_name import TableName
from zbackup.plan.recovery.proof import goes_on, judge
from zbackup.proc import secure_files


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
        with second_clone.made(ctx, clone, base) as second:
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
