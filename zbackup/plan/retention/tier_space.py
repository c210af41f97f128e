"""Tell what each rule of the retention holds, so that people see what they pay for. Pure."""

from dataclasses import dataclass

from zbackup.plan.retention.retention import RetentionPlan

GOING = "to be pruned"


@dataclass(frozen=True, slots=True)
class TierSpace:
    """The number of backups that are there for a reason, and the bytes that only their snapshots hold.

    What several snapshots share is counted with none of them.
    """

    tier: str
    backups: int
    used: int


def by_tier(plan: RetentionPlan) -> tuple[TierSpace, ...]:
    """Each backup counts once, with its first reason; what will go at the next prune comes last."""
    found: dict[str, list[int]] = {}
    rows = [(kept.reasons[0].rule, kept.backup) for kept in plan.keep]
    for tier, backup in [*rows, *((GOING, backup) for backup in plan.destroy)]:
        found.setdefault(tier, []).append(sum(s.used for s in backup.snapshots))
    return tuple(TierSpace(tier, len(sizes), sum(sizes)) for tier, sizes in found.items())
