"""Progress that a server reports, against where a replay was to end."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.binlog.builder import Builder
from tests.unit.samples import NOON, PLAIN
from zbackup.engines.mysql.binlog.find_stop import StopPoint
from zbackup.engines.mysql.binlog.position import LoggedTransaction
from zbackup.engines.mysql.recovery import verify_replay
from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import LogPosition
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
END = LogPosition.of("binlog.000012", 4711)
NO_LOG = replace(PLAIN, position="", gtid="")
MARIA = replace(PLAIN, engine="mariadb", gtid="0-1-7", position="")


def transaction(gtid: str) -> LoggedTransaction:
    return LoggedTransaction(start=END, end=END, committed=NOON, gtid=gtid)


def cut(applied: str | None = None, skipped: str | None = None, transactions: int = 1) -> StopPoint:
    return StopPoint(
        stop=END,
        last_applied=None if applied is None else transaction(applied),
        first_skipped=None if skipped is None else transaction(skipped),
        transactions=transactions,
        log_bytes=1,
    )


def server(executed: str = "", **variables: str) -> Connection:
    """A server that has executed these GTIDs (of one server) and has these variables, and no others."""
    there = set(executed.split())

    def one(sql: str) -> Mapping[str, object]:
        if subset := re.search(r"GTID_SUBSET\('([^']*)'", sql):
            return {"there": int(subset[1] in there)}
        name = re.search(r"@@global\.(\w+) AS (\w+)$", sql)
        assert name, sql
        return {name[2]: variables[name[1]]}

    return cast(Connection, SimpleNamespace(one=one))


def reached(record: Record, wanted: StopPoint, executed: str = "", **variables: str) -> str:
    """The GTIDs that the outcome tells. Raise VerificationFailed."""
    return verify_replay.outcome(server(executed, **variables), record, wanted).gtid


def test_mysql_has_the_last_transaction_and_not_the_one_behind_it() -> None:
    assert reached(PLAIN, cut("u:7", "u:8"), "u:7", gtid_executed="u:1-7") == "u:1-7"


def test_mysql_lacks_the_last_transaction() -> None:
    with pytest.raises(VerificationFailed, match="u:7 is missing"):
        reached(PLAIN, cut("u:7", "u:8"), "", gtid_executed="u:1-6")


def test_mysql_has_one_too_many() -> None:
    with pytest.raises(VerificationFailed, match="u:8 is there already"):
        reached(PLAIN, cut("u:7", "u:8"), "u:7 u:8", gtid_executed="u:1-8")


def test_a_mysql_without_gtids_is_not_asked_for_any() -> None:
    assert reached(PLAIN, cut("", ""), gtid_executed="") == ""
    assert reached(PLAIN, cut(), gtid_executed="a:1,\nb:2") == "a:1,b:2"


@pytest.mark.parametrize("place", ["0-1-7", "0-1-7,1-1-4"])
def test_mariadb_has_replayed_up_to_the_last_transaction(place: str) -> None:
    assert reached(MARIA, cut("0-1-7", "0-1-8"), gtid_slave_pos=place) == place


@pytest.mark.parametrize("place", ["0-1-6", "0-1-8", "1-1-7", ""])
def test_mariadb_is_elsewhere(place: str) -> None:
    with pytest.raises(VerificationFailed, match=f"replay ended at {place}, not at 0-1-7"):
        reached(MARIA, cut("0-1-7", "0-1-8"), gtid_slave_pos=place)


def test_a_mariadb_that_nothing_was_replayed_to_says_what_it_had_logged_itself() -> None:
    assert reached(MARIA, cut("0-1-7", transactions=0), gtid_binlog_pos="0-1-9") == "0-1-9"


def test_an_outcome_tells_where_it_ended() -> None:
    found = verify_replay.outcome(server("u:7", gtid_executed="u:1-7"), PLAIN, cut("u:7"))
    assert (found.position, found.base_exact, found.first_skipped) == (str(END), True, None)
    assert found.last_applied and found.last_applied.gtid == "u:7"


def test_a_backup_that_lacks_only_its_log_can_be_opened() -> None:
    verify_replay.require_openable(PLAIN)
    verify_replay.require_openable(replace(PLAIN, server={"blockers": "the binlog is off: set log_bin"}))


def test_a_backup_that_is_torn_cannot_be_opened() -> None:
    torn = replace(PLAIN, server={"blockers": "the binlog is off: set log_bin\ntables lie elsewhere"})
    with pytest.raises(Refused, match=r"cannot be opened: tables lie elsewhere$"):
        verify_replay.require_openable(torn)


@pytest.mark.parametrize(("lock", "offset", "trusted"), [
    ("ftwrl", 4711, True),
    ("ftwrl", 4710, False),
    ("ftwrl", 4712, False),
    ("none", 4711, True),
    ("none", 4710, False),
    ("none", 4712, True),
])  # fmt: skip
def test_the_log_ends_where_it_was_recorded_to(lock: Any, offset: int, *, trusted: bool) -> None:
    found = LogPosition.of("binlog.000012", offset)
    if trusted:
        verify_replay.require_recorded_end(replace(PLAIN, lock=lock), found)
        return
    with pytest.raises(VerificationFailed, match=r"binlog.000012:4711 was recorded: do not trust this one"):
        verify_replay.require_recorded_end(replace(PLAIN, lock=lock), found)


def test_where_nothing_was_recorded_the_log_may_end_anywhere() -> None:
    verify_replay.require_recorded_end(NO_LOG, LogPosition.of("binlog.000001", 4))


def test_nothing_is_asked_of_a_base_of_which_no_position_was_recorded() -> None:
    verify_replay.require_recorded_state(server(), NO_LOG, None)
    verify_replay.require_recorded_state(server(), replace(PLAIN, position=""), None)


@pytest.mark.parametrize(
    ("lock", "size", "trusted"), [("none", 5000, True), ("none", 4000, False), ("ftwrl", 5000, False)]
)
def test_a_base_is_no_earlier_than_recorded(tmp_path: Path, lock: Any, size: int, *, trusted: bool) -> None:
    newest = tmp_path / "binlog.000012"
    newest.write_bytes(bytes(size))
    record = replace(PLAIN, lock=lock, gtid="")
    if trusted:
        verify_replay.require_recorded_state(server(), record, newest)
        return
    with pytest.raises(VerificationFailed, match=f"recovered to binlog.000012:{size}, but"):
        verify_replay.require_recorded_state(server(), record, newest)


def test_a_base_whose_log_cannot_be_read_is_known_by_its_gtids(tmp_path: Path) -> None:
    same = cast(Connection, SimpleNamespace(one=lambda _: {"missing": "", "extra": ""}))
    found = verify_replay.as_it_is(same, PLAIN, Relocation(()), [])
    assert (found.position, found.gtid, found.base_exact) == (PLAIN.position, PLAIN.gtid, True)
    none = replace(PLAIN, gtid="")
    assert not verify_replay.as_it_is(server(), none, Relocation(()), []).base_exact
    late = replace(PLAIN, lock="backup-lock")
    assert not verify_replay.as_it_is(same, late, Relocation(()), []).base_exact


def test_a_base_with_its_log_is_where_that_ends(tmp_path: Path) -> None:
    log = Builder()
    log.mysql(1_700_000_000_000_000, 7)
    file = tmp_path / "binlog.000001"
    file.write_bytes(log.data)
    record = replace(PLAIN, position=f"binlog.000001:{len(log.data)}", gtid="")
    here = server(f"{UUID}:7", gtid_executed=f"{UUID}:1-7")
    found = verify_replay.as_it_is(here, record, Relocation(()), [file])
    assert (found.position, found.gtid) == (record.position, f"{UUID}:1-7")
    with pytest.raises(VerificationFailed, match=f"{UUID}:7 is missing"):
        verify_replay.as_it_is(server("", gtid_executed=""), record, Relocation(()), [file])
    shorter = replace(record, position="binlog.000001:120")
    with pytest.raises(VerificationFailed, match=r"but binlog.000001:120 was recorded: do not trust it"):
        verify_replay.as_it_is(here, shorter, Relocation(()), [file])
