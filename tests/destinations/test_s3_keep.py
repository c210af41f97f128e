"""Removing from a bucket, keeping there, and bringing back from it, on a real server."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.destinations.shop import LINE, Shop, fetched, new_shop, part, record, ship, some_key, stream
from tests.lab.repeats import step
from tests.lab.s3_proxy import AtChange, Fault, proxy
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.session import S3Session
from zbackup.model.backup import Backup
from zbackup.model.errors import BucketRefused, CommandFailed, NotResumable, Refused, VerificationFailed
from zbackup.proc.pipeline import Meter, local

INNER = f"{LINE}/bin log"


@pytest.fixture
def shop(server: S3Server, tmp_path: Path) -> Shop:
    return new_shop(server, tmp_path)


def chain(session: S3Session, shop: Shop, *pairs: tuple[int, int | None]) -> dict[int, bytes]:
    """Backups of one dataset each, by (guid, base), taken one hour after the other."""
    contents = {}
    for number, (guid, base) in enumerate(pairs, 1):
        contents[guid] = stream(guid, base)
        ship(session, shop, contents[guid], part(guid, base), number)
    return contents


def named(session: S3Session) -> dict[str, Backup]:
    return {b.record.backup: b for b in session.copies().backups}


def named_by(shop: Shop) -> dict[str, Backup]:
    with shop.session() as session:
        return named(session)


@contextmanager
def days_later(shop: Shop, days: float, **how: object) -> Iterator[S3Session]:
    """By the server's clock."""
    ahead = proxy(shop.server.endpoint, lambda number, method: None, timedelta(days=days))
    with ahead as through, shop.session(endpoint=through.endpoint, **how) as session:
        yield session


def later(days: float) -> datetime:
    return datetime.now(UTC) + timedelta(days=days)


def test_backups_are_in_the_order_in_which_they_were_taken(shop: Shop) -> None:
    with shop.session() as session:
        chain(session, shop, (11, None), (12, 11), (13, None), (14, 13))
        backups = session.copies().backups
    assert [b.record.backup for b in backups] == ["backup-1", "backup-2", "backup-3", "backup-4"]
    assert [b.snapshots[0].guid for b in backups] == [11, 12, 13, 14]
    assert all(b.complete and b.finished for b in backups)
    assert [b.createtxg for b in backups] == sorted(b.createtxg for b in backups)


def test_within_a_chain_no_clock_decides(shop: Shop) -> None:
    """The host's clock was set back by hours between two backups."""
    with shop.session() as session:
        ship(session, shop, stream(11), part(11), 9)
        ship(session, shop, stream(12, 11), part(12, 11), 3)
        assert [b.snapshots[0].guid for b in session.copies().backups] == [11, 12]
        assert session.inventory().datasets[0].bases == (12,)


def test_the_way_to_a_copy_is_its_chain_or_what_is_left_of_it(shop: Shop) -> None:
    with shop.session() as session:
        contents = chain(session, shop, (11, None), (12, 11), (13, 12), (21, None), (22, 21))
        there = {b.snapshots[0].guid: b.snapshots[0] for b in session.copies().backups}

        def way(*guids: int) -> list[tuple[int, int | None]]:
            stream_steps = session.stream_steps([there[guid] for guid in guids])
            assert all(session.size(step) == len(contents[step.copy.guid]) for step in stream_steps)
            assert all(str(step.copy) == str(there[step.copy.guid]) for step in stream_steps)
            return [(step.copy.guid, step.base.guid if step.base else None) for step in stream_steps]

        assert way(13) == [(11, None), (12, 11), (13, 12)]
        assert way(11, 13) == [(11, None), (12, 11), (13, 12)]
        assert way(12, 22) == [(11, None), (12, 11), (21, None), (22, 21)], "no stream leads there from 12"


