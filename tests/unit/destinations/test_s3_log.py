"""Archived log in a bucket: each append once and without a hole, folded without loss, and proven."""

import hashlib
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs

from tests.destinations.archives import NOW, chunk_of, named
from tests.unit.destinations.bucket import ROOT, Shop
from zbackup.destinations.s3 import log_archive
from zbackup.destinations.s3.session import S3Session
from zbackup.jobs.context import Context
from zbackup.jobs.ship import archived
from zbackup.model.archive import Chunk, LogFileId
from zbackup.model.errors import Taken, VerificationFailed
from zbackup.proc.pipeline import Meter

CONTENT = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(20)) + b"row" * 2000
FILE = named()
BELOW = f"{ROOT}/log/{FILE.server}/"


def append(session: S3Session, begin: int, end: int, file: LogFileId = FILE, **more: Any) -> int:
    chunk = replace(chunk_of(CONTENT, begin, end), **more)
    return session.append_log(file, chunk, CONTENT[begin:end])


def read(session: S3Session, begin: int, end: int, file: LogFileId = FILE) -> bytes:
    return b"".join(session.read_log(file, begin, end, Meter()))


def key_of(chunk: Chunk, file: LogFileId = FILE) -> str:
    return f"{BELOW}{file.key}/{chunk}"


def objects(shop: Shop, file: LogFileId = FILE) -> list[tuple[int, int]]:
    """From where to where each is."""
    names = [key.rpartition("/")[2] for key in shop.bucket.having(f"{BELOW}{file.key}/")]
    return [(Chunk.parse(name).begin, Chunk.parse(name).end) for name in names]


def test_what_is_appended_comes_back(shop: Shop) -> None:
    session = shop.session()
    assert session.archived().files == ()
    for begin, end in ((0, 100), (100, 101), (101, 101), (101, 700), (700, 3000)):
        append(session, begin, end)
    append(session, 3000, 3000, closed=True)
    append(session, 0, 50, named(8, 0, 0))
    again = shop.session()
    found = again.archived()
    one, other = found.files
    assert (one.file, one.size, one.closed, one.complete_to, found.problems) == (FILE, 3000, True, NOW, ())
    assert other.continues(one) and not other.closed and found.leftovers == ()
    stored = sum(len(shop.bucket.body(key)) for key in shop.bucket.having(f"{BELOW}{FILE.key}/"))
    assert one.stored == stored < 3000, "it is compressed where that helps"
    for begin, end in ((0, 3000), (50, 150), (699, 2999), (101, 101)):
        assert read(again, begin, end) == CONTENT[begin:end]
    for begin, end in ((0, 3001), (3000, 3001)):
        with pytest.raises(VerificationFailed):
            read(again, begin, end)


def test_what_is_not_what_it_was_announced_to_be_is_not_taken(shop: Shop) -> None:
    chunk = chunk_of(CONTENT, 0, 100)
    for data in (CONTENT[1:101], CONTENT[:99]):
        with pytest.raises(ValueError, match="is not what it was announced to be"):
            shop.session().append_log(FILE, chunk, data)
    assert not shop.bucket.objects


@pytest.mark.parametrize(("begin", "end"), [(0, 50), (0, 200), (50, 150), (101, 200)])
def test_nothing_is_written_over_and_no_hole_is_left(shop: Shop, begin: int, end: int) -> None:
    session = shop.session()
    append(session, 0, 100)
    before = dict(shop.bucket.objects)
    for each in (session, session, shop.session()):
        with pytest.raises(Taken, match=f"has 100 bytes, not {begin}"):
            append(each, begin, end)
    assert shop.bucket.objects == before
    append(session, 100, 200)
    assert read(session, 0, 200) == CONTENT[:200]


def test_a_file_begins_with_its_first_byte(shop: Shop) -> None:
    with pytest.raises(Taken, match="has 0 bytes, not 10"):
        append(shop.session(), 10, 20)


