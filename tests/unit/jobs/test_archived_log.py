"""The archived log at a destination is proven, and goes when no backup needs it any more."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.plan.archive_world import World
from tests.unit.samples import at
from zbackup.destinations.copies import Copies
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship import archived as room
from zbackup.jobs.ship.archived import archived_copies, archived_log, check_log
from zbackup.jobs.ship.prune_at import _remove_log, _superseded
from zbackup.model.archive import ArchivedFile, ArchiveInventory, LogFileId
from zbackup.model.errors import (
    CommandFailed,
    ConnectionFailed,
    NoArchive,
    Refused,
    VerificationFailed,
    ZbackupError,
)
from zbackup.model.progress import Silent
from zbackup.model.retention import EMPTY, Retention
from zbackup.proc.pipeline import Meter

METER = Meter()


class Session:
    """What a world has archived; `failure` is raised instead of a listing, `damaged` files do not prove."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.failure: ZbackupError | None = None
        self.damaged: set[int] = set()
        self.claiming: set[int] = set()
        self.short = 0
        self.removed: list[int] = []
        self.locked: set[int] = set()
        self.read: list[tuple[int, int, int]] = []

    def archived(self) -> ArchiveInventory:
        if self.failure:
            raise self.failure
        return self.world.inventory

    def copies(self) -> Copies:
        raise AssertionError("a look asks for them itself")

    def claim_log(self, *_: object) -> str:
        raise AssertionError("nobody archives here")

    def append_log(self, *_: object) -> int:
        raise AssertionError("nobody appends here")

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        self.read.append((file.number, begin, end))
        if file.number in self.damaged:
            raise VerificationFailed(f"{file.name} is damaged")
        yield bytes(end - begin - self.short)

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        return None if archived.file.number in self.claiming else archived.complete_to

    def remove_log(self, file: LogFileId) -> None:
        if file.number in self.locked:
            raise Refused("it is locked until tomorrow")
        self.removed.append(file.number)


def context(seconds: float) -> Context:
    clock = SimpleNamespace(now=lambda: at(seconds))
    return cast(Context, SimpleNamespace(progress=Silent(), clock=clock, zone=ZoneInfo("UTC")))


def destination(retention: object) -> ShipDestination:
    return cast(ShipDestination, SimpleNamespace(name="offsite", retention=retention, grace=at(0) - at(0)))


@pytest.fixture
def world() -> World:
    """Four files; the first backup is in the first, the second in the third."""
    made = World()
    made.take()
    for number in range(3):
        made.write(2)
        made.archive()
        made.rotate()
        if number == 1:
            made.write(1)
            made.archive()
            made.take()
    made.archive()
    return made


@pytest.fixture
def session(world: World) -> Any:
    return Session(world)


@pytest.fixture
def copies(world: World) -> Copies:
    return Copies(tuple(world.backups), ())


def test_where_nothing_can_be_archived_there_is_nothing(copies: Copies) -> None:
    plain = cast(Any, SimpleNamespace())
    assert archived_log(plain)[0].files == ()
    assert archived_copies(plain, copies).with_holders == copies
    assert check_log(context(0), plain, copies, 0, METER) is None


def test_what_is_wrong_with_an_archive_keeps_nobody_from_the_backups(session: Any, copies: Copies) -> None:
    session.failure = NoArchive("that takes the gate")
    there = archived_copies(session, copies)
    assert there.unknown == "" and there.with_holders == copies
    assert check_log(context(0), session, copies, 0, METER) is None
    failures = (
        Refused("mount it"),
        VerificationFailed("it is damaged"),
        CommandFailed(("zfs",), 1, "no pool"),
    )
    for failure in failures:
        session.failure = failure
        there = archived_copies(session, copies)
        assert there.unknown == str(failure) and there.with_holders == copies
        checked = check_log(context(0), session, copies, 0, METER)
        assert checked and checked.problems == (str(failure),)
    session.failure = ConnectionFailed(("ssh",), 255, "no route")
    with pytest.raises(ConnectionFailed):
        archived_copies(session, copies)


def test_the_newest_backup_carries_the_archived_log(session: Any, copies: Copies) -> None:
    there = archived_copies(session, copies)
    [(holder, carrier)] = there.carried
    assert there.carrier(holder) is carrier and there.real(holder) is copies.backups[-1]
    assert there.real(copies.backups[0]) is copies.backups[0]
    assert [b.record.backup for b in there.with_holders.backups] == [
        *(b.record.backup for b in copies.backups),
        holder.record.backup,
    ]


@pytest.mark.parametrize(("most", "read"), [(-1, 0), (0, None), (50, 50)])
def test_so_much_is_read_as_was_asked_for(session: Any, copies: Copies, most: int, read: int | None) -> None:
    checked = check_log(context(0), session, copies, most, METER)
    assert checked and checked.problems == () and checked.files == 4
    assert checked.read == (checked.size if read is None else read)
    assert checked.complete_to == max(f.complete_to for f in session.world.inventory.files if f.complete_to)
    if most == 50:
        assert {number for number, _, _ in session.read} == {4}, "the newest is read first"