def test_a_stream_reaches_the_receiver(shop: Shop, tmp_path: Path) -> None:
    target = tmp_path / "received"
    receiver = local(("sh", "-c", f"cat > '{target}'"))
    with shop.session(keys=(some_key(),)) as session:
        contents = chain(session, shop, (11, None), (12, 11))
        stream_steps = session.stream_steps([named(session)["backup-2"].snapshots[0]])
        for step in stream_steps:
            assert session.fetch(step, "", receiver, Meter()) == len(contents[step.copy.guid])
            assert target.read_bytes() == contents[step.copy.guid]
        with pytest.raises(NotResumable):
            session.fetch(stream_steps[0], "1-token", receiver, Meter())


def test_a_receiver_that_fails_is_told_in_its_own_words(shop: Shop) -> None:
    refusing = local(("sh", "-c", "head -c 10 >/dev/null; echo 'no space' >&2; exit 4"))
    with shop.session() as session:
        chain(session, shop, (11, None))
        step = session.stream_steps([named(session)["backup-1"].snapshots[0]])[0]
        with pytest.raises(CommandFailed, match="exited with 4: no space"):
            session.fetch(step, "", refusing, Meter())


def test_a_damaged_stream_ends_the_receiver_before_its_end(shop: Shop, tmp_path: Path) -> None:
    done = tmp_path / "done"
    receiver = local(("sh", "-c", f"cat >/dev/null; touch '{done}'"))
    with shop.session() as session:
        chain(session, shop, (11, None))
        key = shop.segments()[2]
        shop.replace(key, bytes(len(shop.body(key))))
        step = session.stream_steps([named(session)["backup-1"].snapshots[0]])[0]
        with pytest.raises(VerificationFailed, match="damaged"):
            session.fetch(step, "", receiver, Meter())
    assert not done.exists(), "it was not told that this was all"


def test_what_a_kept_backup_needs_stays(shop: Shop) -> None:
    with shop.session() as session:
        contents = chain(session, shop, (11, None), (12, 11), (13, 12), (21, None))
        session.remove(named(session)["backup-1"], "")
        session.remove(named(session)["backup-2"], "")
        assert set(named(session)) == {"backup-3", "backup-4"}
        way = session.stream_steps([named(session)["backup-3"].snapshots[0]])
        assert [step.copy.guid for step in way] == [11, 12, 13]
        assert [step.copy.name for step in way] == ["zbackup-11", "zbackup-12", "zbackup-13"]
        assert [fetched(session, part(g, b)) for g, b in ((11, None), (12, 11), (13, 12))] == [
            contents[guid] for guid in (11, 12, 13)
        ]
        session.remove(named(session)["backup-3"], "")
        assert set(named(session)) == {"backup-4"}
        assert of_streams(shop) == {"21-full"}


def of_streams(shop: Shop) -> set[str]:
    """Which streams there is anything of."""
    return {key.split("/@")[1].split("/")[0] for key in shop.objects() if "/@" in key}


def test_a_removal_that_is_cut_is_finished_by_the_sweep(server: S3Server, tmp_path: Path) -> None:
    """Cut before one change after the other, and looked at days later."""
    every = step(2)
    cuts = 0
    for change in range(0, 100, every):
        shop = new_shop(server, tmp_path)
        with shop.session() as session:
            contents = chain(session, shop, (11, None), (21, None))
        with (
            proxy(server.endpoint, AtChange(change, Fault(status=500), staying=True)) as through,
            shop.session(endpoint=through.endpoint, attempts=1) as session,
        ):
            try:
                session.remove(named_by(shop)["backup-1"], "")
            except BucketRefused:
                cuts += 1
            else:
                break
        with days_later(shop, 2) as session:
            inventory = session.inventory()
            session.collect_garbage()
            assert session.orphans() == ()
            if "backup-1" in inventory.committed:
                assert fetched(session, part(11)) == contents[11]
            else:
                assert (inventory.committed, of_streams(shop)) == (frozenset({"backup-2"}), {"21-full"})
            assert fetched(session, part(21)) == contents[21]
    assert cuts * every >= 5, (
        "at first, and before the manifest, the page, the segments, and how it was begun"
    )


