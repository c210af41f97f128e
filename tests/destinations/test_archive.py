"""The promises of every destination's log archive: the conformance of destinations.base.Archiving."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.destinations.archives import KINDS, NOW, chunk_of, named, session_of
from tests.destinations.shop import Shop, new_shop, part, ship, some_key, stream
from tests.lab.s3_server import S3Server
from zbackup.destinations.archive_leftovers import remove_leftovers
from zbackup.destinations.base import Archiving
from zbackup.destinations.s3 import log_archive
from zbackup.model.archive import LogFileId
from zbackup.model.errors import NotFound, Refused, Taken, VerificationFailed
from zbackup.proc.pipeline import Meter

CONTENT = os.urandom(3000) + b"row" * 100_000 + os.urandom(5000)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


@pytest.fixture
def session(kind: str, tmp_path: Path, shop: Shop) -> Iterator[Archiving]:
    with session_of(kind, tmp_path, shop) as found:
        yield found


def append(session: Archiving, file: LogFileId, begin: int, end: int, *, closed: bool = False) -> None:
    session.append_log(file, chunk_of(CONTENT, begin, end, closed=closed), CONTENT[begin:end])


def read(session: Archiving, file: LogFileId, begin: int, end: int) -> bytes:
    return b"".join(session.read_log(file, begin, end, Meter()))


def test_what_is_appended_comes_back(session: Archiving, kind: str, tmp_path: Path, shop: Shop) -> None:
    assert session.archived().files == ()
    first, second = named(7), named(8, 0, 0)
    for begin, end in ((0, 100), (100, 101), (101, 101), (101, len(CONTENT))):
        append(session, first, begin, end)
    append(session, first, len(CONTENT), len(CONTENT), closed=True)
    append(session, second, 0, 4000)
    with session_of(kind, tmp_path, shop) as another:
        inventory = another.archived()
        one, other = inventory.files
        assert inventory.problems == ()
        assert (one.file, one.size, one.closed, one.complete_to) == (first, len(CONTENT), True, NOW)
        assert (other.file, other.size, other.closed) == (second, 4000, False)
        assert one.file.follows is None and other.file.follows == 0 and other.continues(one)
        assert other.last == chunk_of(CONTENT, 0, 4000)
        assert read(another, first, 0, len(CONTENT)) == CONTENT
        assert read(another, first, 50, 150) == CONTENT[50:150]
        assert read(another, first, 101, 101) == b""
        with pytest.raises(VerificationFailed):
            read(another, second, 0, 4001)
        append(another, second, 4000, 5000)
        assert read(another, second, 3000, 5000) == CONTENT[3000:5000]


@pytest.mark.parametrize(("begin", "end"), [(0, 50), (0, 200), (50, 150), (101, 200)])
def test_nothing_is_written_over_and_no_hole_is_left(
    session: Archiving, kind: str, tmp_path: Path, shop: Shop, begin: int, end: int
) -> None:
    append(session, named(), 0, 100)
    with session_of(kind, tmp_path, shop) as another:
        for each in (session, another):
            with pytest.raises(Taken, match="has 100 bytes"):
                append(each, named(), begin, end)
        assert read(another, named(), 0, 100) == CONTENT[:100]


def test_an_append_may_be_repeated_and_a_closed_file_takes_no_more(
    session: Archiving, kind: str, tmp_path: Path, shop: Shop
) -> None:
    append(session, named(), 0, 100)
    append(session, named(), 0, 100)
    append(session, named(), 100, 200, closed=True)
    append(session, named(), 100, 200, closed=True)
    with session_of(kind, tmp_path, shop) as another, pytest.raises(Taken):
        append(another, named(), 200, 300)
    assert read(session, named(), 0, 200) == CONTENT[:200]


def test_what_is_not_what_it_was_announced_to_be_is_not_taken(session: Archiving) -> None:
    with pytest.raises((ValueError, Refused, Exception)):
        session.append_log(named(), chunk_of(CONTENT, 0, 100), CONTENT[1:101])
    assert session.archived().files == ()


def test_epochs_lie_beside_each_other(session: Archiving) -> None:
    old, new = named(7), named(7, 1)
    append(session, old, 0, 300)
    append(session, new, 0, 200)
    assert [(f.file.epoch, f.size) for f in session.archived().files] == [(0, 300), (1, 200)]
    session.remove_log(old)
    session.remove_log(old)
    assert [f.file.epoch for f in session.archived().files] == [1]
    with pytest.raises(VerificationFailed):
        read(session, old, 0, 300)
    assert read(session, new, 0, 200) == CONTENT[:200]


def test_what_a_removal_has_left_is_no_file_but_can_be_removed(
    session: Archiving, kind: str, tmp_path: Path, shop: Shop
) -> None:
    old, new = named(7), named(8, 0, 0)
    append(session, old, 0, 100)
    append(session, old, 100, 200)
    append(session, new, 0, 100)
    if kind.startswith("s3"):
        shop.direct.delete_object(Bucket=shop.bucket, Key=shop.objects("log/")[0])
    else:
        (tmp_path / "archive" / old.server / f"{old.key}.chunks").unlink()
    with session_of(kind, tmp_path, shop) as another:
        found = another.archived()
        assert [f.file for f in found.files] == [new]
        assert (found.leftovers, found.problems) == ((old,), ())
        assert remove_leftovers(another) == (f"archived log {old}, whose removal was cut short",)
        assert another.archived().leftovers == ()
        assert read(another, new, 0, 100) == CONTENT[:100]


def test_an_empty_append_tells_that_nothing_was_written(session: Archiving) -> None:
    append(session, named(), 0, 100)
    append(session, named(), 100, 100)
    (found,) = session.archived().files
    assert (found.size, found.last.begin, found.complete_to) == (100, 100, NOW)


@pytest.mark.parametrize("powers", ["receive", "read", "receive,read"])
def test_a_key_does_what_it_may(tmp_path: Path, shop: Shop, powers: str) -> None:
    with session_of("gate", tmp_path, shop) as owner:
        append(owner, named(), 0, 100)
    with session_of("gate", tmp_path, shop, powers) as session:
        assert len(session.archived().files) == 1
        tries = {
            "receive": lambda: append(session, named(), 100, 200),
            "read": lambda: read(session, named(), 0, 100),
            "destroy": lambda: session.remove_log(named()),
        }
        for power, attempt in tries.items():
            if power in powers:
                attempt()
            else:
                with pytest.raises(Refused, match="not allowed for this key"):
                    attempt()
        assert len(session.archived().files) == 1


def test_backups_and_archive_do_not_disturb_each_other(shop: Shop, tmp_path: Path) -> None:
    with shop.session() as session:
        append(session, named(), 0, 100)
        ship(session, shop, stream(11), part(11), 11)
        assert len(session.copies().backups) == 1
        assert session.orphans() == ()
        assert [
            problem for each in session.verify(deep=True, meter=Meter()) for problem in each.problems
        ] == []
        assert len(session.archived().files) == 1


@pytest.mark.parametrize("keys", ["s3", "s3 encrypted"])
def test_small_objects_are_folded(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setattr(log_archive, "FOLD_AT", 8)
    with session_of(keys, tmp_path, shop) as session:
        for number in range(30):
            append(session, named(), number * 10, number * 10 + 10)
            assert len(shop.objects("log/")) < 16
        append(session, named(), 300, 300)
        append(session, named(), 300, 400, closed=True)
        assert len(shop.objects("log/")) < 5
        assert read(session, named(), 0, 400) == CONTENT[:400]
    with session_of(keys, tmp_path, shop) as another:
        (found,) = another.archived().files
        assert (found.size, found.closed) == (400, True)
        assert read(another, named(), 5, 333) == CONTENT[5:333]


def test_what_a_fold_left_over_does_not_count_twice(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_archive, "FOLD_AT", 4)
    with session_of("s3", tmp_path, shop) as session:
        append(session, named(), 0, 10)
        append(session, named(), 10, 20)
        kept = {key: shop.body(key) for key in shop.objects("log/")}
        append(session, named(), 20, 30)
        append(session, named(), 30, 40)
        assert len(shop.objects("log/")) == 1
    for key, body in kept.items():
        shop.replace(key, body)
    with session_of("s3", tmp_path, shop) as another:
        assert another.archived().files[0].size == 40
        append(another, named(), 40, 50)
        assert read(another, named(), 0, 50) == CONTENT[:50]


def test_what_was_tampered_with_in_a_bucket_is_found(shop: Shop, tmp_path: Path) -> None:
    with session_of("s3 encrypted", tmp_path, shop) as session:
        append(session, named(), 0, 100)
        append(session, named(), 100, 200)
        one, other = shop.objects("log/")
        bodies = shop.body(one), shop.body(other)
        for forged in (bodies[1], bodies[0][:-1] + bytes((bodies[0][-1] ^ 1,)), bodies[0][:50], b"", b"{}\n"):
            shop.replace(one, forged)
            with pytest.raises((VerificationFailed, NotFound)):
                read(session, named(), 0, 100)
            assert read(session, named(), 100, 200) == CONTENT[100:200]


def test_by_names_alone_a_bucket_claims_nothing_in_a_restore(shop: Shop, tmp_path: Path) -> None:
    later = NOW + timedelta(days=365)
    with session_of("s3 encrypted", tmp_path, shop) as session:
        append(session, named(), 0, 100)
        append(session, named(), 100, 100)
        (honest,) = session.archived().files
        assert session.proven_to(honest) == honest.complete_to == NOW
        sign = replace(chunk_of(CONTENT, 100, 100), read=later, complete_to=later)
        sealed = shop.body(shop.objects("log/")[-1])
        for body in (b"", b'{"version":1,"compression":"none","encryption":null}\n', sealed):
            shop.replace(f"{shop.root}/log/{named().server}/{named().key}/{sign}", body)
            (forged,) = session.archived().files
            assert forged.complete_to == later
            assert session.proven_to(forged) == NOW


def test_what_is_proven_is_of_the_bytes_that_were_listed(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session_of("s3", tmp_path, shop) as session:
        append(session, named(), 0, 100)
        (listed,) = session.archived().files
        behind = replace(chunk_of(CONTENT, 100, 200), complete_to=NOW + timedelta(days=1))
        session.append_log(named(), replace(behind, read=NOW + timedelta(days=1)), CONTENT[100:200])
        assert session.proven_to(listed) == NOW


def test_what_is_plain_does_not_count_for_who_has_a_key(shop: Shop, tmp_path: Path) -> None:
    with session_of("s3", tmp_path, shop) as plain:
        append(plain, named(), 0, 100)
    with session_of("s3 encrypted", tmp_path, shop) as session, pytest.raises(VerificationFailed):
        read(session, named(), 0, 100)
    with shop.session(keys=(), accept_plain=True) as session:
        assert read(session, named(), 0, 100) == CONTENT[:100]


def test_strangers_in_a_bucket_are_told_and_not_taken_for_a_log(shop: Shop, tmp_path: Path) -> None:
    with session_of("s3", tmp_path, shop) as session:
        append(session, named(), 0, 100)
        for name in ("x", "a/b/c", f"{named().server}/x/y", f"{named().server}/{named().key}/nothing"):
            shop.replace(f"{shop.root}/log/{name}", b"?")
        found = session.archived()
        assert [f.size for f in found.files] == [100]
        assert len(found.problems) == 4


def test_what_who_has_no_key_puts_beside_it_hides_nothing(shop: Shop, tmp_path: Path) -> None:
    with session_of("s3 encrypted", tmp_path, shop) as session:
        for begin, end in ((0, 100), (100, 200), (200, 300)):
            append(session, named(), begin, end)
        forged = chunk_of(CONTENT[1:], 0, 5000, closed=True), chunk_of(CONTENT, 50, 4000)
        for each in forged:
            shop.replace(f"{shop.root}/log/{named().server}/{named().key}/{each}", b"junk")
    with session_of("s3 encrypted", tmp_path, shop) as another:
        assert read(another, named(), 0, 300) == CONTENT[:300]
        assert read(another, named(), 60, 260) == CONTENT[60:260]
        with pytest.raises(VerificationFailed):
            read(another, named(), 0, 5000)


def test_what_cannot_be_folded_keeps_nothing_from_being_appended(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_archive, "FOLD_AT", 4)
    with session_of("s3 encrypted", tmp_path, shop) as session:
        append(session, named(), 0, 10)
        (first,) = shop.objects("log/")
        shop.replace(first, shop.body(first)[:-1] + b"?")
        for begin in range(10, 120, 10):
            append(session, named(), begin, begin + 10)
        assert session.archived().files[0].size == 120
        assert len(shop.objects("log/")) < 10, "those behind it are folded"
        assert read(session, named(), 40, 120) == CONTENT[40:120]


def test_an_epoch_is_of_who_was_first(session: Archiving, kind: str, tmp_path: Path, shop: Shop) -> None:
    server, one, other = named().server, "a" * 32, "b" * 32
    assert session.claim_log(server, 0, one) == one
    append(session, named(), 0, 100)
    with session_of(kind, tmp_path, shop) as another:
        assert another.claim_log(server, 0, other) == one
        assert another.claim_log(server, 1, other) == other
        assert another.claim_log(server, 1, one) == other
        found = another.archived()
        assert [f.size for f in found.files] == [100] and found.problems == ()
        another.remove_log(named())
        assert another.archived().files == ()


@pytest.mark.parametrize("epoch", [2, 99_999_999])
def test_who_may_only_append_takes_no_number_that_is_not_the_next(
    tmp_path: Path, shop: Shop, epoch: int
) -> None:
    with session_of("gate", tmp_path, shop, "receive") as session:
        append(session, named(), 0, 100)
        with pytest.raises(Refused, match="is not the next one"):
            append(session, named(7, epoch), 0, 100)
        with pytest.raises(Refused, match="is not the next one"):
            session.claim_log(named().server, epoch, "a" * 32)
        append(session, named(7, 1), 0, 100)


def test_with_another_key_nothing_is_read_and_nothing_is_lost(shop: Shop, tmp_path: Path) -> None:
    with session_of("s3 encrypted", tmp_path, shop) as session:
        append(session, named(), 0, 100)
        append(session, named(), 100, 200)
    before = {key: shop.body(key) for key in shop.objects("log/")}
    with shop.session(keys=(some_key(),)) as stranger:
        assert [f.size for f in stranger.archived().files] == [200]
        with pytest.raises(VerificationFailed, match="needs the key") as refused:
            read(stranger, named(), 0, 200)
        assert "\n" not in str(refused.value)
        assert stranger.proven_to(stranger.archived().files[0]) is None
        assert stranger.collect_garbage() == ()
    assert {key: shop.body(key) for key in shop.objects("log/")} == before


def test_what_a_stranger_encrypts_beside_it_hides_nothing(shop: Shop, tmp_path: Path) -> None:
    with session_of("s3 encrypted", tmp_path, shop) as session:
        append(session, named(), 0, 100)
        (honest,) = shop.objects("log/")
        kept = shop.body(honest)
        shop.direct.delete_object(Bucket=shop.bucket, Key=honest)
    with shop.session(keys=(some_key(),)) as stranger:
        append(stranger, named(), 0, 300)
        append(stranger, named(8), 0, 300)
    shop.replace(honest, kept)
    with session_of("s3 encrypted", tmp_path, shop) as another:
        assert read(another, named(), 0, 100) == CONTENT[:100]
        assert [another.proven_to(each) for each in another.archived().files] == [NOW, None]
