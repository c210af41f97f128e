"""The largest transactions of a log, and the rows of one of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.jobs.test_known_logs import FOUND, NAME, Host, searched
from tests.unit.samples import NOON
from zbackup.jobs.log.log import largest, rows_of
from zbackup.jobs.restore.known_logs import UNKNOWN
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import NotRecoverable
from zbackup.model.log import Transaction
from zbackup.model.log_entry import LogEntry, LogRead


def entry(number: int, size: int = 1) -> LogEntry:
    where = f"binlog.000007:{number}"
    transaction = Transaction(start=where, end=where, committed=NOON)
    return LogEntry(transaction=transaction, tables=(), events=1, size=size)


def test_the_largest_come_first_and_of_two_alike_the_earlier_one() -> None:
    sizes = (50, 90, 10, 90, 70, 50, 20)
    found = [entry(number, size) for number, size in enumerate(sizes)]
    read = [LogRead(name=name, size=1, end="") for name in ("a", "b")]
    there = [*found[:4], read[0], *found[4:], read[1]]
    for count, numbers in ((3, [1, 3, 4]), (4, [1, 3, 4, 0]), (99, [1, 3, 4, 0, 5, 6, 2])):
        assert list(largest(iter(there), count)) == [*read, *(found[n] for n in numbers)]


def shown(host: Host) -> list[str]:
    """The rows that are shown, by where they were read."""

    def images(files: list[BackupFiles], subject: Transaction) -> list[str]:
        return [f"{subject.start} in {files[0].record.backup} of {len(files)}"]

    ctx: Any = host.ctx
    ctx.log_search.images = images
    return list(rows_of(ctx, NAME))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    return Host(monkeypatch)


def test_the_rows_of_a_transaction_are_read_once_and_where_it_is(host: Host) -> None:
    host.there = {"new": searched(FOUND), "old": searched()}
    assert shown(host) == ["binlog.000005:50 in backup-5 of 2"]
    host.there = {"new": searched(), "old": searched(FOUND)}
    assert shown(host) == ["binlog.000005:50 in backup-2 of 1"]
    host.there = {"new": searched(FOUND), "old": searched(FOUND)}
    assert len(shown(host)) == 1, "it is the same one"
    host.there = {"new": searched(), "old": searched()}
    with pytest.raises(NotRecoverable, match="cannot restore to before"):
        shown(host)


def test_a_log_that_is_another_one_meanwhile_is_no_transaction_without_rows(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its first backup is finished between the two looks."""
    located = SimpleNamespace(transaction=FOUND, logs=frozenset((UNKNOWN,)))
    monkeypatch.setattr("zbackup.jobs.log.log.locate", lambda *_: located)
    with pytest.raises(NotRecoverable, match="try again"):
        shown(host)
