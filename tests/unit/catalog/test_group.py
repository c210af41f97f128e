"""Snapshots become backups: whatever their order, with pieces missing, damaged or copied."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import PLAIN, at, snapshots_of
from zbackup.catalog.local import group
from zbackup.model.record import Record
from zbackup.model.snapshot import Snapshot

OTHER = replace(
    PLAIN,
    backup="4b3c0e9e-0000-4000-8000-000000000002",
    members=(
        ("tank/my db", "/srv/my db"),
        ("tank/a", "/srv/a"),
        ("tank/my db/bin log", "/srv/my db/bin log"),
    ),
)
BLOG = replace(PLAIN, backup="4b3c0e9e-0000-4000-8000-000000000003", instance="blog")


def with_property(snapshot: Snapshot, **values: str) -> Snapshot:
    changed = dict(snapshot.properties) | {f"zbackup:{key}": value for key, value in values.items()}
    return replace(snapshot, properties=tuple(sorted(changed.items())))


@given(
    st.permutations(snapshots_of(PLAIN, "a", 1) + snapshots_of(OTHER, "b", 2) + snapshots_of(BLOG, "c", 3))
)
def test_the_order_of_snapshots_means_nothing(snapshots: list[Snapshot]) -> None:
    backups, unreadable = group(snapshots)
    assert unreadable == []
    assert [b.record for b in backups] == [PLAIN, OTHER, BLOG]
    for backup in backups:
        assert backup.complete and backup.finished
        assert [s.dataset for s in backup.snapshots] == [dataset for dataset, _ in backup.record.members]


@given(st.permutations(snapshots_of(OTHER)), st.integers(1, 2))
def test_a_backup_with_a_lost_snapshot_is_incomplete(snapshots: list[Snapshot], left: int) -> None:
    (backup,), _ = group(snapshots[:left])
    assert not backup.complete
    order = [dataset for dataset, _ in OTHER.members]
    assert [s.dataset for s in backup.snapshots] == sorted(
        (s.dataset for s in snapshots[:left]), key=order.index
    )


@given(st.permutations([0, 1, 2]))
def test_the_first_members_record_counts(order: list[int]) -> None:
    """Killed while the end was written down: the first member, written last, does not have it yet."""
    unfinished = replace(OTHER, as_of=None, complete_to=None)
    early, late = snapshots_of(unfinished), snapshots_of(OTHER)
    snapshots = [early[0], late[1], late[2]]
    (backup,), _ = group([snapshots[n] for n in order])
    assert backup.complete and not backup.finished
    snapshots = [late[0], early[1], early[2]]
    (backup,), _ = group([snapshots[n] for n in order])
    assert backup.finished and backup.record == OTHER


def test_snapshots_of_others_are_passed_over() -> None:
    foreign = replace(snapshots_of(PLAIN)[0], name="autosnap", guid=9, properties=(("com.sun:x", "y"),))
    backups, unreadable = group([foreign, *snapshots_of(PLAIN)])
    assert (len(backups), unreadable) == (1, [])


def test_a_damaged_record_is_named_and_does_not_hide_the_others() -> None:
    damaged = with_property(snapshots_of(OTHER, "bad", 7)[0], members="5")
    newer = with_property(snapshots_of(BLOG, "new", 8)[0], version="2")
    backups, unreadable = group([damaged, *snapshots_of(PLAIN), newer])
    assert [b.record for b in backups] == [PLAIN]
    assert [name for name, _ in unreadable] == ["tank/my db@bad", "tank/my db@new"]
    assert unreadable[0][1].startswith("property zbackup:members is damaged")
    assert "newer zbackup" in unreadable[1][1]


def test_copies_received_into_other_datasets_are_not_members() -> None:
    """`zfs send -p` takes the properties along; the original must not look broken for it."""
    copies = [replace(s, dataset=f"tank/copy/{n}", guid=n) for n, s in enumerate(snapshots_of(PLAIN))]
    originals = snapshots_of(PLAIN)
    (backup,), _ = group([*copies, *originals])
    assert backup.complete
    assert list(backup.snapshots) == originals


def test_a_copy_does_not_stand_in_for_a_lost_member() -> None:
    first, second = snapshots_of(PLAIN)
    copy = replace(first, dataset="tank/copy", guid=9)
    (backup,), _ = group([first, copy])
    assert not backup.complete
    assert group([first, second])[0][0].complete


def test_a_pool_imported_under_another_name_keeps_its_backups() -> None:
    moved = [replace(s, dataset=s.dataset.replace("tank", "rescue")) for s in snapshots_of(OTHER)]
    (backup,), _ = group(moved[::-1])
    assert backup.complete
    assert [s.dataset for s in backup.snapshots] == ["rescue/my db", "rescue/a", "rescue/my db/bin log"]


def test_a_renamed_pool_does_not_make_a_lost_member_whole() -> None:
    moved = [replace(s, dataset=s.dataset.replace("tank", "rescue")) for s in snapshots_of(OTHER)]
    for lost in range(3):
        (backup,), _ = group([s for n, s in enumerate(moved) if n != lost])
        assert not backup.complete


def test_scattered_copies_alone_are_an_incomplete_backup() -> None:
    first, second = snapshots_of(PLAIN)
    scattered = [replace(first, dataset="x/one"), replace(first, dataset="y"), replace(second, dataset="z/b")]
    (backup,), _ = group(scattered)
    assert not backup.complete and backup.name == first.name


def test_backups_are_in_the_order_of_the_pool_not_of_the_clock() -> None:
    first: Record = replace(PLAIN, backup="first", taken=at(500))
    second: Record = replace(PLAIN, backup="second", taken=at(100))
    backups, _ = group(snapshots_of(second, "s", 20) + snapshots_of(first, "f", 10))
    assert [b.record.backup for b in backups] == ["first", "second"]


def test_what_was_put_aside_counts_under_its_old_name() -> None:
    """As after a switch: each dataset was renamed by itself, and has no common place with the others."""
    aside = {dataset: f"{dataset.replace('/my db', '/my db-before-1')}" for dataset, _ in OTHER.members}
    moved = [replace(s, dataset=aside[s.dataset]) for s in snapshots_of(OTHER)]
    (backup,), _ = group(moved, {now: then for then, now in aside.items()})
    assert backup.complete
    assert [s.dataset for s in backup.snapshots] == [aside[dataset] for dataset, _ in OTHER.members]
