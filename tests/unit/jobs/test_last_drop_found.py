"""The search for the last statement that dropped a table: how far it reads, and what it tells."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.reports import a_transaction
from zbackup.jobs.context import Context
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.find_last_drop import _by_hand, find_last_drop, just_before, searched_for
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.errors import DatabaseError, NotFound, Refused, UsageError, VerificationFailed
from zbackup.model.log import ClusterTime
from zbackup.model.log_entry import Kind, LogEntry, LogFilter, LogRead, Lost, Touched
from zbackup.model.transaction_name import parse_transaction
from zbackup.plan.recovery.last_drop import LastDrop

TABLE = "shop.orders"
GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:31"


def entry(start: int, *kinds: Kind, text: str = "", **more: Any) -> LogEntry:
    transaction = a_transaction(0, start, f"u:{start}")
    return LogEntry(
        transaction=transaction, tables=(Touched(TABLE, kinds),), events=1, size=1, text=text, **more
    )


END = LogRead(name="binlog.000012", size=9, end="")
UNREAD = replace(END, problem="encrypted")
MADE, FILLED = entry(100, "ddl"), entry(200, "insert")
DROP = entry(300, "ddl", "drop", text="DROP TABLE orders")
AGAIN = entry(400, "ddl", text="CREATE TABLE orders (id INT)")


class Log:
    """A source whose log is told of until nobody asks on."""

    def __init__(self, *log: LogEntry | LogRead) -> None:
        self.log, self.read, self.notes = log, 0, list[str]()
        self.asked: list[object] = []
        self.production: bool | None = True

    def search(self, _: object, wanted: LogFilter) -> Iterator[LogEntry | LogRead]:
        assert wanted == LogFilter(tables=(TABLE,), backwards=True)
        for each in self.log:
            self.read += isinstance(each, LogRead)
            yield each

    def transaction(self, *asked: object) -> str:
        self.asked += asked[1:]
        return "the target"

    def has_table(self, _: object) -> bool:
        if self.production is None:
            raise DatabaseError("it is down")
        return self.production

    def context(self, *, reads_files: bool = True) -> Context:
        files, server = SimpleNamespace(), SimpleNamespace(live=print, on_clone=print, images=print)
        progress = SimpleNamespace(note=self.notes.append)
        return cast(
            Context,
            SimpleNamespace(
                instance="shop",
                engine_name="mysql" if reads_files else "mongodb",
                log_search=files if reads_files else server,
                progress=progress,
                engine=SimpleNamespace(has_table=self.has_table),
                zone=ZoneInfo("UTC"),
            ),
        )

    def last(self, table: str = TABLE, disproved: tuple[str, ...] = ()) -> LogEntry:
        ctx = self.context()
        return find_last_drop(ctx, cast(BackupSource, self), searched_for(ctx, table, "drop"), disproved)


def test_no_more_is_read_than_tells() -> None:
    log = Log(FILLED, DROP, END, MADE, END)
    assert (log.last(), log.read, log.notes) == (DROP, 1, [])


def test_whether_there_was_a_table_stands_in_an_older_file() -> None:
    log = Log(DROP, END, MADE, FILLED, END, END)
    assert (log.last(), log.read) == (DROP, 2)


def test_what_changed_it_again_is_told_of() -> None:
    log = Log(FILLED, DROP, AGAIN, END)
    assert log.last() == DROP
    (note,) = log.notes
    assert note.startswith(
        "the definition of shop.orders was changed again after this drop, the last time at 2024"
    )
    assert "by u:400: CREATE TABLE orders (id INT). See: zbackup log" in note


def test_what_was_found_counts_where_older_log_cannot_be_read() -> None:
    log = Log(DROP, END, UNREAD, END)
    assert log.last() == DROP and log.read == 2
    assert log.notes == [
        f"that {TABLE} was there before it was not seen: not all of the log was read: encrypted"
    ]
    with pytest.raises(Refused, match="not all of the log was read"):
        Log(FILLED, END, UNREAD).last()


def test_log_that_is_lost_has_no_say_where_what_is_newer_tells() -> None:
    """However old it is, it may hold the last one where nothing newer does."""
    long_ago = datetime(1990, 1, 1, tzinfo=UTC)
    lost = replace(UNREAD, problem="the log is gone", lost=Lost(since=long_ago, until=long_ago))
    log = Log(FILLED, DROP, END, lost, END)
    assert (log.last(), log.read, log.notes) == (DROP, 1, [])
    log = Log(DROP, END, lost, END)
    assert (log.last(), log.read) == (DROP, 2) and "was not seen" in log.notes[0]
    for older in ((), (DROP, END)):
        with pytest.raises(Refused, match="the log is gone; whether that holds a later drop nobody can tell"):
            Log(FILLED, END, lost, *older).last()


DAMAGED = replace(UNREAD, problem="binlog.000012 is damaged", damaged=True)


@pytest.mark.parametrize(("read", "kind"), [(UNREAD, Refused), (DAMAGED, VerificationFailed)])
def test_what_cannot_be_told_says_how_it_is_done_by_hand(read: LogRead, kind: type[Exception]) -> None:
    """The newest log is out of sight, as where production is gone: an older drop may not be the last."""
    log = Log(read, DROP, END)
    with pytest.raises(kind) as refused:
        log.last()
    said = str(refused.value)
    assert said.startswith(f"not all of the log was read: {read.problem}; whether that holds a later drop")
    assert "zbackup log shop --table shop.orders --kind drop, and name" in said
    assert said.endswith(": zbackup restore shop --before TRANSACTION") and "\n" not in said
    there = DestinationSource(cast(Any, SimpleNamespace(name="my cloud")))
    for reads_files, name in ((True, "--before TRANSACTION"), (False, "--to-timestamp SECONDS,INC")):
        said = _by_hand(log.context(reads_files=reads_files), there, LastDrop(TABLE, "truncate"))
        assert "zbackup log shop --at 'my cloud' --table shop.orders --kind truncate" in said
        assert said.endswith(f": zbackup restore shop --from 'my cloud' {name}")
    # What was made for an address has a name that no command knows.
    there = replace(there, address="s3://far/away")
    said = _by_hand(log.context(), there, LastDrop(TABLE, "truncate"))
    assert "my cloud" not in said and "zbackup log" not in said
    assert said.endswith(
        "repeat this command with --before TRANSACTION instead of --before-truncate shop.orders"
    )


def test_none_is_found_and_what_else_there_was_is_said() -> None:
    with pytest.raises(
        NotFound, match=r"^no drop of shop.orders is in the log. See its other entries:\nzbackup log shop"
    ):
        Log(FILLED, END).last()
    with pytest.raises(
        NotFound, match=r"the last change of its definition was at .*, by u:400: CREATE TABLE"
    ):
        Log(AGAIN, END).last()
    unnamed = replace(AGAIN, transaction=replace(AGAIN.transaction, gtid=""))
    with pytest.raises(NotFound, match=r"by binlog.000012:400: CREATE"):
        Log(unnamed, END).last()
    away = entry(500, "ddl", text="RENAME", renames=((TABLE, "shop.old"),))
    with pytest.raises(
        NotFound, match=r"it got the name shop.old at .*, by u:500: RENAME: search for that name"
    ):
        Log(away, END).last()


@pytest.mark.parametrize("table", ["orders", "shop.", ".orders"])
def test_a_table_is_named_with_its_schema(table: str) -> None:
    with pytest.raises(UsageError, match=r"SCHEMA.TABLE"):
        Log(DROP, END).last(table)


def test_just_before_it_is_a_transaction_or_a_cluster_time() -> None:
    log, options = Log(), RestoreOptions(base="zbackup-1")
    named = replace(DROP, transaction=replace(DROP.transaction, gtid=GTID))
    assert just_before(log.context(), cast(BackupSource, log), named, options) == cast(Any, "the target")
    unnamed = replace(DROP, transaction=replace(DROP.transaction, gtid=""))
    just_before(log.context(), cast(BackupSource, log), unnamed, options)
    assert log.asked == [
        parse_transaction(GTID),
        "zbackup-1",
        parse_transaction("binlog.000012:300"),
        "zbackup-1",
    ]
    oplog = replace(DROP, transaction=replace(DROP.transaction, start="1714557720,3@1"))
    found = just_before(log.context(reads_files=False), cast(BackupSource, log), oplog, options)
    assert found == ClusterTime(1714557720, 3)


@pytest.mark.parametrize("behind", [(AGAIN,), (entry(400, "insert"),), (AGAIN, entry(500, "update"))])
def test_a_later_drop_that_was_missed_is_said(behind: tuple[LogEntry, ...]) -> None:
    log = Log(FILLED, DROP, *behind, END)
    assert log.last() == DROP
    log.production = None
    assert log.last() == DROP
    log.production = False
    with pytest.raises(Refused) as refused:
        log.last()
    first, look, restore = str(refused.value).splitlines()
    assert "shop.orders does not exist on the server" in first
    assert f"by {behind[-1].transaction.gtid}" in first
    assert (look, restore) == (
        "  zbackup log shop --table shop.orders",
        "  zbackup restore shop --before TRANSACTION",
    )


def test_no_later_drop_was_missed_where_the_log_tells_that_the_table_is_gone() -> None:
    away = entry(500, "ddl", text="RENAME", renames=((TABLE, "shop.old"),))
    for log in (Log(FILLED, DROP, END), Log(FILLED, DROP, AGAIN, away, END)):
        log.production = False
        assert log.last() == DROP


def test_what_was_disproved_does_not_count() -> None:
    earlier = entry(250, "ddl", "drop", text="DROP TABLE orders")
    log = Log(FILLED, earlier, AGAIN, DROP, END)
    assert log.last() == DROP
    assert log.last(disproved=(DROP.transaction.start,)) == earlier
    with pytest.raises(NotFound):
        log.last(disproved=(DROP.transaction.start, earlier.transaction.start))
