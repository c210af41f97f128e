"""Tell what the server that runs says of its log, before a restore takes that for everything that was
written.
"""

from collections.abc import Mapping, Sequence

from zbackup.jobs.context import Context
from zbackup.jobs.restore.make_plan import RestorePlan
from zbackup.jobs.restore.source import LATEST
from zbackup.model.backup import Backup
from zbackup.model.command_line import command_line
from zbackup.model.errors import NotRecoverable, ZbackupError
from zbackup.model.moment import Moment
from zbackup.model.record import LOG_ENDED, ends_log, leaves_out
from zbackup.model.target import RestoreTarget
from zbackup.plan.recovery.coverage import first_break


def what_keeps_log(ctx: Context, server_uuid: str) -> tuple[str, ...]:
    """Return why what the server writes now is not in its log; () when it is, or when the server does not
    answer.

    A recovery must be possible while the server is down.
    """
    try:
        facts = ctx.engine.inspect()
    except (ZbackupError, OSError) as failure:
        ctx.progress.note(f"the server was not asked whether it still writes its log: {failure}")
        return ()
    if facts.server_uuid != server_uuid:
        return ()
    return tuple(blocker for blocker in facts.blockers if ends_log(blocker) or leaves_out(blocker))


def require_in_log(ctx: Context, plan: RestorePlan) -> Mapping[str, str]:
    """Return what is to be recorded with a snapshot of the live log: whether the server writes it no more.

    Raise NotRecoverable when what is asked for may be missing there.
    """
    base, target = plan.base, plan.target
    why = what_keeps_log(ctx, base.record.server_uuid)
    if not why:
        return {}
    lacking = "; ".join(why)
    alone = f"{command_line('--to-backup', base.name)} restores that backup as it is"
    if not all(ends_log(blocker) for blocker in why):
        raise NotRecoverable(f"the log behind {base.name} is not whole: {lacking}; {alone}")
    if not _takes_what_there_is(target) and not (plan.replay and plan.replay.first_skipped):
        raise NotRecoverable(
            f"the log behind {base.name} ends before that, and what the server wrote since is in none: "
            f"{lacking}; --to latest restores up to the log's end, and {alone}"
        )
    ctx.progress.note(f"the server writes no log any more ({lacking}): what it wrote since is left out")
    return {LOG_ENDED: lacking}


def require_all_read(ctx: Context, plan: RestorePlan, behind: str) -> None:
    """Raise NotRecoverable where the server's log is read through the server, and that does not answer: what
    was not read before is wanted, maybe. `behind` is what it said, "" for a log that is here."""
    if not behind:
        return
    if not _takes_what_there_is(plan.target) and not (plan.replay and plan.replay.first_skipped):
        raise NotRecoverable(
            "what the server wrote last is in its encrypted log alone, which it has to send (plain_log): "
            f"{behind}; start it, or take what was read before: --to latest"
        )
    if not (plan.replay and plan.replay.first_skipped):
        ctx.progress.note(f"what the server wrote last is missing, as its log is read from it: {behind}")


def where_log_ended(plan: RestorePlan, backups: Sequence[Backup]) -> Backup | None:
    """The snapshot that holds the end of the log behind the base, where that is all that is asked for."""
    if plan.log is not None or not _takes_what_there_is(plan.target):
        return None
    broken = first_break(plan.base, None, backups)
    return broken if broken and broken.record.log_ended else None


def _takes_what_there_is(target: RestoreTarget) -> bool:
    return isinstance(target, Moment) and target.is_now and target.text == LATEST