def test_an_append_may_be_repeated_and_a_closed_file_takes_no_more(shop: Shop) -> None:
    session = shop.session()
    first = append(session, 0, 100)
    assert append(session, 0, 100) == first == append(shop.session(), 0, 100)
    append(session, 100, 200, closed=True)
    for each in (session, shop.session()):
        assert append(each, 100, 200, closed=True) == objects_size(shop)
        for begin, end in ((200, 300), (200, 200)):
            with pytest.raises(Taken):
                append(shop.session(), begin, end)
    assert objects(shop) == [(0, 200)] and read(session, 0, 200) == CONTENT[:200]


def objects_size(shop: Shop) -> int:
    (key,) = shop.bucket.having(f"{BELOW}{FILE.key}/")
    return len(shop.bucket.body(key))


def test_that_nothing_was_written_is_said_each_time_it_is_looked(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 100)
    for minutes in (1, 2):
        later = NOW + timedelta(minutes=minutes)
        append(session, 100, 100, read=later, complete_to=later)
        assert shop.session().archived().files[0].complete_to == later
    append(session, 100, 100, read=later, complete_to=later)
    assert objects(shop) == [(0, 100), (100, 100), (100, 100)]


def test_somebody_elses_append_is_seen(shop: Shop) -> None:
    """What one knew of the file is looked at anew after it was told."""
    one, other = shop.session(), shop.session()
    append(one, 0, 100)
    append(other, 100, 200)
    for _ in range(2):
        with pytest.raises(Taken):
            append(other, 100, 150)
    append(shop.session(), 200, 300)
    append(other, 300, 400)
    assert read(one, 0, 400) == CONTENT[:400]


def test_of_what_was_taken_away_meanwhile_nothing_is_gone_on_with(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 100)
    shop.session().remove_log(FILE)
    session.archived()
    with pytest.raises(Taken, match="has 0 bytes, not 100"):
        append(session, 100, 200)
    assert not shop.bucket.objects


def test_a_file_is_looked_at_once_and_forgotten_when_it_is_closed(shop: Shop) -> None:
    """Each request costs, and a server has any number of files."""
    session = shop.session()
    for begin in range(0, 500, 100):
        append(session, begin, begin + 100)
    assert [verb for verb, _ in shop.bucket.asked].count("list") == 1
    again = shop.session()
    again.archived()
    shop.bucket.asked.clear()
    append(again, 500, 600)
    assert "list" not in [verb for verb, _ in shop.bucket.asked]
    append(again, 600, 600, closed=True)
    assert not again.logs._known
    again.archived()
    assert not again.logs._known


def test_what_compression_does_not_make_smaller_is_left(plain: Shop) -> None:
    append(plain.session(), 0, 100)
    (key,) = plain.bucket.having("/log/")
    assert plain.bucket.body(key).endswith(b"\n" + CONTENT[:100])


def test_what_was_cut_off_is_there_already_by_another_key(encrypted: Shop) -> None:
    """Its answer was lost: the same bytes, encrypted anew, are the same append."""
    one, other = encrypted.session(), encrypted.session()
    append(one, 0, 100)
    append(other, 0, 100)
    encrypted.bucket.hook("put_new", key_of(chunk_of(CONTENT, 100, 200)), lambda: append(other, 100, 200))
    append(one, 100, 200)
    assert read(one, 0, 200) == CONTENT[:200]


def test_what_is_there_under_its_name_and_is_something_else_is_told(shop: Shop) -> None:
    key = key_of(chunk_of(CONTENT, 100, 200))
    session = shop.session()
    append(session, 0, 100)
    append(shop.session(), 0, 100, named(8))
    body = shop.bucket.body(key_of(chunk_of(CONTENT, 0, 100), named(8)))
    shop.bucket.hook("put_new", key, lambda: shop.bucket.set(key, body))
    with pytest.raises(VerificationFailed):
        append(session, 100, 200)


