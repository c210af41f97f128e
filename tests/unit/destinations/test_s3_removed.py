"""A backup goes with the streams that only it needs, and with no other, whatever else lies in the bucket."""

import pytest

from tests.unit.destinations.bucket import (
    INNER,
    LAYOUT,
    Shop,
    manifest_at,
    part,
    stream_id,
)
from zbackup.model.errors import Refused, VerificationFailed


def remove(shop: Shop, number: int, **changes: object) -> None:
    session = shop.session(**changes)
    found = [b for b in session.copies().backups if b.record.backup == f"backup-{number}"]
    session.remove(found[0], "")


def streams(shop: Shop) -> set[str]:
    """Of which there is anything."""
    return {key.split("/@")[1].split("/")[0] for key in shop.bucket.having("/@")}


def whole_at(guid: int, base: int | None = None) -> str:
    return LAYOUT.index(stream_id(part(guid, base)))


def test_what_others_need_stays(shop: Shop) -> None:
    contents = shop.chain((11, None), (12, 11), (13, 12), (21, None))
    for number in (1, 2):
        remove(shop, number)
    assert set(shop.named()) == {"backup-3", "backup-4"}
    assert streams(shop) == {"11-full", "12-from-11", "13-from-12", "21-full"}
    assert shop.fetched(part(11)) == contents[11] and not any(shop.problems(deep=True).values())
    remove(shop, 3)
    assert set(shop.named()) == {"backup-4"} and streams(shop) == {"21-full"}
    assert not any(shop.problems(deep=True).values())


def test_the_manifest_goes_first_then_the_longest_way_and_of_each_the_page(plain: Shop) -> None:
    plain.chain((11, None), (12, 11))
    remove(plain, 1)
    plain.bucket.asked.clear()
    remove(plain, 2)
    erased = [key for verb, key in plain.bucket.asked if verb == "erase"]
    pairs = [part(12, 11), part(11)]
    assert erased == [
        manifest_at(2),
        *(
            key
            for wanted in pairs
            for key in (
                LAYOUT.index(stream_id(wanted)),
                LAYOUT.segments(stream_id(wanted)),
                LAYOUT.header(stream_id(wanted)),
            )
        ),
    ]
    assert not plain.bucket.objects


def test_what_a_removal_is_not_sure_of_stays(shop: Shop) -> None:
    shop.chain((11, None), (21, None))
    session = shop.session()
    backup = session.copies().backups[0]
    shop.bucket.set(manifest_at(2), b"{")
    before = dict(shop.bucket.objects)
    again = shop.session()
    for work in (lambda: again.remove(backup, ""), again.collect_garbage, again.orphans):
        with pytest.raises(VerificationFailed, match="cannot be read, so that nobody knows"):
            work()
    assert shop.bucket.objects == before


@pytest.mark.parametrize("locked", ["manifest", "stream"])
def test_what_is_locked_stays_as_a_whole(shop: Shop, locked: str) -> None:
    shop.chain((11, None), (21, None))
    shop.bucket.locks = {manifest_at(1) if locked == "manifest" else whole_at(11): "it is locked until May"}
    before = dict(shop.bucket.objects)
    with pytest.raises(Refused, match="zbackup-11: it is locked until May"):
        remove(shop, 1)
    assert shop.bucket.objects == before


def test_a_lock_on_what_stays_is_in_nobodys_way(plain: Shop) -> None:
    plain.chain((11, None), (12, 11))
    plain.bucket.locks = {whole_at(11): "it is locked until May"}
    remove(plain, 1)
    assert set(plain.named()) == {"backup-2"}


def test_a_stream_of_which_the_page_is_gone_is_in_nobodys_way(plain: Shop) -> None:
    """Another host's removal of the same backup was cut behind the page."""
    plain.chain((11, None), (21, None))
    session = plain.session()
    backup = session.copies().backups[0]
    plain.bucket.hook("after:erase", manifest_at(1), lambda: plain.bucket.drop(whole_at(11)))
    session.remove(backup, "")
    assert streams(plain) == {"21-full"} and set(plain.named()) == {"backup-2"}
    assert [b.record.backup for b in session.copies().backups] == ["backup-2"]


