"""Backups that each rule of the retention keeps."""

from tests.unit.samples import backup
from zbackup.model.retention import Reason
from zbackup.plan.retention.retention import KeptBackup, RetentionPlan
from zbackup.plan.retention.tier_space import by_tier


def test_each_backup_counts_once_with_its_first_reason() -> None:
    backups = [backup(n, n, n) for n in range(1, 6)]
    plan = RetentionPlan(
        keep=(
            KeptBackup(backups[0], (Reason("daily", "2024-05-01"), Reason("hourly", "2024-05-01 10:00"))),
            KeptBackup(backups[1], (Reason("hourly", "2024-05-01 11:00 CEST"),)),
            KeptBackup(backups[2], (Reason("hourly", "2024-05-01 12:00 CEST"), Reason("the newest"))),
            KeptBackup(backups[3], (Reason("yearly", "2024"),)),
        ),
        destroy=(backups[4],),
    )
    assert [(t.tier, t.backups) for t in by_tier(plan)] == [
        ("daily", 1),
        ("hourly", 2),
        ("yearly", 1),
        ("to be pruned", 1),
    ]
    assert by_tier(RetentionPlan((), ())) == ()
