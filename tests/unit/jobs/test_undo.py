"""Alterations since a transaction."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.engines.binlog.builder import Builder
from tests.unit.engines.binlog.test_search_by_filter import statement, transaction
from tests.unit.samples import PLAIN, at
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.engines.mysql.recovery.log_search import MysqlLogSearch
from zbackup.features.undo.undo import altered_by
from zbackup.jobs.context import Context
from zbackup.jobs.restore import search_log
from zbackup.jobs.restore.known_logs import UNKNOWN, KnownLog
from zbackup.jobs.restore.search_log import search_behind
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.errors import Refused
from zbackup.model.log import Transaction
from zbackup.model.log_entry import Kind, LogEntry, LogFilter, LogRead, Touched
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation
from zbackup.model.target import BeforeTransaction
from zbackup.model.transaction_name import parse_transaction

ZONE = ZoneInfo("Europe/Berlin")


def entry(number: int, name: str, *kinds: Kind) -> LogEntry:
    done = Transaction(start=f"binlog.000001:{number}", end="", committed=at(number), gtid=f"0-1-{number}")
    return LogEntry(
        transaction=done, tables=(Touched(name, kinds),), events=1, size=1, text=f"ALTER {number}"
    )


def test_a_table_s_first_later_definition_is_told_and_a_truncate_is_none() -> None:
    found = [
        entry(2, "Shop.Orders", "ddl"),
        entry(3, "shop.orders", "ddl"),
        entry(4, "shop.b", "ddl", "truncate"),
    ]
    told = altered_by(found, ZONE)
    assert list(told) == ["shop.orders"]
    assert told["shop.orders"].endswith("by 0-1-2: ALTER 2")


def test_a_log_that_was_not_read_whole_proves_nothing() -> None:
    read = LogRead(name="binlog.000002", size=9, end="", problem="binlog.000002 is encrypted")
    with pytest.raises(Refused, match="not all of the log was read"):
        altered_by([read], ZONE)


def write(
    directory: Path, log_id: str, *done: tuple[int, str], number: int = 1, held: bool = False
) -> tuple[KnownLog, list[Transaction]]:
    """Write a log of one file: statements, each with its commit time in microseconds; "" changes rows.

    With `held`, a backup holds it.
    """
    builder, where = Builder(), directory / (log_id or "of-nobody")
    for committed, text in done:
        if text:
            statement(builder, committed, text.encode())
        else:
            transaction(builder, committed, (30, "shop.orders"))
    where.mkdir()
    file = where / f"binlog.{number:06}"
    file.write_bytes(builder.data)
    (where / "binlog.index").write_text(f"/srv/log/{file.name}\n")
    server = {"log_bin_basename": "/srv/log/binlog", "log_bin_index": "/srv/log/binlog.index"}
    record = replace(PLAIN, server=server, log_id=log_id, log_from=f"{file.name}:4")
    record = replace(record, log_to=f"{file.name}:{len(builder.data)}")
    files = BackupFiles(record, Relocation((("/srv/log", str(where)),)))
    backups = (Stored(record, files),) if held else ()
    found = [each.transaction for each in search([file], LogFilter()) if isinstance(each, LogEntry)]
    return KnownLog(log_id, [files], backups=cast(tuple[Backup, ...], backups)), found


@dataclass(frozen=True)
class Stored:
    """A backup whose files are at hand."""

    record: Record
    here: BackupFiles

    @property
    def createtxg(self) -> int:
        return int(self.record.log_from.rpartition(":")[0].rpartition(".")[2])

    def files(self, _: object) -> BackupFiles:
        return self.here


def altered(
    monkeypatch: pytest.MonkeyPatch, subject: tuple[Transaction, str], *logs: KnownLog, unread: str = ""
) -> dict[str, str]:
    """The tables that count as altered since, where these are the logs, the newest first."""

    def known(*_: object, unread: Callable[[str], None], why: str = unread) -> Iterator[KnownLog]:
        if why:
            unread(why)
        yield from logs

    monkeypatch.setattr(search_log, "known_logs", known)
    progress = SimpleNamespace(phase=lambda *_: None, advance=lambda *_: None)
    catalog = SimpleNamespace(all_datasets=())
    made = SimpleNamespace(instance="shop", catalog=lambda: catalog, progress=progress)
    made.log_search = MysqlLogSearch(flavor="mysql")
    transaction, log_id = subject
    name = parse_transaction(transaction.start)
    before = BeforeTransaction(name=name, transaction=transaction, logs=frozenset({log_id}))
    return altered_by(search_behind(cast(Context, made), before, frozenset({"ddl"})), ZONE)


def test_only_what_stands_behind_it_in_its_log_is_altered_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commit times say little: whole seconds are all that MariaDB has, and a clock may be put back."""
    log, (_, subject, *_) = write(
        tmp_path,
        "log",
        (5, "ALTER TABLE lines ADD x INT"),
        (5, ""),
        (5, "ALTER TABLE orders ADD x INT"),
        (4, "ALTER TABLE customers ADD x INT"),
    )
    assert list(altered(monkeypatch, (subject, "log"), log)) == ["shop.orders", "shop.customers"]


def test_in_a_log_that_nothing_orders_whatever_may_be_later_is_altered_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as that of a server that took over, or one of which no backup holds the beginning."""
    log, [subject] = write(tmp_path, "log", (5, ""))
    done = ((4, "ALTER TABLE lines ADD x INT"), (5, "ALTER TABLE orders ADD x INT"))
    other, _ = write(tmp_path, "other", *done, (6, ""), (7, "DROP TABLE customers"))
    for logs in ((log, other), (other, log)):
        assert list(altered(monkeypatch, (subject, "log"), *logs)) == ["shop.orders", "shop.customers"]
    unknown, (*_, subject, _) = write(tmp_path, UNKNOWN, *done, (5, ""), (9, "DROP TABLE customers"))
    assert list(altered(monkeypatch, (subject, UNKNOWN), unknown)) == ["shop.orders", "shop.customers"]


def test_where_log_behind_it_was_purged_nothing_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns that changed their names there would be written crosswise."""
    log, [subject] = write(tmp_path, "log", (5, ""), number=4, held=True)
    for log_id, number, between in (
        (UNKNOWN, 9, r" \(4 files\)"),
        ("new", 6, r" \(1 file\)"),
        ("next", 5, ""),
    ):
        later, [own] = write(tmp_path, log_id, (7, ""), number=number, held=log_id != UNKNOWN)
        gone = rf"between binlog.000004:\d+ and binlog.00000{number}{between} is gone"
        with pytest.raises(Refused, match=gone):
            altered(monkeypatch, (subject, "log"), later, log)
        assert altered(monkeypatch, (own, log_id), later, log) == {}, "it lies in front of that one"


def test_where_the_server_s_own_log_was_not_read_nothing_is_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, [subject] = write(tmp_path, "log", (5, ""))
    with pytest.raises(Refused, match="own log was not read: the server does not answer"):
        altered(monkeypatch, (subject, "log"), log, unread="the server does not answer")
