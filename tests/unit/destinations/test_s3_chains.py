"""A bucket as a planner sees it: copies, bases, what was begun, and where a chain is to end."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.unit.destinations.bucket import DATASET, INNER, part, record
from zbackup.config.s3 import S3
from zbackup.destinations.s3.chains import BucketContents, in_order, inventory_of
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import Manifest, PartPage
from zbackup.destinations.s3.restorable import copies_of, needed_by, needed_with_lost, steps_to
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.model.errors import VerificationFailed
from zbackup.model.record import PREFIX, to_properties
from zbackup.model.shipping import Partial
from zbackup.model.snapshot import Snapshot

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
NO_LIMIT = S3(max_chain=0)
Pair = tuple[int, int | None]


def sid(guid: int, base: int | None = None, dataset: str = DATASET) -> StreamId:
    return StreamId(dataset=dataset, guid=guid, base=base)


def page(guid: int, base: int | None = None, dataset: str = DATASET, **more: Any) -> PartPage:
    values = {
        "dataset": dataset,
        "snapshot": f"zbackup-{guid}",
        "guid": guid,
        "base": base,
        "size": 9,
        "stored": 4,
    }
    return PartPage(**(values | {"raw": False, "stream_sha256": bytes(32)} | more))


def manifest(number: int, *parts: PartPage, **more: str) -> Manifest:
    written = to_properties(record(number, *(p.dataset for p in parts)))
    fields = {key.removeprefix(PREFIX): value for key, value in written.items()} | more
    return Manifest(committed="", host="", record=fields, parts=parts)


def contents(*manifests: Manifest, extra: Iterable[StreamId] = (), **more: Any) -> BucketContents:
    """All streams that the manifests name are whole, one a minute, and the extra ones later."""
    streams = [sid(p.guid, p.base, p.dataset) for m in manifests for p in m.parts]
    indexes = {stream: NOON + timedelta(minutes=n) for n, stream in enumerate([*streams, *extra])}
    return BucketContents(**({"indexes": indexes, "headers": indexes, "manifests": manifests} | more))


def targets(found: BucketContents, rules: S3 | None = None, now: datetime = NOON) -> dict[str, Any]:
    return {
        d.name: d
        for d in inventory_of(
            found, "there", StorageSettings(table=rules or NO_LIMIT), now, needed_with_lost(found)
        ).datasets
    }


def test_each_dataset_has_its_own_copies_and_base() -> None:
    found = contents(
        manifest(1, page(11), page(21, dataset=INNER, raw=True)),
        manifest(2, page(12, 11), page(22, 21, INNER, raw=True)),
        extra=[sid(31), sid(32, 99)],
    )
    ours, inner = targets(found)[DATASET], targets(found)[INNER]
    assert [(c.guid, c.name, c.backup, c.parts, c.marked) for c in ours.copies] == [
        (11, "zbackup-11", "backup-1", (11, 21), True),
        (12, "zbackup-12", "backup-2", (12, 22), True),
        (31, "guid 31", "", (), False),
    ], "what is based on nothing is no copy"
    assert [c.guid for c in inner.copies] == [21, 22]
    assert (ours.bases, inner.bases) == ((12,), (22,)) and (ours.encrypted, inner.encrypted) == (False, True)
    assert ours.restartable and ours.partial is None


def test_what_was_begun_and_is_not_whole_is_in_part() -> None:
    whole = contents(manifest(1, page(11)))
    begun = {
        sid(11): NOON + timedelta(days=9),
        sid(12, 11): NOON,
        sid(13, 11): NOON + timedelta(1),
        sid(51, None, INNER): NOON + timedelta(2),
    }
    found = contents(manifest(1, page(11)), headers=begun)
    assert targets(found)[DATASET].partial.guid == 13 and targets(found)[INNER].partial.guid == 51
    assert targets(found)[INNER].copies == () == targets(found)[INNER].bases
    assert targets(whole)[DATASET].partial is None
    assert not targets(found)[INNER].encrypted


def test_what_lost_its_page_is_in_part_and_is_needed() -> None:
    backups = (manifest(1, page(11)), manifest(2, page(12, 11)))
    whole = contents(*backups)

    def found(*open_: StreamId, whole: set[StreamId]) -> Any:
        headers = {stream: NOON + timedelta(n) for n, stream in enumerate((sid(11), sid(12, 11), *open_))}
        indexes = dict.fromkeys(whole, NOON)
        return targets(contents(*backups, headers=headers, indexes=indexes))[DATASET]

    assert targets(whole)[DATASET].partial is None
    lost = found(whole={sid(12, 11)})
    assert (lost.copies, lost.partial) == ((), Partial(token="", guid=11, needed=True))
    assert found(whole={sid(11)}).partial == Partial(token="", guid=12, needed=True)
    # What was begun counts first; but for what goes on from what is lost.
    assert found(sid(14), whole={sid(12, 11)}).partial == Partial(token="", guid=14)
    assert found(sid(13, 12), whole={sid(12, 11)}).partial == lost.partial


def chains(**rules: float) -> S3:
    return NO_LIMIT.model_copy(update=rules)


CHAIN = [page(11, stored=100), page(12, 11, stored=30), page(13, 12, stored=20)]


@pytest.mark.parametrize(
    ("rules", "now", "ends"),
    [
        (NO_LIMIT, NOON + timedelta(days=9999), False),
        (chains(max_chain=2), NOON, True),
        (chains(max_chain=3), NOON, False),
        (chains(max_chain=1), NOON, True),
        (chains(full_every=3600.0), NOON + timedelta(hours=1), True),
        (chains(full_every=3600.0), NOON + timedelta(minutes=59), False),
        (chains(max_share=0.5), NOON, False),
        (chains(max_share=0.49), NOON, True),
        (chains(max_chain=9, full_every=3600.0, max_share=0.4), NOON, True),
        (chains(max_chain=9, full_every=3600.0, max_share=0.6), NOON, False),
    ],
)
def test_a_chain_ends_as_the_rules_say(rules: S3, now: datetime, ends: bool) -> None:
    found = contents(*(manifest(n, p) for n, p in enumerate(CHAIN, 1)))
    assert targets(found, rules, now)[DATASET].bases == (() if ends else (13,))


def test_within_a_chain_its_streams_say_the_order_and_between_chains_the_oldest_backup() -> None:
    """The clock was set back in the middle of the first; the second began in between."""
    found = contents(
        manifest(6, page(22, 21)), manifest(9, page(12, 11)), manifest(3, page(11)), manifest(5, page(21)),
        manifest(1, page(13, 12)),
    )  # fmt: skip
    assert [held.part.guid for held in in_order(found)] == [11, 12, 13, 21, 22]
    assert [b.record.backup for b in copies_of(found, "there", keyless=False).backups] == [
        f"backup-{n}" for n in (3, 9, 1, 5, 6)
    ]
    assert targets(found)[DATASET].bases == (22,)


def test_a_backup_of_which_a_part_is_not_whole_is_none() -> None:
    both = manifest(1, page(11), page(21, dataset=INNER))
    found = contents(both, manifest(2, page(31)))
    assert [b.record.backup for b in copies_of(found, "there", keyless=False).backups] == [
        "backup-1",
        "backup-2",
    ]
    for lost in (sid(11), sid(21, None, INNER)):
        less = contents(
            both, manifest(2, page(31)), indexes={s: t for s, t in found.indexes.items() if s != lost}
        )
        copies = copies_of(less, "there", keyless=False)
        assert [b.record.backup for b in copies.backups] == ["backup-2"]
        ((name, why),) = copies.unreadable
        assert name == "backup-1" and "is gone or damaged" in why
        known = contents(both, indexes=less.indexes, unreadable=[("key", "it is damaged")])
        assert copies_of(known, "there", keyless=False).unreadable == (("key", "it is damaged"),)


@pytest.mark.parametrize(
    "strange",
    [
        manifest(1, page(11), page(21, dataset=INNER)).model_copy(update={"parts": (page(11),)}),
        manifest(1, page(11), members="{"),
        Manifest(committed="", host="", record={"backup": "backup-1"}, parts=(page(11),)),
        manifest(1, page(11)).model_copy(update={"parts": (page(11, snapshot="a b@c"),)}),
        manifest(1, page(11)).model_copy(update={"parts": (page(11, dataset="tank/\x1b"),)}),
    ],
)
def test_a_manifest_whose_record_is_none_hides_no_other(strange: Manifest) -> None:
    found = contents(strange, manifest(2, page(31)))
    copies = copies_of(found, "there", keyless=False)
    assert [b.record.backup for b in copies.backups] == ["backup-2"]
    assert [name for name, _ in copies.unreadable] == ["backup-1"]


def test_a_snapshot_is_as_a_receiver_would_have_it() -> None:
    found = contents(manifest(1, page(11)), manifest(2, page(12, 11, stored=7)))
    one, other = (b.snapshots[0] for b in copies_of(found, "there", keyless=False).backups)
    assert (one.dataset, one.name, one.guid, one.createtxg, one.used, one.written) == (
        DATASET, "zbackup-11", 11, 1, 0, 4,
    ), "another needs it"  # fmt: skip
    assert (other.guid, other.createtxg, other.used, other.written) == (12, 2, 7, 7)


@pytest.mark.parametrize(
    ("keyless", "signed", "told"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_who_has_no_key_is_told_that_nothing_is_proven(keyless: bool, signed: bool, told: bool) -> None:
    envelope = {"key_id": "k", "wrapped": ""}
    one = manifest(1, page(11))
    if signed:
        one = Manifest.model_validate(
            one.model_dump(by_alias=True) | {"version": 2, "encryption": envelope, "seal": ""}
        )
    assert bool(copies_of(contents(one), "there", keyless=keyless).unproven) == told


# the streams that bring copies


def copy(guid: int, dataset: str = DATASET) -> Snapshot:
    at = NOON
    return Snapshot(dataset=dataset, name=f"zbackup-{guid}", guid=guid, createtxg=1, created=at)


def steps(found: BucketContents, *guids: int) -> list[tuple[str, int, int | None]]:
    made = steps_to(found, [copy(guid) for guid in guids], lambda stream: f"header of {stream.guid}")
    return [(s.copy.name, s.copy.guid, s.base.guid if s.base else None) for s in made]


def test_copies_are_brought_by_one_way_as_far_as_it_leads() -> None:
    found = contents(
        manifest(1, page(11)), manifest(3, page(13, 12)), manifest(4, page(21)), manifest(5, page(22, 21)),
        extra=[sid(12, 11), sid(11, None, INNER)],
    )  # fmt: skip
    first = [("zbackup-11", 11, None), ("header of 12", 12, 11), ("zbackup-13", 13, 12)]
    second = [("zbackup-21", 21, None), ("zbackup-22", 22, 21)]
    assert steps(found, 13) == steps(found, 11, 13) == first
    assert steps(found, 13, 22) == [*first, *second]
    assert steps(found, 11, 21, 22) == [first[0], *second]
    assert steps(found) == []
    with pytest.raises(VerificationFailed, match="a stream that tank/db@zbackup-77 needs is gone"):
        steps(found, 11, 77)


def test_what_a_backup_needs_is_all_that_leads_to_it() -> None:
    """Rather too much: also by a way whose beginning is lost, and what another chain leads to."""
    found = contents(
        manifest(1, page(11)), manifest(2, page(13, 12)),
        extra=[sid(12, 11), sid(13, 99), sid(13), sid(31), sid(12, 11, INNER)],
    )  # fmt: skip
    all_of_two = {sid(13, 12), sid(12, 11), sid(11), sid(13, 99), sid(13)}
    assert needed_by(found) == all_of_two
    assert needed_by(found, without="backup-1") == all_of_two
    assert needed_by(found, without="backup-2") == {sid(11)}
    circle = contents(manifest(1, page(11, 12)), extra=[sid(12, 11)])
    assert needed_by(circle) == {sid(11, 12), sid(12, 11)} and in_order(circle) == []


def test_a_broken_way_is_told_of_the_backups_that_need_it() -> None:
    found = contents(manifest(1, page(11)), manifest(2, page(12, 11)), manifest(3, page(21)))
    assert found.incomplete() == []
    less = contents(*found.manifests, indexes={s: t for s, t in found.indexes.items() if s != sid(11)})
    assert less.incomplete() == ["backup-1", "backup-2"]
    assert less.without("backup-1").incomplete() == ["backup-2"]
    assert part(11).guid == 11
