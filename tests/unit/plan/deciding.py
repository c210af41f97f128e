"""The retention planner asked in few words."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from zbackup.config.retention import tier
from zbackup.model.backup import Backup
from zbackup.model.retention import Retention, Span
from zbackup.plan.retention.retention import RetentionPlan, plan_retention

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = Span(1, "minute")
MAY = datetime(2024, 5, 1, tzinfo=UTC)


def policy(*rules: str, last: int = 0, minimum: int = 1, window: Span = MINUTE) -> Retention:
    return Retention(tiers=tuple(tier(r) for r in rules), last=last, minimum=minimum, window=window)


def plan(backups: list[Backup], rules: Retention, now: datetime, **pinned: list[str]) -> RetentionPlan:
    return plan_retention(backups, rules, now, BERLIN, {k.replace("_", "-"): v for k, v in pinned.items()})


def kept(found: RetentionPlan) -> dict[str, tuple[str, ...]]:
    return {k.backup.record.backup: tuple(map(str, k.reasons)) for k in found.keep}


def gone(found: RetentionPlan) -> list[str]:
    return [b.record.backup for b in found.destroy]
