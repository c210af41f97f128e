"""Garbage collection takes what no backup needs and nobody works on, whoever commits meanwhile."""

import json

import pytest
from structlog.testing import capture_logs

from tests.unit.destinations.bucket import (
    DATASET,
    INNER,
    LAYOUT,
    WHEN,
    Shop,
    manifest_at,
    part,
    record,
    stream_id,
)
from tests.unit.destinations.test_s3_removed import remove, streams, whole_at
from zbackup.model.errors import BucketRefused, VerificationFailed


def test_what_nobody_needs_is_collected_after_a_day(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    shop.store(part(31))
    assert shop.session().orphans() == () == shop.session().collect_garbage()
    shop.bucket.later(days=1, seconds=-1)
    assert shop.session().orphans() == ()
    shop.bucket.later(seconds=1)
    assert shop.session().orphans() == (f"{DATASET}/@31-full",)
    assert shop.session().collect_garbage() == (f"{DATASET}/@31-full",)
    assert streams(shop) == {"11-full", "12-from-11"}
    assert not any(shop.problems(deep=True).values()) and len(shop.named()) == 2


def test_one_snapshot_in_full_and_from_a_base_is_collected(shop: Shop) -> None:
    shop.ship(part(11), 1)
    for wanted in (part(31), part(31, 11), part(31, 99)):
        shop.store(wanted)
    shop.bucket.later(days=2)
    assert len(shop.session().collect_garbage()) == 3 and streams(shop) == {"11-full"}


def test_what_was_begun_alone_is_collected_too(shop: Shop) -> None:
    shop.ship(part(11), 1)
    shop.store(part(31))
    shop.bucket.drop(whole_at(31))
    shop.bucket.later(days=2)
    assert shop.session().collect_garbage() == (f"{DATASET}/@31-full",)
    assert streams(shop) == {"11-full"}


def test_a_segment_that_was_written_late_shows_that_somebody_works_on_it(shop: Shop) -> None:
    shop.ship(part(11), 1)
    shop.store(part(31))
    shop.bucket.drop(whole_at(31))
    shop.bucket.later(days=2)
    key = shop.bucket.having("/segments/tank/db/@31-full/")[1]
    shop.bucket.set(key, shop.bucket.body(key))
    assert shop.session().collect_garbage() == ()
    shop.bucket.later(days=1)
    assert shop.session().collect_garbage() == (f"{DATASET}/@31-full",)


def test_parts_of_one_backup_wait_for_each_other(shop: Shop) -> None:
    """What was begun after the newest commit; what is older than that is not waited for."""
    shop.store(part(41))
    shop.bucket.later(hours=1)
    shop.ship(part(11), 1)
    shop.store(part(31))
    shop.bucket.later(days=2)
    shop.store(part(51, dataset=INNER))
    assert shop.session().orphans() == (f"{DATASET}/@41-full",)
    shop.bucket.later(days=1)
    assert len(shop.session().orphans()) == 3


def test_with_no_commit_at_all_everything_may_be_of_the_first_one(shop: Shop) -> None:
    shop.store(part(31))
    shop.bucket.later(days=2)
    shop.store(part(51, dataset=INNER))
    assert shop.session().orphans() == ()
    shop.bucket.later(days=1)
    assert len(shop.session().orphans()) == 2


def test_a_chain_that_lacks_a_stream_keeps_all_of_its_dataset(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    shop.store(part(31))
    shop.store(part(51, dataset=INNER))
    shop.bucket.drop(whole_at(12, 11))
    shop.bucket.later(days=2)
    assert shop.session().collect_garbage() == (f"{INNER}/@51-full",)
    assert streams(shop) == {"11-full", "12-from-11", "31-full"}


@pytest.mark.parametrize("verb", ["list", "erase"])
def test_what_somebody_goes_on_with_stays(shop: Shop, verb: str) -> None:
    """He writes the header anew, and segments, before the header or before the segments are looked at."""
    shop.ship(part(11), 1)
    content = shop.store(part(31))
    begun, segments = LAYOUT.header(stream_id(part(31))), LAYOUT.segments(stream_id(part(31)))
    shop.bucket.drop(whole_at(31))
    shop.bucket.later(days=2)

    def going_on() -> None:
        for key in (begun, *shop.bucket.having(segments)):
            shop.bucket.set(key, shop.bucket.body(key))

    shop.bucket.hook(verb, "begun.json" if verb == "list" else segments, going_on)
    assert shop.session().collect_garbage() == (f"{DATASET}/@31-full",), "as it was when it was decided"
    assert begun in shop.bucket.objects and len(shop.bucket.having(segments)) == 3
    assert shop.store(part(31)) == content == shop.fetched(part(31))


def test_the_page_of_what_somebody_stores_once_more_stays(shop: Shop) -> None:
    """It is whole, and was not committed: he commits it next."""
    shop.ship(part(11), 1)
    shop.store(part(31))
    shop.bucket.later(days=2)
    shop.bucket.hook("list", "@31-full/begun.json", lambda: shop.store(part(31)))
    shop.session().collect_garbage()
    shop.session().commit(record(2), [part(31)], WHEN)
    assert set(shop.named()) == {"backup-1", "backup-2"} and not any(shop.problems(deep=True).values())


def test_of_what_was_begun_again_only_what_is_old_goes(shop: Shop) -> None:
    """The header is written anew behind the look at it."""
    shop.ship(part(11), 1)
    shop.store(part(31))
    begun = LAYOUT.header(stream_id(part(31)))
    shop.bucket.later(days=2)
    shop.bucket.hook(
        "after:erase", LAYOUT.segments(stream_id(part(31))), lambda: shop.bucket.set(begun, b"new")
    )
    shop.session().collect_garbage()
    assert shop.bucket.having("@31-full") == [begun]


@pytest.mark.parametrize("moment", ["get", "erase", "after:erase"])
def test_what_is_committed_while_it_is_collected(shop: Shop, moment: str) -> None:
    """The page is put back where the commit went through; where the commit saw that it was gone, all goes."""
    shop.ship(part(11), 1)
    shop.store(part(12, 11))
    shop.bucket.later(days=2)
    told: list[str] = []

    def commit() -> None:
        try:
            shop.session().commit(record(2), [part(12, 11)], WHEN)
        except VerificationFailed as wrong:
            told.append(str(wrong))

    shop.bucket.hook(moment, whole_at(12, 11), commit)
    shop.session().collect_garbage()
    assert bool(told) == (moment == "after:erase")
    assert set(shop.named()) == ({"backup-1"} if told else {"backup-1", "backup-2"})
    assert not any(shop.problems(deep=True).values())
    assert streams(shop) == ({"11-full"} if told else {"11-full", "12-from-11"})


def test_the_first_backup_of_all_is_committed_while_its_stream_is_collected(shop: Shop) -> None:
    shop.store(part(11))
    shop.bucket.later(days=2)
    commit = shop.session().commit
    shop.bucket.hook("get", whole_at(11), lambda: commit(record(1), [part(11)], WHEN))
    shop.session().collect_garbage()
    assert set(shop.named()) == {"backup-1"} and not any(shop.problems(deep=True).values())


def test_a_page_that_is_not_there_is_not_put_back(shop: Shop) -> None:
    """The manifest of a backup whose stream is not whole comes back: who has deleted it brings it back."""
    shop.chain((11, None), (31, None))
    manifest = shop.bucket.body(manifest_at(2))
    for key in (manifest_at(2), whole_at(31)):
        shop.bucket.drop(key)
    shop.bucket.later(days=2)
    shop.bucket.hook("erase", whole_at(31), lambda: shop.bucket.set(manifest_at(2), manifest))
    shop.session().collect_garbage()
    assert (
        whole_at(31) not in shop.bucket.objects and len(shop.bucket.having("segments/tank/db/@31-full")) == 3
    )


def test_another_backup_that_is_committed_meanwhile_keeps_nothing(plain: Shop) -> None:
    plain.ship(part(11), 1)
    plain.store(part(31))
    plain.bucket.later(days=2)
    plain.bucket.hook("erase", whole_at(31), lambda: plain.ship(part(12, 11), 2))
    plain.session().collect_garbage()
    assert streams(plain) == {"11-full", "12-from-11"} and len(plain.named()) == 2


def test_a_manifest_that_comes_meanwhile_and_cannot_be_read_keeps_the_stream(plain: Shop) -> None:
    plain.ship(part(11), 1)
    plain.store(part(31))
    sound = plain.bucket.body(whole_at(31))
    plain.bucket.later(days=2)
    plain.bucket.hook("erase", whole_at(31), lambda: plain.bucket.set(manifest_at(2), b"{"))
    with capture_logs() as said:
        plain.session().collect_garbage()
    assert plain.bucket.body(whole_at(31)) == sound and len(plain.bucket.having("/segments/tank/db/@31")) == 3
    assert "s3.stream_kept" in [line["event"] for line in said]


def test_what_is_not_ours_stays(shop: Shop) -> None:
    shop.chain((11, None), (21, None))
    shop.store(part(31))
    strange = [
        f"{LAYOUT.segments(stream_id(part(guid)))}{name}"
        for guid in (11, 31)
        for name in ("mine", f"deeper/00000000.{'a' * 64}", "00000000.short")
    ]
    strange += [f"{LAYOUT.backups}README", f"{LAYOUT.streams}tank/db/@31-full/notes", "a/shop/other"]
    for key in strange:
        shop.bucket.set(key, b"mine")
    remove(shop, 1)
    shop.bucket.later(days=2)
    assert shop.session().collect_garbage() == (f"{DATASET}/@31-full",)
    assert set(strange) <= set(shop.bucket.having()) and not shop.problems(deep=True)["backup-2"]
    left = [key for key in shop.bucket.having() if "@11-full" in key or "@31-full" in key]
    assert set(left) <= set(strange)


def test_a_withdrawn_manifest_is_swept_away(shop: Shop) -> None:
    shop.store(part(11))
    shop.bucket.refused = {"delete"}
    shop.bucket.hook("put_new", "backup-1/manifest.json", lambda: shop.bucket.drop(whole_at(11)))
    with pytest.raises(VerificationFailed, match="does not count"):
        shop.session().commit(record(1), [part(11)], WHEN)
    session = shop.session()
    session.collect_garbage()
    assert not shop.bucket.having("/backups/") and not session.pages.known


def test_what_was_lost_of_headers_is_made_again_by_who_collects(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    shop.store(part(31))
    keys = [LAYOUT.header(stream_id(part(*pair))) for pair in ((11, None), (12, 11), (31, None))]
    sound = [shop.bucket.body(key) for key in keys]
    shop.bucket.drop(keys[0])
    page = json.loads(sound[1])
    shop.bucket.set(keys[1], json.dumps(page | {"snapshot": "another"}).encode())
    shop.bucket.drop(keys[2])
    shop.session().collect_garbage()
    assert [shop.bucket.body(key) for key in keys[:2]] == sound[:2] and keys[2] not in shop.bucket.objects


def test_what_is_given_up_goes_and_nothing_else(shop: Shop) -> None:
    shop.ship(part(11), 1)
    shop.store(part(12, 11))
    shop.store(part(13, 11))
    shop.store(part(51, dataset=INNER))
    for wanted in (part(12, 11), part(51, dataset=INNER)):
        shop.bucket.drop(LAYOUT.index(stream_id(wanted)))
    mine = f"{LAYOUT.segments(stream_id(part(12, 11)))}mine"
    shop.bucket.set(mine, b"mine")
    shop.session().abort(DATASET)
    assert shop.bucket.having("@12-from-11") == [mine]
    assert streams(shop) >= {"11-full", "13-from-11", "51-full"} and shop.bucket.having(
        "/segments/tank/db/log"
    )
    assert shop.fetched(part(13, 11))


@pytest.mark.parametrize("lost", [(11, None), (12, 11)])
def test_what_a_committed_backup_needs_is_not_given_up_though_its_page_is_gone(
    shop: Shop, lost: tuple[int, int | None]
) -> None:
    shop.chain((11, None), (12, 11), (13, 12))
    shop.store(part(14, 13))
    shop.bucket.drop(whole_at(14, 13))
    page = shop.bucket.body(whole_at(*lost))
    shop.bucket.drop(whole_at(*lost))
    with capture_logs() as said:
        shop.session().abort(DATASET)
    assert [line["event"] for line in said] == ["s3.stream_kept"] and not shop.bucket.having("@14-from-13")
    shop.bucket.set(whole_at(*lost), page)
    assert len(shop.named()) == 3 and not any(shop.problems(deep=True).values())


def test_what_lost_its_page_gets_it_again_by_the_same_stream(shop: Shop) -> None:
    """Of which nothing goes there that is there."""
    shop.chain((11, None), (12, 11))
    shop.bucket.drop(whole_at(11, None))
    partial = shop.session().inventory().datasets[0].partial
    assert partial and (partial.guid, partial.needed) == (11, True)
    there = shop.bucket.having("/segments/")
    shop.bucket.asked.clear()
    shop.store(part(11))
    assert there == shop.bucket.having("/segments/")
    assert not [key for verb, key in shop.bucket.asked if verb.startswith("put") and key in there]
    assert len(shop.named()) == 2 and not any(shop.problems(deep=True).values())


def test_nothing_is_given_up_while_nobody_knows_what_a_backup_needs(shop: Shop) -> None:
    shop.chain((11, None), (12, 11))
    shop.store(part(13, 12))
    shop.bucket.drop(whole_at(13, 12))
    shop.bucket.set(manifest_at(2), b"{")
    shop.session().abort(DATASET)
    assert shop.bucket.having("/segments/tank/db/@13-from-12/")


def test_who_may_not_delete_gives_it_up_all_the_same(shop: Shop) -> None:
    shop.store(part(12, 11))
    shop.bucket.drop(whole_at(12, 11))
    shop.bucket.refused = {"delete"}
    with capture_logs() as said:
        shop.session().abort(DATASET)
    assert [line["event"] for line in said] == ["s3.stream_stays"] and shop.bucket.having("@12-from-11")
    shop.bucket.refused = {"list"}
    with pytest.raises(BucketRefused):
        shop.session().abort(DATASET)
