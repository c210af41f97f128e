"""Say how a member of a MongoDB replica set is made of a backup: a dev clone has forgotten the set."""

from zbackup.jobs.context import Context
from zbackup.jobs.dev_clones.create import CreateOptions, plan_source
from zbackup.model.errors import UsageError
from zbackup.plan.clones.clone_name import require_good
from zbackup.plan.clones.member_steps import MemberStep, member_steps


def plan_member(ctx: Context, options: CreateOptions) -> tuple[MemberStep, ...]:
    """Look, and change nothing. Raise UsageError, NotFound, or Refused for a server that is in no set."""
    if options.moment or options.parent or options.count > 1:
        raise UsageError("a member is made of a backup, one at a time: no --at, --from-clone or --count")
    name = options.name or f"{ctx.instance.lower()}-member"
    require_good(name)
    return member_steps(plan_source(ctx, options), name, ctx.zone)
