"""Credentials that may do less, or no more, and a full bucket: one line says so, and nothing is lost."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.destinations.shop import (
    LINE,
    SEGMENT,
    WHEN,
    Shop,
    fetched,
    new_shop,
    part,
    record,
    ship,
    stream,
)
from tests.lab.s3_accounts import READER, WRITER
from tests.lab.s3_proxy import Fault, proxy
from tests.lab.s3_rights import as_user, denied, full, in_session, until_refused
from tests.lab.s3_server import S3Server, client
from zbackup.destinations.s3.session import S3Session
from zbackup.model.errors import BucketRefused, CommandFailed, VerificationFailed
from zbackup.proc.pipeline import Meter, local

FIRST = stream(11)


@pytest.fixture
def shop(seaweed: S3Server, tmp_path: Path) -> Shop:
    """With one backup in it."""
    made = new_shop(seaweed, tmp_path)
    with made.session() as session:
        ship(session, made, FIRST, part(11), 1)
    return made


def by(shop: Shop, server: S3Server) -> Shop:
    """The same, with the credentials of that."""
    return replace(shop, server=server)


def contents(shop: Shop) -> dict[str, bytes]:
    return {key: shop.body(key) for key in shop.objects()}


def refused(shop: Shop, who: S3Server, work: Callable[[S3Session], object], said: str, **how: object) -> None:
    """In one line, and with nothing changed in the bucket."""
    before = contents(shop)
    with by(shop, who).session(**how) as session, pytest.raises(BucketRefused, match=said) as told:
        work(session)
    assert "\n" not in str(told.value) and told.value.exit_status == 3
    assert contents(shop) == before


def goes_on(shop: Shop, number: int = 2) -> None:
    """A second backup is shipped, and both come back."""
    second = stream(12, 11)
    with shop.session() as session:
        assert session.inventory().committed == {"backup-1"}
        ship(session, shop, second, part(12, 11), number)
        assert session.inventory().committed == {"backup-1", f"backup-{number}"}
        assert (fetched(session, part(11)), fetched(session, part(12, 11))) == (FIRST, second)


def test_who_may_not_write_is_told_and_may_fetch(shop: Shop, seaweed: S3Server) -> None:
    reader = as_user(seaweed, READER)
    said = rf"^put s3://{shop.bucket}/{shop.root}/.*/begun\.json was refused: AccessDenied: .*s3:PutObject$"
    refused(shop, reader, lambda session: ship(session, shop, stream(12, 11), part(12, 11), 2), said)
    with by(shop, reader).session() as session:
        assert fetched(session, part(11)) == FIRST
    goes_on(shop)


@pytest.mark.parametrize("action", ["s3:ListBucket", "s3:GetObject"])
def test_who_may_not_look_is_told_and_nothing_is_taken_for_gone(
    shop: Shop, seaweed: S3Server, action: str
) -> None:
    writer = as_user(seaweed, WRITER)
    said = rf"^(list|get) s3://{shop.bucket}/{shop.root}/.* was refused: AccessDenied: .*{action}$"
    with denied(seaweed, shop.bucket, WRITER, action):
        for work in (S3Session.inventory, S3Session.copies, S3Session.collect_garbage):
            refused(shop, writer, work, said)
    goes_on(by(shop, writer))


def test_who_may_not_delete_is_told_and_all_stays(shop: Shop, seaweed: S3Server) -> None:
    """The server answers that all is well, and names in the answer what it has not deleted."""
    writer = by(shop, as_user(seaweed, WRITER))
    goes_on(writer)
    said = rf"^delete s3://{shop.bucket}/{shop.root}/backups/.* was refused: AccessDenied: .*s3:DeleteObject"

    def prune(session: S3Session) -> None:
        session.remove(next(b for b in session.copies().backups if b.record.backup == "backup-1"), "")

    def give_up(session: S3Session) -> None:
        with pytest.raises(CommandFailed):
            session.store(part(13, 12), local(("sh", "-c", "exit 3")), Meter())
        session.abort(LINE)

    with denied(seaweed, shop.bucket, WRITER, "s3:DeleteObject", "s3:DeleteObjectVersion"):
        refused(shop, writer.server, prune, said)
        with writer.session() as session:
            give_up(session)
            assert [checked.problems for checked in session.verify(deep=True, meter=Meter())] == [(), ()]
    with writer.session() as session:
        prune(session)
        assert session.inventory().committed == {"backup-2"}
        assert fetched(session, part(11)) == FIRST, "the other needs it"


def test_who_may_not_delete_is_told_what_to_delete_of_a_stream_that_lost_something(
    shop: Shop, seaweed: S3Server
) -> None:
    """Before its commit: it looks whole, and only without its page is it stored again."""
    second = stream(12, 11)
    page = f"{shop.root}/streams/tank/my%20data/@12-from-11/stream.json"
    said = rf"^segment 1 of .* when somebody has deleted s3://{shop.bucket}/{page}, .*AccessDenied\)$"
    with by(shop, as_user(seaweed, WRITER)).session() as session:
        session.store(part(12, 11), shop.sender(second), Meter())
        lost = next(key for key in shop.segments() if "@12-from-11/00000001" in key)
        shop.direct.delete_object(Bucket=shop.bucket, Key=lost)
        with (
            denied(seaweed, shop.bucket, WRITER, "s3:DeleteObject"),
            pytest.raises(VerificationFailed, match=said),
        ):
            session.commit(record(2), [part(12, 11)], WHEN)
        assert session.inventory().committed == {"backup-1"}
    shop.direct.delete_object(Bucket=shop.bucket, Key=page)
    goes_on(shop)


def test_a_session_that_ends_meanwhile_is_told_and_gone_on_with(shop: Shop, seaweed: S3Server) -> None:
    """The server does not know its key any more."""
    content, over = stream(12, 11, size=6 * SEGMENT), in_session(seaweed)
    puts: list[int] = []

    def wait(number: int, method: str) -> Fault | None:
        puts.extend([number] * (method == "PUT"))
        if len(puts) == 3:
            until_refused(lambda: client(over).list_objects_v2(Bucket=shop.bucket))
        return None

    said = rf"^put s3://{shop.bucket}/.* was refused: InvalidAccessKeyId: .*get a new session token$"
    with (
        proxy(seaweed.endpoint, wait) as through,
        by(shop, over).session(endpoint=through.endpoint, uploads=1) as session,
        pytest.raises(BucketRefused, match=said) as told,
    ):
        ship(session, shop, content, part(12, 11), 2)
    assert "\n" not in str(told.value) and len(puts) == 3, "it was tried again"
    refused(shop, over, S3Session.inventory, "^list .*get a new session token$")
    before = shop.written()
    with by(shop, in_session(seaweed, 900)).session() as session:
        assert session.inventory().committed == {"backup-1"}
        ship(session, shop, content, part(12, 11), 2)
        assert fetched(session, part(12, 11)) == content
    assert before.items() <= shop.written().items(), "nothing was stored twice"


def test_a_bucket_that_is_over_its_quota_is_told(shop: Shop, seaweed: S3Server) -> None:
    """This server says no more than that something is wrong with it, which others say of what passes."""
    said = rf"^put s3://{shop.bucket}/.* was refused: InternalError: .*which may be that it is full$"
    with full(seaweed, shop.bucket):
        refused(
            shop,
            seaweed,
            lambda session: ship(session, shop, stream(12, 11), part(12, 11), 2),
            said,
            attempts=2,
        )
        with shop.session() as session:
            assert fetched(session, part(11)) == FIRST
    goes_on(shop)
