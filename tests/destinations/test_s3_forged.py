"""Forgeries by one who may write to the bucket and has no key: none counts, and nothing real goes for it."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.destinations.shop import LINE, Shop, fetched, new_shop, part, record, ship, some_key, stream
from tests.destinations.test_s3_seal import at, change, restore, unseal
from tests.lab.s3_server import S3Server
from zbackup.clock import SystemClock
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.prune_at import plan_prune_at, prune_at
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.progress import Silent
from zbackup.model.retention import Retention, Span
from zbackup.proc.pipeline import Meter

SHORT = Retention(tiers=(), last=1, minimum=1, window=Span(1, "minute"))


@pytest.fixture
def shop(server: S3Server, tmp_path: Path, key: bytes) -> Shop:
    """With three encrypted backups of one chain."""
    made = new_shop(server, tmp_path)
    with made.session(keys=(key,)) as session:
        for number in (1, 2, 3):
            base = 9 + number if number > 1 else None
            ship(session, made, stream(10 + number, base), part(10 + number, base), number)
    return made


def forge(shop: Shop, number: int, **changes: Any) -> None:
    """A manifest like that of the third, newer, without a seal or with `changes`."""
    fake = json.loads(shop.body(at(shop, 3)))
    unseal(fake)
    fake |= changes
    fake["record"]["backup"] = f"backup-{number}"
    for time in ("taken", "as_of", "complete_to"):
        fake["record"][time] = f"2026-11-01T{number:02}:00:00+00:00"
    shop.replace(at(shop, number), json.dumps(fake).encode())


def pruning(shop: Shop, **how: Any) -> tuple[Context, ShipDestination]:
    ctx = SimpleNamespace(
        shared=shop.home, instance="shop", clock=SystemClock(), zone=ZoneInfo("UTC"), progress=Silent()
    )
    return cast(Context, ctx), ShipDestination(adapter=shop.destination(**how), tag="", retention=SHORT)


UNKNOWN = {"version": 2, "encryption": {"key_id": "0" * 16, "wrapped": ""}, "seal": "0" * 64}


@pytest.mark.parametrize(
    ("changes", "why"), [({}, "is not signed"), (UNKNOWN, "needs the key 0000")], ids=["unsealed", "unknown"]
)
def test_nothing_goes_for_forged_manifests(shop: Shop, key: bytes, changes: dict[str, Any], why: str) -> None:
    forge(shop, 4, **changes)
    before = shop.objects()
    for prune in (plan_prune_at, prune_at):
        with pytest.raises(VerificationFailed, match=rf"backup-4/manifest\.json.* {why}"):
            prune(*pruning(shop, keys=(key,)))
    assert shop.objects() == before
    with shop.session(keys=(key,)) as session:
        copies = session.copies()
        assert [b.record.backup for b in copies.backups] == ["backup-1", "backup-2", "backup-3"]
        assert [name for name, _ in copies.unreadable] == [at(shop, 4)]
        assert [c.problems for c in session.verify(deep=False, meter=Meter())] == [(), (), ()]


def test_who_has_no_key_prunes_nothing_that_is_sealed(shop: Shop) -> None:
    forge(shop, 4)
    before = shop.objects()
    for prune in (plan_prune_at, prune_at):
        with pytest.raises(Refused, match="give it the key"):
            prune(*pruning(shop))
    assert shop.objects() == before


def test_a_forged_plain_backup_is_not_handed_out(shop: Shop, key: bytes) -> None:
    with shop.session() as forging:
        ship(forging, shop, stream(66), part(66), 9)
    with shop.session(keys=(key,)) as session:
        assert "backup-9" not in [b.record.backup for b in session.copies().backups]
        with pytest.raises(VerificationFailed, match="is not encrypted"):
            fetched(session, part(66))


def plant(shop: Shop, guid: int, base: int | None = None, **how: Any) -> None:
    """A stream that is whole, by who may write to the bucket and has no key of ours."""
    with shop.session(**how) as forging:
        forging.store(part(guid, base), shop.sender(stream(guid, base)), Meter())


def test_a_forged_shorter_way_to_a_real_copy_is_not_taken(shop: Shop, key: bytes) -> None:
    plant(shop, 13)
    with shop.session(keys=(key,)) as session:
        assert restore(session, 3) == 3 * len(stream(11))
        assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))


def seen(shop: Shop, key: bytes) -> tuple[list[str], list[int], list[str]]:
    """The backups in their order, the streams that bring the third back, and what prune would take away."""
    with shop.session(keys=(key,)) as session:
        backups = session.copies().backups
        (third,) = [b for b in backups if b.record.backup == "backup-3"]
        stream_steps = [step.copy.guid for step in session.stream_steps(third.snapshots)]
        assert session.inventory().datasets[0].bases == (22,)
    plan = plan_prune_at(*pruning(shop, keys=(key,)))
    return [b.record.backup for b in backups], stream_steps, [b.record.backup for b in plan.retention.destroy]


def test_streams_that_no_backup_names_change_no_order(shop: Shop, key: bytes) -> None:
    """By a plain stream from a newer chain an older backup would come after it. Where no manifest says which
    stream makes a copy, since that backup is pruned, only the key tells."""
    with shop.session(keys=(key,)) as session:
        ship(session, shop, stream(21), part(21), 4)
        ship(session, shop, stream(22, 21), part(22, 21), 5)
    before = seen(shop, key)
    assert before[0] == [f"backup-{n}" for n in range(1, 6)] and before[1] == [11, 12, 13]
    plant(shop, 13, 21)
    assert seen(shop, key) == before
    shop.direct.delete_object(Bucket=shop.bucket, Key=at(shop, 2))
    pruned = seen(shop, key)
    assert pruned[0] == ["backup-1", "backup-3", "backup-4", "backup-5"] and pruned[1] == before[1]
    plant(shop, 12, 21)
    plant(shop, 12, 22, keys=(some_key(),))
    assert seen(shop, key) == pruned


def test_a_forged_stream_that_alone_is_left_is_told(shop: Shop, key: bytes) -> None:
    """The real one was deleted besides: the backup that needs it does not count, and nothing is pruned."""
    for gone in (at(shop, 2), f"{shop.root}/streams/tank/my%20data/@12-from-11/stream.json"):
        shop.direct.delete_object(Bucket=shop.bucket, Key=gone)
    plant(shop, 12)
    with shop.session(keys=(key,)) as session:
        copies = session.copies()
        assert [b.record.backup for b in copies.backups] == ["backup-1"]
        ((where, why),) = copies.unreadable
        assert where.endswith("@12-full/stream.json") and "is not encrypted" in why
        with pytest.raises(VerificationFailed, match="is not encrypted"):
            session.inventory()
    with pytest.raises(VerificationFailed, match="is not encrypted"):
        prune_at(*pruning(shop, keys=(key,)))


def test_a_bucket_that_became_encrypted_later(server: S3Server, tmp_path: Path, key: bytes) -> None:
    """What is plain counts where that is said, and not by itself."""
    shop = new_shop(server, tmp_path)
    with shop.session() as session:
        ship(session, shop, stream(11), part(11), 1)
    with shop.session(keys=(key,)) as session, pytest.raises(VerificationFailed, match="accept_plain"):
        session.inventory()
    with shop.session(keys=(key,), accept_plain=True) as session:
        ship(session, shop, stream(12, 11), part(12, 11), 2)
        assert restore(session, 2) == len(stream(11)) + len(stream(12, 11))
        assert not any(c.problems for c in session.verify(deep=True, meter=Meter()))
        change(shop, 2, unseal)
    lost = pytest.raises(VerificationFailed, match=r"backup-2/manifest\.json lost its signature")
    with shop.session(keys=(key,), accept_plain=True) as session, lost:
        restore(session, 2)


def test_a_plain_stream_that_no_backup_needs_is_stored_again(
    server: S3Server, tmp_path: Path, key: bytes
) -> None:
    """It was whole and not committed when the key came into the configuration."""
    shop = new_shop(server, tmp_path)
    content = stream(11)
    with shop.session() as session:
        session.store(part(11), shop.sender(content), Meter())
    with shop.session(keys=(key,)) as session:
        with pytest.raises(VerificationFailed, match=r"is not encrypted.*the next run stores it again"):
            session.commit(record(1), [part(11)], "")
        assert session.inventory().datasets[0].name == LINE and not session.inventory().datasets[0].copies


def test_a_stream_that_was_begun_plain_is_begun_anew(server: S3Server, tmp_path: Path, key: bytes) -> None:
    """By an earlier configuration, or by somebody who wants it plain: nothing leaves the host unencrypted."""
    shop = new_shop(server, tmp_path)
    content = stream(11)
    page = f"{shop.root}/streams/tank/my%20data/@11-full/begun.json"
    with shop.session() as session:
        session.store(part(11), shop.sender(content), Meter())
        shop.direct.delete_object(Bucket=shop.bucket, Key=page.replace("begun", "stream"))
    plain = set(shop.segments())
    assert json.loads(shop.body(page))["encryption"] is None
    with shop.session(keys=(key,), accept_plain=True) as session:
        ship(session, shop, content, part(11), 1)
        assert fetched(session, part(11)) == content
    assert json.loads(shop.body(page))["encryption"] is not None
    assert len(set(shop.segments()) - plain) == len(plain) == 3