def test_what_was_begun_is_no_stray_while_anybody_works_on_it(shop: Shop) -> None:
    """Of a backup of two datasets one has arrived, and the other takes days."""
    with shop.session() as session:
        chain(session, shop, (11, None))
        session.store(part(12, 11), shop.sender(stream(12, 11)), Meter())
        assert session.orphans() == ()
    with days_later(shop, 0.9) as session:
        assert session.collect_garbage() == ()
        # Another part is begun, which shows that somebody is there.
        session.store(part(31, dataset=INNER), shop.sender(stream(31)), Meter())
    with shop.session(now=lambda: later(3)) as session:
        assert session.collect_garbage() == (), "what time it is the server says"
    with days_later(shop, 3) as session:
        assert session.collect_garbage() == (f"{LINE}/@12-from-11", f"{INNER}/@31-full")
        assert set(named(session)) == {"backup-1"}
        assert session.inventory().datasets[0].bases == (11,)


def test_a_manifest_that_cannot_be_read_keeps_all_streams(shop: Shop) -> None:
    """And hides no other backup from who looks for one to restore."""
    with shop.session() as session:
        chain(session, shop, (11, None), (12, 11))
    with shop.session() as session:
        key = shop.objects("backups/")[0]
        shop.replace(key, b"{")
        copies = session.copies()
        assert [b.record.backup for b in copies.backups] == ["backup-2"]
        assert copies.unreadable[0][0] == key
        for work in (session.collect_garbage, lambda: session.remove(copies.backups[0], "")):
            with pytest.raises(VerificationFailed, match="cannot be read, so that nobody knows"):
                work()
        with pytest.raises(VerificationFailed, match=r"manifest\.json"):
            session.inventory()


@pytest.fixture(scope="module")
def locking(server: S3Server) -> Iterator[str]:
    name = "zbackup-locked"
    Shop(server, "", Path()).direct.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    yield name


def test_what_is_locked_stays_and_is_said_with_its_date(shop: Shop, locking: str) -> None:
    shop = replace(shop, bucket=locking)
    with shop.session(lock_days=1) as session:
        chain(session, shop, (11, None), (21, None))
        first = named(session)["backup-1"]
        until = f"{later(1):%Y-%m-%dT}"
        with pytest.raises(Refused, match=rf"zbackup-11: it is locked until {until}"):
            session.remove(first, "")
        assert set(named(session)) == {"backup-1", "backup-2"}


def test_with_versioning_no_version_stays(shop: Shop, locking: str) -> None:
    shop = replace(shop, bucket=locking)
    with shop.session(max_chain=1) as session:
        chain(session, shop, (11, None), (21, None))
        session.remove(named(session)["backup-1"], "")
        assert set(named(session)) == {"backup-2"}
    listed = shop.direct.list_object_versions(Bucket=locking, Prefix=shop.root)
    assert listed.get("DeleteMarkers", []) == []
    assert {v["Key"] for v in listed["Versions"]} == set(shop.objects())


def test_a_stream_that_lost_a_segment_before_its_commit_is_sent_again(shop: Shop) -> None:
    content = stream(11)
    with shop.session() as session:
        session.store(part(11), shop.sender(content), Meter())
        shop.direct.delete_object(Bucket=shop.bucket, Key=shop.segments()[1])
        with pytest.raises(VerificationFailed, match="the next run stores it again"):
            session.commit(record(1), [part(11)], "")
        (line,) = session.inventory().datasets
        assert (line.copies, line.partial and line.partial.guid) == ((), 11)
        ship(session, shop, content, part(11), 1)
        assert fetched(session, part(11)) == content


def test_legs_are_of_the_line(shop: Shop) -> None:
    """The same guid in two lines, as after a clone was received twice."""
    with shop.session() as session:
        session.store(part(11), shop.sender(stream(11)), Meter())
        session.store(part(11, dataset=INNER), shop.sender(stream(11)), Meter())
        session.commit(record(1, LINE, INNER), [part(11), part(11, dataset=INNER)], "")
        for snapshot in named(session)["backup-1"].snapshots:
            (step,) = session.stream_steps([snapshot])
            assert (step.copy.dataset, step.copy.name) == (snapshot.dataset, snapshot.name)
