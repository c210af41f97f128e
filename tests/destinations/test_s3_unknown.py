"""Objects that are listed and cannot be read are unknown, and nothing is removed; what is not ours stays."""

from collections.abc import Callable
from pathlib import Path

import pytest
import structlog

from tests.destinations.shop import LINE, Shop, fetched, new_shop, part, ship, stream
from tests.destinations.test_s3_forged import pruning
from tests.destinations.test_s3_keep import chain, days_later, named
from tests.destinations.test_s3_seal import at
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.client import Bucket
from zbackup.jobs.ship.prune_at import plan_prune_at, prune_at
from zbackup.model.errors import NotFound, VerificationFailed
from zbackup.proc.pipeline import Meter


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int], list[str]]:
    """Makes a store answer 404 to so many reads of keys that end so, though they are listed."""
    getting = Bucket.get

    def to(end: str, times: int) -> list[str]:
        answered: list[str] = []

        def get(bucket: Bucket, key: str, most: int) -> bytearray:
            if key.endswith(end) and len(answered) < times:
                answered.append(key)
                raise NotFound(f"there is no object {key}")
            return getting(bucket, key, most)

        monkeypatch.setattr(Bucket, "get", get)
        return answered

    return to


def test_nothing_goes_while_a_manifest_that_is_listed_cannot_be_read(
    shop: Shop, blind: Callable[[str, int], list[str]]
) -> None:
    """Its streams are no strays, and another backup's removal takes none of them."""
    with shop.session() as session:
        chain(session, shop, (11, None), (12, 11), (21, None))
    before = shop.objects()
    blind("backup-2/manifest.json", 10**6)
    with days_later(shop, 3) as session:
        for work in (session.orphans, session.collect_garbage):
            with pytest.raises(VerificationFailed, match=r"backup-2/manifest.json cannot be read.*is listed"):
                work()
        (first, *_) = session.copies().backups
        with pytest.raises(VerificationFailed, match=r"backup-2/manifest.json cannot be read"):
            session.remove(first, "")
        with pytest.raises(VerificationFailed, match=r"backup-2/manifest.json: it is listed"):
            session.inventory()
        assert [name for name, _ in session.copies().unreadable] == [at(shop, 2)]
    for prune in (plan_prune_at, prune_at):
        with pytest.raises(VerificationFailed, match=r"backup-2/manifest.json cannot be read") as told:
            prune(*pruning(shop))
        assert "\n" not in str(told.value) and told.value.exit_status == 11
    assert shop.objects() == before


def test_a_store_that_was_behind_for_a_moment_is_asked_again(
    shop: Shop, blind: Callable[[str, int], list[str]]
) -> None:
    with shop.session() as session:
        chain(session, shop, (11, None), (12, None))
    answered = blind("backup-1/manifest.json", 2)
    with shop.session() as session:
        assert session.inventory().committed == {"backup-1", "backup-2"} and len(answered) == 2


STRANGE = (
    "backups/README",
    "backups/",
    "backups/x/y/manifest.json",
    "backups/%78/manifest.json",
    "backups/\x1b[2Jx/manifest.json",
    "streams/tank/my%20data/@011-full/stream.json",
    "streams/tank/my%20data/@11-full/notes.txt",
    "streams/tank%0a/@11-full/begun.json",
    f"streams/{'x' * 500}/@1-full/begun.json",
    "segments/tank/my%20data/@11-full/00000000.mine",
    f"segments/tank/my%20data/@11-full/deeper/00000000.{'a' * 64}",
    "segments/tank/my%20data/@11-full/",
    "other/file",
)


def test_what_is_not_ours_changes_nothing_and_is_never_deleted(shop: Shop) -> None:
    with shop.session() as session:
        contents = chain(session, shop, (11, None), (21, None))
        session.store(part(12, 11), shop.sender(stream(12, 11)), Meter())
    strange = {f"{shop.root}/{key}" for key in STRANGE}
    for key in strange:
        shop.direct.put_object(Bucket=shop.bucket, Key=key, Body=b"mine")
    strange &= set(shop.objects())
    assert len(strange) >= len(STRANGE) - 3, "a store may refuse some of them"
    with shop.session() as session:
        assert set(named(session)) == {"backup-1", "backup-2"} and not session.copies().unreadable
        assert session.inventory().committed == {"backup-1", "backup-2"}
        with structlog.testing.capture_logs() as said:
            assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))
        told = [line["key"] for line in said if line["event"] == "s3.strange_object"]
        assert told and all(key.isprintable() for key in told)
        session.remove(named(session)["backup-1"], "")
    with days_later(shop, 3) as session:
        assert session.collect_garbage() == (f"{LINE}/@12-from-11",)
        assert fetched(session, part(21)) == contents[21]
    left = set(shop.objects())
    assert strange <= left
    assert not [key for key in left - strange if "@11-" in key or "@12-" in key], "ours went"


def test_what_is_given_up_takes_nothing_else_along(shop: Shop) -> None:
    with shop.session() as session:
        ship(session, shop, stream(11), part(11), 1)
        session.store(part(12, 11), shop.sender(stream(12, 11)), Meter())
        page = f"{shop.root}/streams/tank/my%20data/@12-from-11/stream.json"
        shop.direct.delete_object(Bucket=shop.bucket, Key=page)
        mine = f"{shop.root}/segments/tank/my%20data/@12-from-11/mine"
        shop.replace(mine, b"mine")
        session.abort(LINE)
    assert [key for key in shop.objects() if "@12-" in key] == [mine]
