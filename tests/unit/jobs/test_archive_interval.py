"""How often an archiver looks: with what an append takes, that is what can be lost with the host."""

import threading
from itertools import pairwise
from typing import Any, cast

import pytest

from tests.unit.jobs.test_archive import World, world
from zbackup.jobs.archive.keep_up import KeepUp
from zbackup.jobs.archive.state import ArchiveState
from zbackup.model.archive import ArchiveRules, Chunk, LogFileId

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
