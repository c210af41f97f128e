"""Catalogues with records that somebody made up: reading and planning end, and all other backups count."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit import hostile
from tests.unit.examples import examples
from tests.unit.plan.histories import made, policies
from tests.unit.samples import NOON, PLAIN
from zbackup.catalog.local import group
from zbackup.destinations.copies import by_server, committed
from zbackup.model.backup import Backup
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import ZbackupError
from zbackup.model.log import LogPosition, Transaction
from zbackup.model.record import PREFIX, to_properties
from zbackup.model.retention import Retention
from zbackup.model.shipping import COMMITTED, PARTS, commit_properties
from zbackup.model.snapshot import Snapshot
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import Gtid
from zbackup.plan.recovery.before_transaction import covering, plan_before, plan_unseen, with_known_log
from zbackup.plan.recovery.recovery import drill_target, plan_recovery
from zbackup.plan.recovery.window import LiveLog, recovery_window
from zbackup.plan.retention.retention import plan_retention

BERLIN = ZoneInfo("Europe/Berlin")
DAY = timedelta(days=1)


def snapshot(txg: int, properties: dict[str, str], dataset: str = "tank/my db") -> Snapshot:
    return Snapshot(
        dataset=dataset,
        name=f"zbackup-{txg}",
        guid=txg * 1000,
        createtxg=txg,
        created=NOON,
        properties=tuple(sorted(properties.items())),
    )


def whole(txg: int, properties: dict[str, str]) -> list[Snapshot]:
    """A copy of a backup of one dataset, committed as far as its properties let it be."""
    marks = {PARTS: f'["{txg * 1000}"]', COMMITTED: "today", PREFIX + "backup": f"forged-{txg}"}
    return [snapshot(txg, {PREFIX + "members": '[["tank/my db","/srv/my db"]]'} | properties | marks)]


def ends(act: Callable[[], object]) -> None:
    try:
        act()
    except ZbackupError:
        return


@given(st.lists(hostile.properties, min_size=1, max_size=8), policies, st.booleans())
@settings(max_examples=examples(100))
def test_every_plan_ends(forged: list[dict[str, str]], rules: Retention, synchronised: bool) -> None:
    copies = committed([s for n, each in enumerate(forged, 1) for s in whole(n, each)])
    backups, _ = group([snapshot(n, each) for n, each in enumerate(forged, 1)])
    for there in (list(copies.backups), backups):
        plans_end(there, rules, Reading("boot", 1e6, synchronised))


def plans_end(backups: Sequence[Backup], rules: Retention, reading: Reading) -> None:
    now = NOON + DAY
    by_server(backups)
    plan_retention(backups, rules, now, BERLIN, {}, reading)
    for live in (None, LiveLog(PLAIN.log_id or "log", "binlog.000001:4")):
        found = recovery_window(backups, live, now)
        found.lacking(now - DAY, now)
        if found.overall:
            found.overall.describe(BERLIN)
    for target in (NOON, now, *(b.record.complete_to for b in backups if b.record.complete_to)):
        ends(lambda target=target: plan_recovery(target, max(now, target), backups, BERLIN))  # type: ignore[misc]
    ends(lambda: drill_target(backups))
    covering(with_known_log(backups))
    for name in (
        Gtid("mysql", PLAIN.server_uuid, 5),
        Gtid("mariadb", "0-1", 5),
        LogPosition.of("binlog.000012", 9),
    ):
        ends(lambda name=name: plan_unseen(name, backups))  # type: ignore[misc]
        logs = frozenset(b.record.log_id for b in backups)
        transaction = Transaction(start="binlog.000012:9", end="binlog.000012:99", committed=NOON)
        before = BeforeTransaction(name=name, transaction=transaction, logs=logs)
        ends(lambda before=before: plan_before(before, now, backups, BERLIN))  # type: ignore[misc]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log_from", "binlog." + "9" * 5000 + ":4"),
        ("as_of", "0001-01-01T00:00:00+00:00"),
        ("clock", "b inf free"),
    ],
)
def test_one_that_cannot_be_read_is_named_and_all_others_count(name: str, value: str) -> None:
    """Here and at a destination."""
    good = [made(n, NOON + n * DAY) for n in (1, 2)]
    bad = to_properties(good[0].record) | {PREFIX + name: value, PREFIX + "backup": "bad"}
    backups, unreadable = group([*(s for b in good for s in recorded(b)), snapshot(9, bad)])
    assert [b.record.backup for b in backups] == ["backup-1", "backup-2"]
    assert [(n, f"zbackup:{name}" in why) for n, why in unreadable] == [("tank/my db@zbackup-9", True)]
    marks = commit_properties(good[0].record, (9000, 9001), "today")
    hostile_copies = [
        snapshot(9, marks | bad),
        replace(snapshot(9, marks | bad, "tank/my db/bin log"), guid=9001),
    ]
    copies = committed([*(s for b in good for s in recorded(b)), *hostile_copies])
    assert [b.record.backup for b in copies.backups] == ["backup-1", "backup-2"]
    assert [(n, f"zbackup:{name}" in why) for n, why in copies.unreadable] == [("tank/my db@zbackup-9", True)]


def recorded(backup: Backup) -> list[Snapshot]:
    marks = commit_properties(backup.record, [s.guid for s in backup.snapshots], "today")
    return [replace(s, properties=tuple(sorted(marks.items()))) for s in backup.snapshots]
