"""Backups that a target dataset holds."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import PLAIN, snapshots_of
from zbackup.destinations.copies import by_home, by_server, committed
from zbackup.model.backup import Backup
from zbackup.model.retention import CONDEMNED
from zbackup.model.shipping import COMMITTED, PARTS, commit_properties
from zbackup.model.snapshot import Snapshot


def arrived(name: str, txg: int, *, home: str = "vault/shop") -> list[Snapshot]:
    """Copies of a backup of two datasets, committed."""
    record = replace(PLAIN, backup=name)
    copies = snapshots_of(record, name, txg)
    properties = commit_properties(record, [s.guid for s in copies], "2024-05-01T12:00:00+00:00")
    return [
        replace(s, dataset=f"{home}/{s.dataset}", properties=tuple(sorted(properties.items())))
        for s in copies
    ]


def without(snapshot: Snapshot, *names: str) -> Snapshot:
    return replace(snapshot, properties=tuple((k, v) for k, v in snapshot.properties if k not in names))


def with_property(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    return replace(snapshot, properties=tuple(sorted({**dict(snapshot.properties), name: value}.items())))


def test_what_is_committed_is_listed_by_where_it_lies() -> None:
    one, two = arrived("one", 100), arrived("two", 200)
    found = committed([*two, *one])
    assert [b.snapshots for b in found.backups] == [tuple(one), tuple(two)]
    assert all(b.complete and b.finished for b in found.backups)


@given(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)))
def test_with_any_part_or_mark_missing_it_is_not(gone: set[int], unmarked: set[int]) -> None:
    copies = [*arrived("one", 100), *arrived("two", 200)]
    there = [without(s, COMMITTED) if n in unmarked else s for n, s in enumerate(copies) if n not in gone]
    names = [b.record.backup for b in committed(there).backups]
    lost = gone | unmarked
    assert names == [name for name, parts in (("one", {0, 1}), ("two", {2, 3})) if not parts & lost]


def test_one_that_claims_to_be_another_does_not_take_its_place() -> None:
    """Somebody who can only add sends, later, what says it is a backup that is there."""
    real, forged = arrived("one", 100), arrived("one", 900)
    assert [b.snapshots for b in committed([*forged, *real]).backups] == [tuple(real)]


def test_a_record_that_cannot_be_read_is_told_of() -> None:
    first, second = arrived("one", 100)
    first = with_property(first, "zbackup:version", "99")
    found = committed([first, second])
    assert found.backups == () and "newer zbackup" in found.unreadable[0][1]


def test_what_was_to_go_is_not_listed_and_what_remains_of_it_is_known() -> None:
    first, second = arrived("one", 100)
    first = with_property(first, CONDEMNED, "2024")
    for there in ([first, second], [first]):
        found = committed(there)
        assert found.backups == () and [b.snapshots for b in found.remains] == [tuple(there)]


def test_a_part_that_is_missing_for_another_reason_is_never_among_the_remains() -> None:
    first, second = arrived("one", 100)
    assert committed([first]).remains == () and committed([second]).remains == ()


def test_one_that_lists_fewer_parts_than_its_record_has_members_is_none() -> None:
    """Somebody who can only add commits one dataset of two: a restore would have half of the data."""
    first, second = arrived("one", 100)
    alone = with_property(first, PARTS, f'["{first.guid}"]')
    assert committed([alone, second]).backups == ()
    assert committed([without(first, "zbackup:version"), second]).backups == ()


def test_what_lies_where_is_told_by_the_instance_s_name() -> None:
    ours, others = arrived("one", 100, home="vault/far/shop"), arrived("two", 200, home="vault/cart")
    strange = [without(s, "zbackup:instance") for s in arrived("three", 300)]
    found = by_home("vault", [*ours, *others, *strange])
    assert found == {"vault/far/shop": ours, **{s.dataset: [s] for s in others}}


def test_servers_that_take_turns_in_one_place_are_two_and_one_set_up_anew_is_one() -> None:
    def of(name: str, number: int, server: str) -> Backup:
        (found,) = committed(arrived(name, number)).backups
        return replace(found, record=replace(found.record, server_uuid=server))

    a, b, c, d = (
        of(n, i * 10, s) for n, i, s in (("a", 1, "x"), ("b", 2, "y"), ("c", 3, "x"), ("d", 4, "x"))
    )
    assert by_server([a, b, c, d]) == [[a, c, d], [b]]
    assert by_server([a, c, b]) == [[a, c, b]]


def test_a_restore_believes_no_more_of_a_record_than_may_be() -> None:
    found = committed(arrived("one", 100))
    assert [b.record for b in found.to_restore().backups] == [
        b.record.from_elsewhere() for b in found.backups
    ]
    assert found.to_restore().backups[0].snapshots == found.backups[0].snapshots


def test_lines_tell_servers_apart_also_when_datasets_are_added() -> None:
    """One that had one dataset, then another as well, then the other only; and one beside it."""
    lines = ("a", "b", "x", "a", "x")
    alone = [committed(arrived(f"{n}", n * 10, home=f"vault/{n}")).backups[0] for n in range(1, 6)]
    moved = [
        replace(b, snapshots=tuple(replace(s, dataset=line) for s in b.snapshots[:1]))
        for b, line in zip(alone, lines, strict=True)
    ]
    both = replace(moved[3], snapshots=tuple(replace(moved[3].snapshots[0], dataset=d) for d in ("a", "b")))
    found = by_server([*moved[:3], both, moved[4]])
    assert [[b.record.backup for b in server] for server in found] == [["1", "2", "4"], ["3", "5"]]
    assert by_server([]) == []
