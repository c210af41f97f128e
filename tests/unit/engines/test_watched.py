"""A server is watched for a standstill whenever it is waited for, in every phase."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.samples import PLAIN
from zbackup.config.recovery import RecoverySettings as RecoveryTable
from zbackup.engines.mongodb.recovery import recover as mongodb
from zbackup.engines.mysql.clone.clone_server import Temporary
from zbackup.engines.mysql.recovery import adopt, memory_tables
from zbackup.model.cloning import PrivateServer
from zbackup.model.recovery import RecoveryFiles
from zbackup.model.relocation import Relocation
from zbackup.model.target import Time
from zbackup.proc.detached import Process


class Watched:
    """Notes which processes are watched together, as long as they are."""

    def __init__(self) -> None:
        self.now: list[int] = []

    @contextmanager
    def progressing(self, *processes: Process) -> Iterator[None]:
        self.now.append(len(processes))
        yield
        self.now.pop()


def test_sql_that_masks_is_watched_and_programs_that_do_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, seen = Watched(), []

    def note(what: str) -> None:
        seen.append((what, bool(watched.now)))

    sessions = SimpleNamespace(script=note, execute=note, version="9.7.4")
    monkeypatch.setattr(adopt, "connect", lambda *_, **__: nullcontext(sessions))
    server = SimpleNamespace(
        own=SimpleNamespace(socket="s"),
        progressing=watched.progressing,
        files=SimpleNamespace(record=PLAIN),
    )
    temporary = Temporary(
        cast(Any, server),
        Process(1, 1),
        cast(Any, SimpleNamespace(user="u", password="p")),
        cast(Any, sessions),
    )

    def prepare(private: PrivateServer) -> None:
        note("a program")
        private.execute("SELECT SLEEP(1000000)")

    adopt._prepare(temporary, prepare)
    assert seen == [
        ("a program", False),
        ("SELECT SLEEP(1000000)", True),
        ("RESET BINARY LOGS AND GTIDS", True),
    ]


def test_memory_tables_are_set_aside_under_watch_and_the_replay_has_its_own() -> None:
    watched, seen = Watched(), []

    class Session:
        def rows(self, *_: object) -> list[dict[str, str]]:
            seen.append(bool(watched.now))
            return []

    with memory_tables.set_aside(cast(Any, Session()), PLAIN, watched.progressing):
        assert not watched.now
    record = PLAIN.from_elsewhere()
    record.server["binlog_format"] = "ROW"
    with memory_tables.set_aside(cast(Any, Session()), record, watched.progressing):
        assert not watched.now
    assert seen == [True]


def test_appending_to_an_oplog_is_watched_with_both_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched()

    class Merged(Exception):
        pass

    def merge(*_: object, **__: object) -> None:
        assert watched.now == [1]
        raise Merged

    class Server:
        files = SimpleNamespace(record=PLAIN)

        @contextmanager
        def temporary(self, *_: object, **__: object) -> Iterator[Any]:
            yield SimpleNamespace(connection=None, process=Process(1, 1), progressing=watched.progressing)

        def make_room(self) -> None:
            pass

    monkeypatch.setattr(mongodb, "_merge", merge)
    monkeypatch.setattr(mongodb.MongoRecovery, "server_on", lambda *_: Server())
    files = RecoveryFiles(record=PLAIN, where=Relocation(()), home=Path("/h"), run=Path("/r"), hide=())
    recovery = mongodb.MongoRecovery(table=RecoveryTable(workers=1))
    progress: Any = SimpleNamespace(phase=lambda *_: None)
    with pytest.raises(Merged):
        recovery.recover(files, files, Time(PLAIN.taken), None, progress)
