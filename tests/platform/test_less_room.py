"""Room of datasets that is less than their pool's, as ZFS gives it, and what is found of it."""

import os
from dataclasses import replace

import pytest

from tests.lab.pool import Pool, PoolError, run
from zbackup.model.space import DatasetSettings
from zbackup.plan.health.pool_space import of_space, too_reserved
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


@pytest.mark.parametrize(("room", "fits"), [(60, True), (45, True), (35, False), (1, False)])
def test_a_refreservation_that_leaves_no_room_for_a_snapshot_is_foreseen(
    pool: Pool, room: int, fits: bool
) -> None:
    """Data and log in one snapshot: what ZFS says of both is what is found, and the fix is named.

    What an earlier snapshot has is not counted again.
    """
    names = [pool.dataset(name).name for name in ("res data", "res log")]
    for size in (90, 40):
        for name in ("res data", "res log"):
            (pool.dataset(name).mountpoint / f"table{size}").write_bytes(os.urandom(size * MIB))
        if size == 90:
            run("zfs", "snapshot", *(f"{name}@before" for name in names))
    (whole, _) = looked(*names)
    run("zfs", "set", f"refreservation={whole.number('available') + (40 - room) * MIB}", names[0])
    try:
        settings = looked(*names)
        if fits:
            run("zfs", "snapshot", *(f"{name}@fits" for name in names))
            assert too_reserved(settings) is None
        else:
            with pytest.raises(PoolError, match="out of space"):
                run("zfs", "snapshot", *(f"{name}@fits" for name in names))
            ((severity, text), *_) = found(pool, *settings)
            assert severity == "critical" and text.startswith(f"the refreservation of {names[0]} leaves no ")
            reserved = too_reserved(settings)
            assert reserved and reserved.fix == f"zfs set refreservation=none '{names[0]}'"
    finally:
        run("zfs", "set", "refreservation=none", names[0])
        for name in names:
            run("zfs", "destroy", f"{name}@{'before,fits' if fits else 'before'}")


def test_a_refquota_does_not_hide_a_refreservation(pool: Pool) -> None:
    """With both, what ZFS gives as available is bounded by the refquota, and the pool's room is less."""
    made, other = pool.dataset("res ref"), pool.dataset("res other").name
    (made.mountpoint / "table").write_bytes(os.urandom(40 * MIB))
    run("zfs", "set", "refquota=60M", "refreservation=60M", made.name)
    (free,) = looked(other)
    run("zfs", "set", f"refreservation={free.number('available') - 30 * MIB}", other)
    (settings,) = looked(made.name)
    assert settings.number("available") <= 20 * MIB
    assert too_reserved((settings,))
    with pytest.raises(PoolError, match="out of space"):
        run("zfs", "snapshot", f"{made.name}@never")
    run("zfs", "set", f"refreservation={free.number('available') - 50 * MIB}", other)
    assert too_reserved(looked(made.name)) is None
    run("zfs", "snapshot", f"{made.name}@fits")
    run("zfs", "set", "refreservation=none", other)