def test_what_does_not_prove_is_a_problem_and_the_rest_is_read(session: Any, copies: Copies) -> None:
    session.damaged = {2}
    checked = check_log(context(0), session, copies, 0, METER)
    assert checked and checked.problems == ("archived log: binlog.000002 is damaged",)
    assert len(session.read) == 4
    session.damaged, session.short = set(), 1
    checked = check_log(context(0), session, copies, 0, METER)
    assert checked and len(checked.problems) == 4


def test_what_a_name_claims_and_nothing_proves_is_a_problem(session: Any, copies: Copies) -> None:
    honest = check_log(context(0), session, copies, 0, METER)
    session.claiming = {3, 4}
    checked = check_log(context(0), session, copies, 0, METER)
    assert checked and honest and honest.complete_to
    assert len(checked.problems) == 2 and "binlog.000004" in checked.problems[0]
    assert "says that it is complete up to" in checked.problems[0] and "is nowhere" in checked.problems[0]
    assert checked.complete_to is None
    believed = check_log(context(0), session, copies, 50, METER)
    assert believed and believed.problems == () and believed.complete_to == honest.complete_to


def test_it_goes_with_the_backup_that_needed_it(session: Any, copies: Copies, world: World) -> None:
    ctx, rules = context(world.time + 10), Retention(last=1)
    assert _superseded(ctx, destination(rules), session, copies, ()) == ()
    gone = _superseded(ctx, destination(rules), session, copies, copies.backups[:1])
    assert [f.file.number for f in gone] == [1, 2]
    assert _superseded(ctx, destination(EMPTY), session, copies, copies.backups[:1]) == ()
    unread = Copies(copies.backups, (("a@b", "it is damaged"),))
    assert _superseded(ctx, destination(rules), session, unread, copies.backups[:1]) == (), (
        "who knows what it needs"
    )
    removed, why = _remove_log(destination(rules), session, gone, lambda: False)
    assert (session.removed, len(removed), why) == ([1, 2], 2, "")


def test_what_stays_is_said_and_so_do_the_later_ones(session: Any, copies: Copies, world: World) -> None:
    files = world.inventory.files[:2]
    session.locked = {1}
    removed, why = _remove_log(destination(EMPTY), session, files, lambda: False)
    assert removed == () and session.removed == [] and "binlog.000001" in why and "locked until" in why
    assert _remove_log(destination(EMPTY), session, files, lambda: True) == ((), "")


class Proving(Session):
    """Of a bucket."""

    def verify(self, **_: object) -> Iterator[None]:
        raise AssertionError("its backups are not asked for here")


@pytest.mark.parametrize(("most", "all_of_it"), [(-1, False), (50, False), (0, True)])
def test_of_a_bucket_all_is_read_or_nothing(world: World, copies: Copies, most: int, all_of_it: bool) -> None:
    checked = check_log(context(0), cast(Any, Proving(world)), copies, most, METER)
    assert checked and checked.read == (checked.size if all_of_it else 0)


def test_an_epoch_that_was_chosen_leaves_out_newer_ones(world: World) -> None:
    world.write(2)
    world.archive()
    world.crash(1)
    world.archive()
    session, copies = cast(Any, Session(world)), Copies(tuple(world.backups), ())
    everything = archived_copies(session, copies)
    assert {f.file.epoch for f in everything.archive.files} == {0, 1}
    assert archived_copies(session, copies, 1).archive == everything.archive
    assert {f.file.epoch for f in archived_copies(session, copies, 0).archive.files} == {0}


def test_why_it_does_not_lead_on_is_said_where_there_is_a_why(session: Any, copies: Copies) -> None:
    there = archived_copies(session, copies)
    assert there.ends == ()
    [(holder, carrier)] = there.carried
    torn = replace(carrier, chains=(replace(carrier.chains[0], why="a file is missing"),))
    assert replace(there, carried=((holder, carrier), (holder, torn))).ends == ("a file is missing",)


def test_what_proves_less_than_its_name_says_is_named_with_how_far(
    session: Any, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "proven_to", lambda *_: at(1))
    checked = check_log(context(0), session, copies, 0, METER)
    assert checked and len(checked.problems) == 4
    assert all(
        "and is up to 2024-05-01 12:00:01" in each and each.endswith(" only") for each in checked.problems
    )


def test_of_several_servers_the_one_that_leads_farthest_is_said(
    session: Any, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them proves nothing."""
    [(_, carrier)] = archived_copies(session, copies).carried
    monkeypatch.setattr(room, "carriers", lambda *_: (carrier, carrier, carrier))
    ends = iter((at(7), None, at(9)))
    monkeypatch.setattr(room, "chain_complete", lambda *_: next(ends))
    checked = check_log(context(0), session, copies, -1, METER)
    assert checked and checked.complete_to == at(9)
