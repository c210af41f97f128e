"""Work with a server that is restored for that alone, which nobody else can reach. It is gone afterwards."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from zbackup.jobs.clones.claim import announce
from zbackup.jobs.clones.temporary import own_name, what_is_left
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import Finish, RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.clone import Clone
from zbackup.model.recovery import Entrance, RecoveryFiles
from zbackup.model.target import RestoreTarget
from zbackup.plan.clones.clone_name import undo_names

Result = TypeVar("Result")


def on_a_clone(ctx: Context, before: RestoreTarget, use: Callable[[Entrance], Result]) -> Result:
    """Return what `use` does with a server that has everything up to the target.

    The clone is never finished, so that the next run removes what a killed one leaves of it. Raise what
    restore() raises, and what `use` does.
    """
    done: list[Result] = []

    def hand_over(files: RecoveryFiles, clone: Clone) -> Clone:
        with ctx.recovery.entered(files, ctx.progress) as entrance:
            done.append(use(entrance))
        return clone

    finish = Finish(begin=partial(announce, ctx), hand_over=hand_over)
    with own_name(ctx, undo_names(ctx.instance), "zbackup undo") as name:
        restore(ctx, before, RestoreOptions(name=name, finish=finish), locked=True)
    what_is_left(ctx, name)
    return done[0]