def test_epochs_and_servers_lie_beside_each_other(shop: Shop) -> None:
    session = shop.session()
    old, new = named(7), named(7, 1)
    append(session, 0, 300, old)
    append(session, 0, 200, new)
    assert [(f.file.epoch, f.size) for f in session.archived().files] == [(0, 300), (1, 200)]
    session.remove_log(old)
    session.remove_log(old)
    assert [f.file.epoch for f in session.archived().files] == [1]
    with pytest.raises(VerificationFailed):
        read(session, 0, 300, old)
    assert read(session, 0, 200, new) == CONTENT[:200]


def test_what_was_removed_begins_anew(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 300)
    session.remove_log(FILE)
    append(session, 0, 100)
    assert session.archived().files[0].size == 100


# folding


@pytest.fixture
def folding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_archive, "FOLD_AT", 4)


@pytest.mark.usefixtures("folding")
def test_small_objects_are_folded(shop: Shop) -> None:
    session = shop.session()
    for begin in range(0, 30, 10):
        append(session, begin, begin + 10)
    assert objects(shop) == [(0, 10), (10, 20), (20, 30)]
    later = NOW + timedelta(minutes=1)
    append(session, 30, 40, read=later, complete_to=None)
    assert objects(shop) == [(0, 40)]
    (found,) = shop.session().archived().files
    assert (found.last.read, found.complete_to, found.closed) == (later, NOW, False)
    append(session, 40, 50)
    assert objects(shop) == [(0, 40), (40, 50)]
    append(session, 50, 60, closed=True)
    assert objects(shop) == [(0, 60)], "what there are when it is closed"
    (found,) = shop.session().archived().files
    assert found.closed and read(shop.session(), 0, 60) == CONTENT[:60]
    assert read(shop.session(), 5, 55) == CONTENT[5:55]


@pytest.mark.usefixtures("folding")
@pytest.mark.parametrize("read_before", [0, 1, 2])
def test_what_is_folded_while_it_is_read_is_read_on(shop: Shop, read_before: int) -> None:
    """By a restore or a verification elsewhere: it is neither damaged nor gone."""
    session = shop.session()
    for begin in range(0, 30, 10):
        append(session, begin, begin + 10)
    reading = shop.session().read_log(FILE, 0, 30, Meter())
    found = [next(reading) for _ in range(read_before)]
    if read_before:
        append(session, 30, 40)
    else:
        shop.bucket.hook("get", key_of(chunk_of(CONTENT, 0, 10)), lambda: append(session, 30, 40))
    assert b"".join([*found, *reading]) == CONTENT[:30] and objects(shop) == [(0, 40)]


@pytest.mark.usefixtures("folding")
def test_a_verification_takes_what_is_folded_meanwhile_for_no_claim(shop: Shop) -> None:
    session = shop.session()
    for begin in range(0, 30, 10):
        append(session, begin, begin + 10)
    (listed,) = shop.session().archived().files
    append(session, 30, 40)
    assert objects(shop) == [(0, 40)]
    problems: list[str] = []
    ctx = cast(Context, SimpleNamespace(zone=ZoneInfo("UTC")))
    assert archived._proven(ctx, shop.session(), listed, problems) == NOW and problems == []
    forged = replace(listed, complete_to=NOW + timedelta(minutes=1))
    assert archived._proven(ctx, shop.session(), forged, problems) == NOW and len(problems) == 1


def test_what_is_listed_and_never_there_is_told(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 10)
    key = key_of(chunk_of(CONTENT, 0, 10))
    body = shop.bucket.body(key)

    def gone() -> None:
        shop.bucket.drop(key)
        shop.bucket.hook("list", "/", there)

    def there() -> None:
        shop.bucket.set(key, body)
        shop.bucket.hook("get", key, gone)

    shop.bucket.hook("get", key, gone)
    with pytest.raises(VerificationFailed, match="taken away meanwhile"):
        read(shop.session(), 0, 10)


