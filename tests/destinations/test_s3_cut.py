"""Requests that break: one that may pass is tried again; a run that ends is gone on with by the next."""

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.auth
import pytest

from tests.destinations.shop import (
    PRIVATE,
    PUBLIC,
    SEGMENT,
    WHEN,
    Shop,
    fetched,
    new_shop,
    part,
    record,
    some_key,
    stream,
)
from tests.lab.certificate import certificate
from tests.lab.repeats import some, step
from tests.lab.s3_proxy import AtChange, Fault, proxy
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.session import S3Session
from zbackup.model.errors import BucketRefused, ConfigError, ConnectionFailed
from zbackup.proc.pipeline import Meter

SEGMENTS = 4
EVERY = step(2)
"""Of this many requests one is cut off."""
Breaking = Callable[[int, str], Fault | None]


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


def job(session: S3Session, shop: Shop, content: bytes) -> None:
    """What a run does: look, store what is missing, commit."""
    inventory = session.inventory()
    there = {copy.guid for line in inventory.datasets for copy in line.copies}
    if 11 not in there:
        session.store(part(11), shop.sender(content), Meter())
    if "backup-1" not in inventory.committed:
        session.commit(record(1), [part(11)], WHEN)


def at_request(number: int, fault: Fault) -> Breaking:
    return lambda n, _: fault if n == number else None


@pytest.mark.parametrize("public", [pytest.param(b"", id="key"), pytest.param(PUBLIC, id="public key")])
@pytest.mark.parametrize(
    ("breaking", "fault"),
    some(
        [
            pytest.param(at_request, Fault(status=500), id="refused"),
            reset_in_the_request := pytest.param(AtChange, Fault(body=700), id="reset in the request"),
            reset_after := pytest.param(AtChange, Fault(answer=0), id="reset after it took effect"),
        ],
        reset_in_the_request,
        reset_after,
    ),
)
def test_cut_and_run_again(
    server: S3Server, tmp_path: Path, breaking: Callable[[int, Fault], Breaking], fault: Fault, public: bytes
) -> None:
    """One request after the other ends the run; of those that just look, it is the same how they break."""
    keys = (some_key(),)
    private = (PRIVATE,) if public else ()
    content = stream(11, size=SEGMENTS * SEGMENT)
    cuts = 0
    for number in range(1, 100, EVERY):
        shop = new_shop(server, tmp_path)
        with proxy(server.endpoint, breaking(number, fault)) as through:
            try:
                how = {"endpoint": through.endpoint, "attempts": 1, "keys": keys, "public": public}
                with shop.session(**how, uploads=1) as session:
                    job(session, shop, content)
            except (ConnectionFailed, BucketRefused):
                cuts += 1
            else:
                break
        before = shop.written()
        with shop.session(keys=keys, uploads=2, public=public) as session:
            job(session, shop, content)
            assert session.inventory().committed == frozenset({"backup-1"})
        assert not [path for path in (tmp_path / "unfinished").rglob("*") if path.is_file()]
        with shop.session(keys=keys, private=private) as session:
            assert fetched(session, part(11)) == content
        assert len(shop.segments()) == SEGMENTS
        assert before.items() <= shop.written().items(), "nothing was stored twice"
    changes = [seen for seen in through.seen if seen.startswith("PUT ")]
    breakable = len(through.seen if breaking is at_request else changes)
    assert cuts == len(range(0, breakable, EVERY)), "a request broke, and nobody was told"
    assert len(changes) == SEGMENTS + 3


def test_a_committed_stream_that_lost_its_page_comes_back_with_another_key(shop: Shop) -> None:
    """Its own is in no memory any more: the manifest is written again, and nothing of the old one stays."""
    keys, content = (some_key(),), stream(11, size=SEGMENTS * SEGMENT)
    for lost in (False, True):
        before = set(shop.segments())
        if lost:
            (page,) = [key for key in shop.objects("streams/") if key.endswith("stream.json")]
            shop.direct.delete_object(Bucket=shop.bucket, Key=page)
        with shop.session(keys=keys, public=PUBLIC) as session:
            job(session, shop, content)
        with shop.session(keys=keys, private=(PRIVATE,)) as session:
            assert not any(each.problems for each in session.verify(deep=True, meter=Meter()))
            assert fetched(session, part(11)) == content
        assert len(shop.segments()) == SEGMENTS and not before & set(shop.segments())


