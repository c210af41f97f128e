"""A host that receives backups and is well, and what is said when it is not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from zbackup.model.shipping import ReceivedSnapshot, TargetDataset
from zbackup.model.space import Pool
from zbackup.plan.health.health import JobFacts
from zbackup.plan.health.received import LotFacts, ReceivedFacts, judge, unopenable

TIB = 1024**4
LOT = LotFacts(instance="shop", home="tank/b/shop", age=timedelta(minutes=40), most=timedelta(hours=26))
WELL = ReceivedFacts(
    root="tank/b",
    lots=(LOT,),
    unreadable=(),
    remains=0,
    held=(),
    pool=Pool(name="tank", size=8 * TIB, free=4 * TIB, fragmentation=3, health="ONLINE"),
    free_share=0.5,
    jobs=(JobFacts(job="prune:here", failures=0, message=""),),
    scheduled=True,
    daemon_runs=True,
)


def said(facts: ReceivedFacts) -> list[str]:
    return [f"{f.severity} {f.subject}: {f.text}" for f in judge(facts)]


def test_all_is_well() -> None:
    assert said(WELL) == []


def test_without_a_promise_nothing_is_late_and_without_a_schedule_no_daemon_is_missed() -> None:
    old = replace(LOT, age=timedelta(days=90), most=None)
    assert said(replace(WELL, lots=(old,), scheduled=False, daemon_runs=False)) == []


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (replace(WELL, lots=()), "critical backups: there is no backup below tank/b"),
        (
            replace(WELL, lots=(LOT, replace(LOT, home="tank/b/db2/shop", age=None))),
            "critical backups: there is no backup of shop in tank/b/db2/shop that is committed",
        ),
        (
            replace(WELL, lots=(LOT, replace(LOT, instance="x", age=timedelta(hours=27)))),
            "critical backups: the newest backup of x in tank/b/shop is 27 hours old, and 26 hours was "
            "promised",
        ),
        (
            replace(WELL, unreadable=(("tank/b/shop/my@z1", "version 9"), ("x@z", "y"))),
            "warning backups: tank/b/shop/my@z1 and so its backup cannot be read: version 9 (and 1 more)",
        ),
        (
            replace(WELL, log_problems=(("shop", "binlog.000007 has 5 bytes"), ("x", "y"))),
            "warning archived log: of shop: binlog.000007 has 5 bytes (and 1 more)",
        ),
        (
            replace(WELL, remains=2),
            "warning prune: of 2 backups a prune that was cut short left a part",
        ),
        (
            replace(WELL, held=(("tank/b/shop/my@z1", "zbackup-restore:db1:shop:offsite:r1"),)),
            "advice holds: tank/b/shop/my@z1 is held by zbackup-restore:db1:shop:offsite:r1",
        ),
        (
            replace(WELL, jobs=(JobFacts(job="prune:here", failures=3, message="no"),)),
            "critical prune:here: failed 3 times in a row, last: no",
        ),
        (
            replace(WELL, daemon_runs=False),
            "critical daemon: something is to be done here on schedule, but no zbackup daemon runs",
        ),
        (replace(WELL, free_share=0.15), "warning space: tank/b has 15% of its room left"),
        (replace(WELL, free_share=0.05), "critical space: tank/b has 5% of its room left"),
        (
            replace(WELL, pool=replace(WELL.pool, health="DEGRADED")),
            "critical pool: tank is DEGRADED",
        ),
        (
            replace(WELL, pool=replace(WELL.pool, free=TIB), free_share=0.125),
            "warning space: tank has 12% free",
        ),
    ],
)  # fmt: skip
def test_what_is_not_well_is_said_once(facts: ReceivedFacts, text: str) -> None:
    assert said(facts) == [text]


def test_a_full_pool_here_stops_no_database() -> None:
    (finding,) = judge(replace(WELL, pool=replace(WELL.pool, free=TIB), free_share=0.125))
    assert "nothing more can be received" in finding.why


def test_a_copy_whose_salt_is_not_that_of_its_encryption_root_is_opened_by_no_key() -> None:
    """Unless both were sent: then the stream that brings it the same salt may be on its way."""

    def target(name: str, root: str, salt: str, *, copied: bool = True) -> TargetDataset:
        copies = (ReceivedSnapshot(name="s", guid=1),) if copied else ()
        return TargetDataset(name=name, dataset=f"b/{name}", copies=copies, encryption_root=root, salt=salt)

    home = target("shop", "b", "7", copied=False)
    own, inherited = target("shop/own", "b/shop/own", "8"), target("shop/inherited", "b", "7")
    overwritten, shared = target("shop/gone", "b", "8"), target("shop/shared", "b/shop/own", "9")
    found = unopenable([home, own, inherited, overwritten, shared])
    assert found == [("b/shop/gone", "b")]
    assert unopenable([target("shop", "", "", copied=False), target("shop/plain", "", "")]) == []
    assert unopenable([overwritten]) == [], "nothing tells the salt of that root"
    (finding,) = judge(replace(WELL, shut=found))
    assert (finding.severity, finding.subject) == ("critical", "keys") and "b/shop/gone" in finding.text
