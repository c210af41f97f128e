"""Decide which backups a destination should have. Pure."""

from collections.abc import Collection, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from zbackup.model.backup import Backup
from zbackup.model.retention import Retention
from zbackup.model.shipping import Inventory
from zbackup.plan.retention.retention import plan_retention


def wanted(
    backups: Sequence[Backup],
    inventory: Inventory,
    begun: Collection[int],
    policy: Retention,
    when: tuple[datetime, ZoneInfo],
) -> list[Backup]:
    """The backups to be there, oldest first: always the newest, and of the others those that the
    destination's own `policy` would keep.

    And those that are there but for their commit, and those of the snapshots in `begun` (guids), of
    which a part has been sent: what has arrived is not thrown away because there is something newer by now.
    """
    ready = sorted((b for b in backups if b.complete and b.finished), key=lambda b: b.createtxg)
    bases = [b for b in ready if b.record.purpose == "base"]
    if not bases:
        return []
    there = {c.guid for each in inventory.datasets for c in each.copies}
    chosen = {bases[-1].record.backup}
    if not policy.empty:
        now, zone = when
        kept = plan_retention(ready, policy, now, zone, {}).keep
        chosen |= {k.backup.record.backup for k in kept}
    chosen |= {b.record.backup for b in ready if any(s.guid in begun for s in b.snapshots)}
    chosen |= {b.record.backup for b in ready if all(s.guid in there for s in b.snapshots)}
    return [b for b in ready if b.record.backup in chosen]