def test_what_passes_by_itself_fails_nobody(server: S3Server, shop: Shop) -> None:
    """Every third request breaks, in all ways there are, for storing and for fetching."""
    chance = random.Random(11)
    ways = [
        lambda: Fault(status=500),
        lambda: Fault(status=503, code="SlowDown"),
        lambda: Fault(body=chance.randrange(SEGMENT)),
        lambda: Fault(answer=chance.randrange(SEGMENT)),
    ]
    content = stream(11, size=8 * SEGMENT + 5)
    with (
        proxy(server.endpoint, lambda n, _: chance.choice(ways)() if n % 3 == 0 else None) as through,
        shop.session(endpoint=through.endpoint, attempts=20) as session,
    ):
        job(session, shop, content)
        assert fetched(session, part(11)) == content
        assert session.inventory().committed == frozenset({"backup-1"})
        assert len(through.seen) > 30


def test_a_server_that_stays_ill_is_told(server: S3Server, shop: Shop) -> None:
    slow = Fault(status=503, code="SlowDown")
    with (
        proxy(server.endpoint, lambda n, method: slow if method == "PUT" else None) as through,
        shop.session(endpoint=through.endpoint, attempts=3) as session,
        pytest.raises(BucketRefused, match=r"put .*begun\.json was refused: SlowDown: made by the proxy"),
    ):
        job(session, shop, stream(11))
    assert sum(seen.startswith("PUT") for seen in through.seen) == 3


@pytest.mark.parametrize(
    ("lasting", "why"),
    [
        (Fault(status=403, code="QuotaExceeded"), "the bucket is full"),
        (Fault(status=400, code="XMinioAdminBucketQuotaExceeded"), "the bucket is full"),
        (Fault(status=507, code="InsufficientStorage"), "the bucket is full"),
        (Fault(status=400, code="ExpiredToken"), "the session token has expired: get a new one"),
    ],
    ids=lambda value: getattr(value, "code", ""),
)
def test_what_does_not_pass_is_told_at_once(server: S3Server, shop: Shop, lasting: Fault, why: str) -> None:
    """Waiting does not help. When there is room or a new token, what was stored is not stored again."""
    content = stream(11, size=SEGMENTS * SEGMENT)
    puts: list[int] = []

    def fault(number: int, method: str) -> Fault | None:
        puts.extend([number] * (method == "PUT"))
        return lasting if method == "PUT" and len(puts) > 3 else None

    with (
        proxy(server.endpoint, fault) as through,
        shop.session(endpoint=through.endpoint, uploads=1) as session,
        pytest.raises(BucketRefused, match=rf"put .* was refused: {lasting.code}: .*{why}") as told,
    ):
        job(session, shop, content)
    assert "\n" not in str(told.value) and len(puts) == 4, "it was tried again"
    before = shop.written()
    assert len(before) == 2
    with shop.session() as session:
        assert session.inventory().committed == frozenset()
        job(session, shop, content)
        assert fetched(session, part(11)) == content
    assert before.items() <= shop.written().items(), "nothing was stored twice"


def test_a_host_whose_clock_is_wrong_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a day, as the server sees it: what it accepts is signed with a time."""
    now = botocore.auth.get_current_datetime

    def yesterday(remove_tzinfo: bool = True) -> datetime:
        return now(remove_tzinfo) - timedelta(days=1)

    monkeypatch.setattr(botocore.auth, "get_current_datetime", yesterday)
    with (
        shop.session() as session,
        pytest.raises(BucketRefused, match=r"RequestTimeTooSkewed.*clock is wrong: set it") as told,
    ):
        session.inventory()
    assert f"the server has {datetime.now(UTC):%a, %d %b %Y}" in str(told.value)
    assert "\n" not in str(told.value)


def test_by_tls_a_stranger_gets_nothing(
    server: S3Server, shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who is not vouched for by what is configured is told at once; through the right one all comes back."""
    ours, strange = (certificate(new_directory(tmp_path / name)) for name in ("ours", "strange"))
    content = stream(11, size=3 * SEGMENT + 5)
    with proxy(server.endpoint, lambda number, method: None, tls=ours) as through:
        for wrong in (None, strange.cert):
            with (
                shop.session(endpoint=through.endpoint, ca=wrong) as session,
                pytest.raises(ConnectionFailed, match=r"its certificate is not trusted: .* ca_file") as told,
            ):
                session.inventory()
            assert "\n" not in str(told.value) and through.seen == []
        for none in (tmp_path / "nowhere", ours.key):
            with pytest.raises(ConfigError, match=f"ca_file {none}: "), shop.session(ca=none):
                pass
        assert "s3.retried" not in capsys.readouterr().out, "to try again does not help"
        with shop.session(endpoint=through.endpoint, ca=ours.cert, keys=(some_key(),)) as session:
            job(session, shop, content)
            assert fetched(session, part(11)) == content


def new_directory(path: Path) -> Path:
    path.mkdir()
    return path
