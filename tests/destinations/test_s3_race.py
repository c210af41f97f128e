"""A host commits while another one prunes: whichever comes first, no backup is listed that is not whole."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.destinations.shop import LINE, WHEN, Shop, fetched, new_shop, part, record, ship, stream
from tests.destinations.test_s3_keep import chain, days_later, named
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.session import S3Session
from zbackup.model.errors import BucketRefused, VerificationFailed
from zbackup.proc.pipeline import Meter

PAGE = "@12-from-11/stream.json"


@pytest.fixture(params=["plain", "encrypted"])
def how(request: pytest.FixtureRequest, key: bytes) -> dict[str, object]:
    return {"keys": (key,)} if request.param == "encrypted" else {}


@pytest.fixture
def shop(server: S3Server, tmp_path: Path, how: dict[str, object]) -> Shop:
    """With a backup, and a stream that was stored and not committed."""
    made = new_shop(server, tmp_path)
    with made.session(**how) as session:
        chain(session, made, (11, None))
        session.store(part(12, 11), made.sender(stream(12, 11)), Meter())
    return made


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Callable[[], object]], None]:
    """Does something once, before (or with `after:`, after) a bucket's method is called for such a key."""

    def hook(method: str, end: str, work: Callable[[], object]) -> None:
        real, name = getattr(Bucket, method.removeprefix("after:")), method.removeprefix("after:")
        done: list[bool] = []

        def called(bucket: Bucket, key: str, *rest: object) -> object:
            due = key.endswith(end) and not done
            if due:
                done.append(True)
            if due and not method.startswith("after:"):
                work()
            result = real(bucket, key, *rest)
            if due and method.startswith("after:"):
                work()
            return result

        monkeypatch.setattr(Bucket, name, called)

    return hook


def commit(session: S3Session) -> None:
    session.commit(record(2), [part(12, 11)], WHEN)


def collect_garbage(shop: Shop, how: dict[str, object]) -> tuple[str, ...]:
    """By another host, for which days have passed since the stream was written."""
    with days_later(shop, 3, **how) as session:
        return session.collect_garbage()


def whole(shop: Shop, how: dict[str, object]) -> bool:
    """Whether the second backup is listed; if so it can be brought back."""
    with shop.session(**how) as session:
        if "backup-2" not in named(session):
            assert "backup-2" not in session.inventory().committed
            return False
        assert len(fetched(session, part(12, 11))) == len(stream(12, 11))
        assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))
        return True


Before = Callable[[str, str, Callable[[], object]], None]


@pytest.mark.parametrize("method", ["put_new", "after:put_new"])
def test_what_is_swept_while_it_is_committed_is_not_listed(
    shop: Shop, how: dict[str, object], before: Before, method: str
) -> None:
    """Between the look at the segments and the manifest, and for who looked before the manifest was there."""
    if method == "put_new":
        before(method, "backup-2/manifest.json", lambda: collect_garbage(shop, how))
    else:
        # The sweep has looked already, and takes away behind the manifest's back.
        before(method, "backup-2/manifest.json", lambda: take_segment(shop))
    with shop.session(**how) as session, pytest.raises(VerificationFailed, match="The backup does not count"):
        commit(session)
    assert not whole(shop, how)
    with shop.session(**how) as session:
        if method == "after:put_new":
            with pytest.raises(VerificationFailed, match="the next run stores it again"):
                commit(session)
        ship(session, shop, stream(12, 11), part(12, 11), 2)
    assert whole(shop, how)


def take_segment(shop: Shop) -> None:
    key = next(key for key in shop.segments() if "@12-from-11" in key)
    shop.direct.delete_object(Bucket=shop.bucket, Key=key)


def test_who_may_not_delete_writes_that_it_does_not_count(
    shop: Shop, how: dict[str, object], before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a host should be set up that may only add."""

    def no(bucket: Bucket, key: str) -> None:
        raise BucketRefused(f"delete {key} was refused: AccessDenied", "AccessDenied")

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "delete", no)
        before("put_new", "backup-2/manifest.json", lambda: collect_garbage(shop, how))
        with shop.session(**how) as session, pytest.raises(VerificationFailed, match="does not count"):
            commit(session)
        assert [key for key in shop.objects("backups/") if "backup-2" in key], "it is still there"
        assert not whole(shop, how)
        with shop.session(**how) as session:
            assert not session.copies().unreadable, "and in nobody's way"
            ship(session, shop, stream(12, 11), part(12, 11), 2)
        assert whole(shop, how)


def test_a_withdrawn_manifest_is_swept(
    shop: Shop, how: dict[str, object], before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "delete", refuse)
        before("put_new", "backup-2/manifest.json", lambda: collect_garbage(shop, how))
        with shop.session(**how) as session, pytest.raises(VerificationFailed, match="does not count"):
            commit(session)
    collect_garbage(shop, how)
    assert shop.objects("backups/") == [f"{shop.root}/backups/backup-1/manifest.json"]


def refuse(bucket: Bucket, key: str) -> None:
    raise BucketRefused(f"delete {key} was refused: AccessDenied", "AccessDenied")


@pytest.mark.parametrize("moment", ["get", "erase", "after:erase"])
def test_what_is_committed_while_it_is_swept_stays(
    shop: Shop, how: dict[str, object], before: Before, moment: str
) -> None:
    """Before the sweep takes the page away, which it then puts back; or after, which the commit sees."""
    told: list[str] = []

    def committing() -> None:
        with shop.session(**how) as session:
            try:
                commit(session)
            except VerificationFailed as wrong:
                told.append(str(wrong))

    before(moment, PAGE, committing)
    assert collect_garbage(shop, how) == (f"{LINE}/@12-from-11",), "it was a stray when that was decided"
    assert whole(shop, how) == (not told), (moment, told)
    assert bool(told) == (moment == "after:erase")


def test_a_base_that_is_pruned_while_what_is_based_on_it_is_committed(
    shop: Shop, how: dict[str, object], before: Before
) -> None:
    """By somebody who removes a backup by hand, which no policy would."""

    def removing() -> None:
        with shop.session(**how) as session:
            session.remove(named(session)["backup-1"], "")

    before("put_new", "backup-2/manifest.json", removing)
    with shop.session(**how) as session, pytest.raises(VerificationFailed, match="does not count"):
        commit(session)
    assert not whole(shop, how)


def test_a_stream_that_somebody_goes_on_with_is_not_swept(
    shop: Shop, how: dict[str, object], before: Before
) -> None:
    """He says so in the header, between the look and the deletion; what he writes now is not deleted."""
    page = f"{shop.root}/streams/tank/my%20data/{PAGE}"
    shop.direct.delete_object(Bucket=shop.bucket, Key=page)
    content = stream(12, 11)

    def going_on() -> None:
        with shop.session(**how) as session:
            ship(session, shop, content, part(12, 11), 2)

    # The sweep lists the header of what it is about to take away.
    before("list", "@12-from-11/begun.json", going_on)
    collect_garbage(shop, how)
    with shop.session(**how) as session:
        assert "backup-2" in named(session)
        assert fetched(session, part(12, 11)) == content
        assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))
