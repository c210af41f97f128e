"""Pages of a bucket that are kept on this host: as they were, of what is listed now, or not at all."""

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from zbackup.destinations.s3 import cache
from zbackup.destinations.s3.cache import MOST, NO_CACHE, PageCache
from zbackup.destinations.s3.client import Entry

ENTRY = Entry("a/b", 5, datetime(2026, 11, 1, tzinfo=UTC), '"e"')
ADDRESS = ("https://there", "bucket", "a/shop")


@pytest.fixture
def pages(tmp_path: Path) -> PageCache:
    return PageCache(tmp_path, ADDRESS)


def files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def test_what_is_kept_is_taken_for_the_same_object_of_the_same_bucket_alone(pages: PageCache) -> None:
    pages.keep(ENTRY, b"page\n2")
    assert pages.take(ENTRY) == b"page\n2" == PageCache(pages.home, ADDRESS).take(ENTRY)
    for other in (replace(ENTRY, key="a/c"), replace(ENTRY, etag='"f"'), replace(ENTRY, size=6)):
        assert pages.take(other) is None
    for address in (("https://other", *ADDRESS[1:]), (*ADDRESS[:2], "b/shop"), ADDRESS[:2]):
        assert PageCache(pages.home, address).take(ENTRY) is None
    pages.keep(ENTRY, b"again")
    assert pages.take(ENTRY) == b"again"


def test_what_a_listing_does_not_tell_apart_is_not_kept(pages: PageCache, tmp_path: Path) -> None:
    nameless = replace(ENTRY, etag="")
    pages.keep(nameless, b"page")
    assert pages.take(nameless) is None and not files(tmp_path)
    NO_CACHE.keep(ENTRY, b"page")
    NO_CACHE.keep_only([ENTRY])
    assert NO_CACHE.take(ENTRY) is None


def test_what_is_large_is_not_kept(pages: PageCache) -> None:
    pages.keep(ENTRY, b"x" * (MOST + 1))
    assert pages.take(ENTRY) is None
    pages.keep(ENTRY, b"x" * MOST)
    assert pages.take(ENTRY) == b"x" * MOST


def test_what_was_damaged_here_is_not_taken(pages: PageCache, tmp_path: Path) -> None:
    pages.keep(ENTRY, b"page")
    (file,) = files(tmp_path)
    sound = file.read_text()
    for wrong in (sound[:-1], sound + "x", "", "\n", sound[1:]):
        file.write_text(wrong)
        assert pages.take(ENTRY) is None
    file.write_bytes(b"\xff\xfe")
    assert pages.take(ENTRY) is None
    file.unlink()
    file.mkdir()
    assert pages.take(ENTRY) is None
    pages.keep_only([])
    assert pages.home == tmp_path, "what cannot be taken away stays"


def test_what_is_listed_no_more_goes_and_what_is_not_ours_stays(pages: PageCache, tmp_path: Path) -> None:
    other = replace(ENTRY, key="a/c")
    pages.keep(ENTRY, b"page")
    pages.keep(other, b"other")
    (directory,) = {file.parent for file in files(tmp_path)}
    (directory / f"{'a' * 64}.123").write_text("of a keep() that was killed")
    (directory / "mine").write_text("mine")
    pages.keep_only([other])
    assert pages.take(ENTRY) is None and pages.take(other) == b"other"
    assert {f.name for f in files(tmp_path)} >= {"mine"} and len(files(tmp_path)) == 2
    PageCache(tmp_path, ("elsewhere",)).keep_only([])
    assert pages.take(other) == b"other"


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_where_others_may_write_nothing_is_kept_or_taken(pages: PageCache, tmp_path: Path, mode: int) -> None:
    pages.keep(ENTRY, b"page")
    own = tmp_path / f"buckets.{os.geteuid()}"
    own.chmod(mode)
    assert pages.take(ENTRY) is None
    pages.keep_only([])
    assert len(files(tmp_path)) == 1
    pages.keep(ENTRY, b"again")
    assert pages.home is None, "who cannot keep does not try again"
    own.chmod(0o700)
    assert pages.take(ENTRY) is None and PageCache(tmp_path, ADDRESS).take(ENTRY) == b"page"


def test_where_the_directory_is_anothers_nothing_is_taken(
    pages: PageCache, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages.keep(ENTRY, b"page")
    own = tmp_path / f"buckets.{os.geteuid()}"
    found = list(own.stat())
    found[4] = os.geteuid() + 1
    monkeypatch.setattr(cache.secure_files, "stat", lambda _: os.stat_result(found))
    assert pages.take(ENTRY) is None
    found[4], found[0] = os.geteuid(), 0o100700
    assert pages.take(ENTRY) is None


def test_what_is_kept_is_of_this_user_alone(pages: PageCache, tmp_path: Path) -> None:
    pages.keep(ENTRY, b"page")
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.rglob("*"))] == [0o700, 0o700, 0o600]