@pytest.mark.usefixtures("folding")
def test_an_append_that_was_folded_may_be_repeated(shop: Shop) -> None:
    """Its answer was lost, and that of the fold as well."""
    session = shop.session()
    for begin in range(0, 40, 10):
        append(session, begin, begin + 10)
    size = objects_size(shop)
    assert append(session, 30, 40) == size == append(shop.session(), 30, 40)
    append(session, 40, 40, closed=True)
    assert append(shop.session(), 40, 40, closed=True) == objects_size(shop)
    assert objects(shop) == [(0, 40)]


@pytest.mark.usefixtures("folding")
def test_an_empty_file_that_is_closed_at_once_is_one_object(shop: Shop) -> None:
    append(shop.session(), 0, 0, closed=True)
    assert objects(shop) == [(0, 0)] and shop.session().archived().files[0].closed


def test_what_is_folded_into_itself_stays(shop: Shop) -> None:
    """Of a file that was empty before it was closed."""
    session = shop.session()
    append(session, 0, 0)
    append(session, 0, 0, closed=True)
    assert objects(shop) == [(0, 0)] and shop.session().archived().files[0].closed


@pytest.mark.usefixtures("folding")
def test_large_objects_are_left(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_archive, "SMALL", 20)
    session = shop.session()
    append(session, 0, 20)
    for begin in range(20, 50, 10):
        append(session, begin, begin + 10)
    assert len(objects(shop)) == 4
    append(session, 50, 60)
    assert objects(shop) == [(0, 20), (20, 60)]
    append(session, 60, 79, closed=True)
    assert objects(shop) == [(0, 20), (20, 60), (60, 79)]


@pytest.mark.usefixtures("folding")
def test_what_is_folded_is_no_larger_than_an_object_may_be(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_archive, "MOST_CHUNK", 40)
    session = shop.session()
    for begin in range(0, 40, 10):
        append(session, begin, begin + 10)
    assert objects(shop) == [(0, 40)]
    for begin in range(40, 70, 10):
        append(session, begin, begin + 10)
    append(session, 70, 81)
    append(session, 81, 90, closed=True)
    assert objects(shop) == [(0, 40), (40, 50), (50, 90)]


@pytest.mark.usefixtures("folding")
def test_what_a_fold_left_over_does_not_count_twice(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 10)
    append(session, 10, 20)
    kept = dict(shop.bucket.objects)
    append(session, 20, 30)
    append(session, 30, 40)
    assert objects(shop) == [(0, 40)]
    shop.bucket.objects |= kept
    another = shop.session()
    assert another.archived().files[0].size == 40
    append(another, 40, 50)
    assert read(another, 0, 50) == CONTENT[:50]


@pytest.mark.usefixtures("folding")
def test_who_may_not_delete_folds_nothing_more_and_archives_on(shop: Shop) -> None:
    session = shop.session()
    shop.bucket.refused = {"erase"}
    with capture_logs() as said:
        for begin in range(0, 120, 10):
            append(session, begin, begin + 10)
    assert [line["event"] for line in said].count("archive.not_folded") == 1
    assert session.archived().files[0].size == 120 and read(session, 0, 120) == CONTENT[:120]
    assert len(objects(shop)) == 13, "what was put together is there, too"


@pytest.mark.usefixtures("folding")
def test_where_objects_are_locked_nothing_is_folded(shop: Shop) -> None:
    session = shop.session()
    session.logs.locked = True
    for begin in range(0, 120, 10):
        append(session, begin, begin + 10)
    assert len(objects(shop)) == 12


@pytest.mark.usefixtures("folding")
def test_what_cannot_be_folded_keeps_nothing_from_being_appended(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 10)
    (first,) = shop.bucket.having("/log/")
    shop.bucket.set(first, shop.bucket.body(first)[:-1] + b"?")
    with capture_logs() as said:
        for begin in range(10, 120, 10):
            append(session, begin, begin + 10)
    assert [line["event"] for line in said].count("archive.not_folded") == 1
    assert objects(shop) == [(0, 10), (10, 20), (20, 30), (30, 40), (40, 110), (110, 120)]
    assert session.archived().files[0].size == 120 and read(session, 10, 120) == CONTENT[10:120]
    with pytest.raises(VerificationFailed):
        read(session, 0, 120)