@pytest.mark.parametrize("lost", [11, 12])
def test_no_backup_of_a_broken_chain_goes(shop: Shop, lost: int) -> None:
    """What is lost may come back; nobody knows which streams it would need."""
    shop.chain((11, None), (12, 11), (13, 12), (21, None))
    session = shop.session()
    backups = {b.record.backup: b for b in session.copies().backups}
    shop.bucket.drop(whole_at(lost, 11 if lost == 12 else None))
    before = dict(shop.bucket.objects)
    for number in (1, 2, 4):
        # The full stream that nothing is based on may be what something lost was based on, too.
        with pytest.raises(VerificationFailed, match=r"the backup zbackup-1[123] lacks a stream"):
            shop.session().remove(backups[f"backup-{number}"], "")
    assert shop.session().collect_garbage() == () and shop.bucket.objects == before


def test_a_broken_chain_of_another_dataset_is_in_nobodys_way(shop: Shop) -> None:
    shop.ship(part(11), 1)
    shop.ship(part(31, dataset=INNER), 2)
    shop.ship(part(32, 31, dataset=INNER), 3)
    shop.bucket.drop(LAYOUT.index(stream_id(part(32, 31, dataset=INNER))))
    remove(shop, 1)
    assert set(shop.named()) == {"backup-2"}
    assert streams(shop) == {"31-full", "32-from-31"}
    with pytest.raises(VerificationFailed, match="zbackup-32 lacks a stream"):
        remove(shop, 2)


def test_the_broken_one_itself_may_go(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    session = shop.session()
    backup = session.copies().backups[1]
    shop.bucket.drop(whole_at(12, 11))
    session.remove(backup, "")
    assert set(shop.named()) == {"backup-1"} and not shop.bucket.having("/backups/backup-2")


def test_a_backup_stays_without_which_nobody_could_tell_who_made_the_others_base(encrypted: Shop) -> None:
    """Header and page of its stream are damaged: its manifest is what proves it."""
    encrypted.chain((11, None), (12, 11))
    begun = LAYOUT.header(stream_id(part(11)))
    sound = encrypted.bucket.body(whole_at(11))
    encrypted.bucket.drop(begun)
    encrypted.bucket.set(whole_at(11), sound[:-20])
    before = dict(encrypted.bucket.objects)
    with pytest.raises(VerificationFailed, match="without it zbackup-12 could not be brought back: how "):
        remove(encrypted, 1)
    assert encrypted.bucket.objects == before
    encrypted.bucket.set(whole_at(11), sound)
    remove(encrypted, 1)
    assert set(encrypted.named()) == {"backup-2"}


def test_a_base_whose_page_goes_at_the_same_time_is_told(encrypted: Shop) -> None:
    encrypted.chain((11, None), (12, 11))
    encrypted.bucket.drop(LAYOUT.header(stream_id(part(11))))
    session = encrypted.session()
    backup = session.copies().backups[0]
    reads = [0]

    def drop() -> None:
        reads[0] += 1
        encrypted.bucket.objects.pop(whole_at(11), None)

    # The look of the removal has been: it asks for the page of the base then.
    encrypted.bucket.hook("list", "@11-full/begun.json", drop)
    with pytest.raises(
        VerificationFailed, match="without it zbackup-12 could not be brought back: there is no"
    ):
        session.remove(backup, "")
    assert reads == [1] and manifest_at(1) in encrypted.bucket.objects


def test_a_removal_forgets_what_it_knew(plain: Shop) -> None:
    plain.chain((11, None), (12, 11))
    session = plain.session()
    (first, _) = session.copies().backups
    session.remove(first, "")
    assert set(session.pages.known) == {manifest_at(2)}
