"""A server that answers anything: each job ends with a line and a documented status, and changes nothing."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adapters import changed
from tests.fast.right import require_well
from tests.fast.test_drill import POOL
from tests.fast.world import World
from tests.unit.engines.mysql.test_wire import HELLO, LIES, OK, Liar, named, options, packet, row, rows
from zbackup.config.lock import Lock
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.context import Context
from zbackup.jobs.watch.check import check
from zbackup.jobs.watch.status import inspect
from zbackup.model.errors import ZbackupError
from zbackup.model.operator_notes import OperatorNotes
from zbackup.model.space import Space
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.zfs.facts import ZfsFacts


class Everlasting(Liar):
    """Lets in whoever comes, as often as they come."""

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                there, _ = self.listener.accept()
                threading.Thread(target=self._talk, args=(there,), daemon=True).start()

    def _talk(self, there: "contextlib.AbstractContextManager[object]") -> None:
        with there as peer, contextlib.suppress(OSError):
            peer.sendall(HELLO)  # type: ignore[attr-defined]
            self._heard(peer)  # type: ignore[arg-type]
            peer.sendall(packet(2, OK))  # type: ignore[attr-defined]
            while said := self._heard(peer):  # type: ignore[arg-type]
                self._answer(peer, *said)  # type: ignore[arg-type]


@pytest.fixture(params=range(len(LIES)))
def lie(request: pytest.FixtureRequest) -> Callable[[str], list[bytes]]:
    return LIES[request.param]


@pytest.fixture(params=[0, 4, 8, 12, 16, 24, 32])
def ctx(
    world: World,
    tmp_path: Path,
    lie: Callable[[str], list[bytes]],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Context]:
    """One whose server begins to lie after so many answers."""
    monkeypatch.setattr(ZfsFacts, "settings", lambda *_: ())
    monkeypatch.setattr(ZfsFacts, "pool", lambda *_: POOL)
    room_there = Space(data=1, snapshots=1, clones=0, available=1 << 40, pool=POOL)
    monkeypatch.setattr("zbackup.jobs.watch.status.space", lambda *_: room_there)
    monkeypatch.setattr("zbackup.jobs.watch.check.examine", lambda *_: [])
    honest = world.context()
    snapshot(honest)
    asked = 0
    facts = {
        "version": "9.7.4",
        "server_uuid": "u",
        "datadir": "/srv/d/",
        "log_bin_basename": "/srv/d/binlog",
    }

    def answer(statement: str) -> list[bytes]:
        nonlocal asked
        if statement.startswith("SET"):
            return [OK]
        asked += 1
        truth = {
            "SHOW GLOBAL VARIABLES": rows(("Variable_name", "Value"), *facts.items()),
            "SHOW BINARY LOG STATUS": row(File="binlog.000001", Position="4"),
            "SHOW REPLICA STATUS": [OK],
        }
        return truth.get(statement, named(statement, "1")) if asked < request.param else lie(statement)

    liar = Everlasting(path := tmp_path / "s", answer)
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    engine = MysqlEngine(instance="shop", connect=options(path, None), lock=Lock(wait="1s"), run_dir=run_dir)
    yield changed(honest, engine=engine)
    liar.listener.close()


def status(ctx: Context) -> object:
    return inspect(ctx, Expected(), (), daemon_runs=True, notes=OperatorNotes())


@pytest.mark.parametrize(
    "job", [snapshot, lambda ctx: check(ctx, Expected()), status], ids=["snapshot", "check", "status"]
)
def test_each_job_ends_with_a_line(world: World, ctx: Context, job: Callable[[Context], object]) -> None:
    said = ""
    try:
        job(ctx)
    except ZbackupError as failed:
        said = str(failed)
        assert failed.exit_status not in (0, ZbackupError.exit_status)
    assert "\n" not in said
    require_well(world, world.context())
