"""Room of datasets that is less than their pool's, as ZFS gives it, and what is found of it."""

import os
from dataclasses import replace

from tests.lab.pool import Pool, run
from zbackup.model.space import DatasetSettings
from zbackup.plan.health.pool_space import of_space
from zbackup.zfs.facts import ZfsFacts

MIB = 1 << 20


def looked(*names: str) -> tuple[DatasetSettings, ...]:
    run("zpool", "sync")
    return ZfsFacts().settings(names)


def found(pool: Pool, *settings: DatasetSettings) -> list[tuple[str, str]]:
    """What is said of datasets where their pool is half empty."""
    half = replace(ZfsFacts().pool(pool.name), size=1 << 40, free=1 << 39)
    return [(f.severity, f.text) for f in of_space(half, {}, settings)]


def test_a_refquota_bounds_the_data_and_no_snapshot_takes_of_it(pool: Pool) -> None:
    made = pool.dataset("less ref", refquota="40M")
    for number in range(3):
        (made.mountpoint / "table").write_bytes(os.urandom(20 * MIB))
        run("zfs", "snapshot", f"{made.name}@s{number}")
    (known,) = looked(made.name)
    assert known.number("usedbysnapshots") >= 38 * MIB, "what was overwritten is in snapshots alone"
    assert known.number("available") == known.number("refquota") - known.number("referenced")
    assert abs(known.number("referenced") - known.number("usedbydataset")) < MIB
    assert found(pool, known) == []
    (made.mountpoint / "more").write_bytes(os.urandom(15 * MIB))
    (known,) = looked(made.name)
    ((severity, text),) = found(pool, known)
    assert severity == "warning" and text.startswith(f"{made.name} has 1") and "room left" in text


def test_a_quota_bounds_what_is_below_it_with_its_snapshots(pool: Pool) -> None:
    above = pool.dataset("less quota", quota="40M")
    made = pool.dataset("less quota/db")
    for number in range(2):
        (made.mountpoint / "table").write_bytes(os.urandom(17 * MIB))
        run("zfs", "snapshot", f"{made.name}@s{number}")
    (known,) = looked(made.name)
    nearest = known.above[0]
    assert (nearest.name, known.number("quota")) == (above.name, 0)
    assert abs(known.number("available") - (nearest.number("quota") - nearest.number("used"))) < MIB
    ((severity, text),) = found(pool, known)
    assert severity == "warning" and text.startswith(f"{above.name} has 1")
