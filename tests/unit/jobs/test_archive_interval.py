"""The interval of an archiver: with what an append takes, that is what can be lost with the host."""

import threading
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_archive import World, world
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.jobs.archive import keep_up
from zbackup.jobs.archive.keep_up import KeepUp
from zbackup.jobs.archive.state import ArchiveState, read_state
from zbackup.model.archive import ArchiveRules, Chunk, LogFileId
from zbackup.model.errors import ConnectionFailed
from zbackup.model.written_log import WrittenFile

__all__ = ["world"]


@pytest.mark.parametrize(("took", "waited"), [(0.0, 5.0), (3.0, 2.0), (7.0, 0.0)])
def test_from_one_look_to_the_next_it_is_the_interval_or_one_append(
    world: World, monkeypatch: pytest.MonkeyPatch, took: float, waited: float
) -> None:
    """So what was acknowledged longer ago than the interval and one append is archived."""
    stop, waits, looks = threading.Event(), list[float](), list[float]()
    cast(Any, world.ctx).archive = ArchiveRules(to=("offsite",), every=5.0)
    append = world.archive.append_log

    def slow(file: LogFileId, chunk: Chunk, data: bytes) -> int:
        world.clock.passed += took
        return append(file, chunk, data)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        world.clock.passed += seconds
        world.server.commit()

    monkeypatch.setattr(world.archive, "append_log", slow)
    monkeypatch.setattr(stop, "wait", wait)

    def hears(state: ArchiveState) -> None:
        assert state.archived and not state.error
        looks.append(state.archived.timestamp())
        if len(looks) == 4:
            stop.set()

    world.server.commit()
    KeepUp(world.ctx, world.destination, stop, hears).run()
    assert waits == pytest.approx([waited] * len(waits), abs=0.1) and len(waits) >= 3
    between = [later - look for look, later in pairwise(looks)]
    assert between == pytest.approx([max(5.0, took)] * 3, abs=0.2)


def test_where_there_is_more_it_does_not_wait(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a log that is long behind, one look shows a part."""
    stop, waits, sizes = threading.Event(), list[float](), list[int]()
    cast(Any, world.ctx).archive = ArchiveRules(to=("offsite",), every=5.0)
    scan = MysqlLogFollower.scan

    def in_parts(*asked: Any) -> tuple[WrittenFile, ...]:
        return tuple(replace(each, more=len(sizes) < 2) for each in scan(*asked))

    def hears(state: ArchiveState) -> None:
        sizes.append(sum(each.size for each in world.archive.archived().files))
        if len(sizes) == 4:
            stop.set()
        world.server.commit()

    monkeypatch.setattr(MysqlLogFollower, "scan", in_parts)
    monkeypatch.setattr(stop, "wait", lambda seconds: waits.append(len(sizes)))
    KeepUp(world.ctx, world.destination, stop, hears).run()
    assert len(set(sizes)) == 4 and waits == [3, 4]


def test_what_fails_because_it_is_to_end_is_no_failure(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, told = threading.Event(), list[ArchiveState]()

    def cut(file: LogFileId, chunk: Chunk, data: bytes) -> int:
        stop.set()
        raise ConnectionFailed(("ssh",), 255, "killed by a signal", "vault")

    monkeypatch.setattr(world.archive, "append_log", cut)
    world.server.commit()
    KeepUp(world.ctx, world.destination, stop, told.append).run()
    assert told == [] and read_state(world.ctx, "offsite") is None


def test_who_ends_remembers_nothing_of_the_files(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next who archives, after a configuration was read anew, begins with a look of its own."""
    stop, forgot = threading.Event(), list[bool]()
    monkeypatch.setattr(MysqlLogFollower, "forget", lambda _: forgot.append(stop.is_set()))
    world.server.commit()
    KeepUp(world.ctx, world.destination, stop, lambda _: stop.set()).run()
    assert forgot == [True]


def test_that_it_works_again_is_told_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    stop, told = threading.Event(), list[tuple[str, int]]()

    def tell(event: str, *, failures: int, **_: object) -> None:
        told.append((event, failures))

    def hears(state: ArchiveState) -> None:
        looks.append(state)
        if len(looks) == 5:
            stop.set()

    looks: list[ArchiveState] = []
    monkeypatch.setattr(keep_up, "log", SimpleNamespace(error=tell, info=tell))
    monkeypatch.setattr(stop, "wait", lambda _: None)
    world.place.down = 2
    KeepUp(world.ctx, world.destination, stop, hears).run()
    assert told == [("archive.failed", 1), ("archive.failed", 2), ("archive.works_again", 2)]
