"""A log that only its server can read: what was not read of it is told of, and what is new is asked for."""

from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.plan.histories import at_hour, made
from zbackup.engines.log_search import FileSearch
from zbackup.jobs.context import Context
from zbackup.jobs.restore import known_logs
from zbackup.jobs.restore.find_last_drop import find_last_drop, searched_for
from zbackup.jobs.restore.search_log import require_all_read, search_further, search_log
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.log_entry import LogEntry, LogFilter, LogRead
from zbackup.model.relocation import Relocation

NOWHERE = Relocation(())


class Reader:
    """Of a server that does not answer; `asked` counts how often it was to send its log."""

    def __init__(self) -> None:
        self.asked = 0

    def live_log(self, *_: object) -> None:
        raise DatabaseError("cannot reach the server")

    def bring_up_to_date(self, _: object) -> None:
        self.asked += 1

    def history(self, parts: list[BackupFiles], *_: object) -> Iterator[LogRead]:
        for part in parts:
            yield LogRead(name=part.record.backup, size=1, end=part.record.log_to)


@pytest.fixture
def ctx(monkeypatch: pytest.MonkeyPatch) -> Context:
    """Its newest backup is of one o'clock."""
    monkeypatch.setattr(Backup, "files", lambda self, _: BackupFiles(self.record, NOWHERE))
    monkeypatch.setattr(known_logs, "live_files", lambda _: NOWHERE)
    catalog = SimpleNamespace(backups=(made(1, at_hour(1)),), datasets=(), all_datasets=())
    progress = SimpleNamespace(note=lambda _: None, phase=lambda *_: None)
    reader = Reader()
    made_of = SimpleNamespace(
        instance="shop",
        engine_name="mysql",
        catalog=lambda: catalog,
        log_reader=reader,
        log_search=reader,
        progress=progress,
    )
    return cast(Context, made_of)


def found(ctx: Context, until: datetime | None = None, *, backwards: bool = False) -> list[Any]:
    return list(search_log(ctx, LogFilter(until=until, backwards=backwards)))


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("hour", [None, 2])
def test_what_the_server_alone_can_read_was_not_read(ctx: Context, hour: int | None, backwards: bool) -> None:
    """Where it would have stood, so that nobody takes the last that is found for the last there is."""
    reads = found(ctx, at_hour(hour) if hour else None, backwards=backwards)
    assert [each.name for each in reads] == (["shop", "backup-1"] if backwards else ["backup-1", "shop"])
    with pytest.raises(Refused, match="own log was not read: cannot reach the server"):
        require_all_read(reads)


def test_nothing_is_missing_that_a_backup_has(ctx: Context) -> None:
    assert [each.name for each in found(ctx, at_hour(1))] == ["backup-1"]


def test_the_last_drop_is_not_looked_for_in_older_log_alone(ctx: Context) -> None:
    source = SimpleNamespace(search=search_log)
    with pytest.raises(Refused, match="not all of the log was read"):
        find_last_drop(ctx, cast(BackupSource, source), searched_for(ctx, "shop.orders", "drop"))


def test_who_follows_it_asks_the_server_each_time(ctx: Context) -> None:
    """Else nothing new would ever come."""
    live = BackupFiles(made(1, at_hour(1)).record, NOWHERE)
    search = cast(FileSearch, ctx.log_search)
    for _ in range(2):
        assert not [
            each for each in search_further(ctx, search, live, LogFilter()) if isinstance(each, LogEntry)
        ]
    assert cast(Reader, ctx.log_reader).asked == 2
