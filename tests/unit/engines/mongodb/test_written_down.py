"""Positions, reach, orders, notes and privileges: what is written down and read again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import PLAIN
from zbackup.config.tls import Tls
from zbackup.engines.mongodb.lock.lock import marker_file
from zbackup.engines.mongodb.lock.watchdog_message import WatchOrder
from zbackup.engines.mongodb.optime import recorded_optime, timestamp
from zbackup.engines.mongodb.options import ConnectOptions
from zbackup.engines.mongodb.recovery.as_of import JOURNAL_LAG, reach, was_still
from zbackup.engines.mongodb.server.privileges import (
    CLUSTER,
    CLUSTER_ACTIONS,
    OPLOG,
    advice,
    grant,
    missing,
    role_document,
)
from zbackup.model.errors import DatabaseError, VerificationFailed
from zbackup.model.oplog_position import OplogPosition
from zbackup.model.record import LOG_ENDED, STOPPED, Record

TAKEN = datetime(2024, 5, 1, 12, tzinfo=UTC)
WALL, AFTER = TAKEN - timedelta(seconds=5), TAKEN + timedelta(milliseconds=300)
CREATED = TAKEN + timedelta(seconds=1)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(-1, 2**40))
def test_an_optime_is_read_back(seconds: int, increment: int, term: int) -> None:
    at = OplogPosition(seconds, increment, term)
    assert OplogPosition.parse(str(at)) == at
    assert (timestamp(at).time, timestamp(at).inc) == (seconds, increment)


@pytest.mark.parametrize("text", ["", "1", "1,2", "1,2@", "a,2@3", "1,2@3 ", "binlog.000001:4"])
def test_what_is_no_optime(text: str) -> None:
    with pytest.raises(ValueError, match="SECONDS,INCREMENT@TERM"):
        OplogPosition.parse(text)


@pytest.mark.parametrize("text", ["{", "[]", "{}", "[" * 100_000])
def test_a_damaged_note_is_not_taken_for_none(tmp_path: Path, text: str) -> None:
    note = marker_file(tmp_path / "n")
    note.path.write_text(text)
    with pytest.raises(DatabaseError, match="delete it when the server is not locked"):
        note.read()


def test_a_damaged_record_is_a_clear_refusal() -> None:
    assert recorded_optime(replace(PLAIN, position="")) is None
    assert recorded_optime(replace(PLAIN, position="7,1@2")) == OplogPosition(7, 1, 2)
    with pytest.raises(VerificationFailed, match="cannot be understood"):
        recorded_optime(replace(PLAIN, position="binlog.000001:4"))
    with pytest.raises(VerificationFailed, match="oplog_wall cannot be understood"):
        reach(record(server={"oplog_wall": "noon"}), CREATED)


def record(**changes: Any) -> Record:
    known = {"engine": "mongodb", "taken": TAKEN, "lock": "none", "role": "primary", "server": {}}
    held = {"lock_held_ms": 40} if changes.get("lock") == "fsync" else {}
    return replace(PLAIN, **(known | held | changes))


BOTH = {"oplog_wall": WALL.isoformat(), "oplog_after_wall": AFTER.isoformat()}
SURE = BOTH | {"oplog_durable_wall": (WALL - timedelta(milliseconds=20)).isoformat()}
LOCKED = {"oplog_wall": WALL.isoformat()}


@pytest.mark.parametrize(
    ("of", "as_of", "complete_to"),
    [
        (record(lock="fsync", server=LOCKED), WALL, TAKEN),
        (record(lock="fsync", server=LOCKED, role="replica"), WALL, WALL),
        (record(server=BOTH), AFTER, TAKEN - JOURNAL_LAG),
        (record(server=BOTH, role="replica"), AFTER, WALL - JOURNAL_LAG),
        (record(server=SURE), AFTER, WALL - timedelta(milliseconds=20)),
        (record(server=SURE, role="replica"), AFTER, WALL - timedelta(milliseconds=20)),
        # Killed before the second look: the snapshot's own time, known to the second.
        (record(server=LOCKED), CREATED + timedelta(seconds=1), TAKEN - JOURNAL_LAG),
        # The lock was not seen to last: it may have been gone before the snapshot was there.
        (record(lock="fsync", server=LOCKED, lock_held_ms=None), CREATED + timedelta(seconds=1), TAKEN),
        # A server alone has no oplog.
        (record(lock="fsync"), TAKEN, TAKEN),
        (record(lock="fsync", lock_held_ms=None), CREATED + timedelta(seconds=1), TAKEN),
        # Taken for its log, without asking: only the clocks are known.
        (record(purpose="log", server=BOTH), CREATED + timedelta(seconds=1), TAKEN - JOURNAL_LAG),
        (record(purpose="log", server=BOTH, role="replica"), CREATED + timedelta(seconds=1), AFTER),
        # Nothing was under way in a server that had been stopped for it, or that had ended before.
        (record(purpose="log", server=BOTH | {STOPPED: "undo"}), CREATED + timedelta(seconds=1), TAKEN),
        (
            record(purpose="log", server=LOCKED | {LOG_ENDED: "it ended"}),
            CREATED + timedelta(seconds=1),
            WALL,
        ),
        (record(purpose="log", server={LOG_ENDED: "off"}), CREATED + timedelta(seconds=1), TAKEN),
    ],
)
def test_how_far_a_backup_reaches(of: Record, as_of: datetime, complete_to: datetime) -> None:
    found = reach(of, CREATED)
    assert (found.as_of, found.complete_to) == (as_of, complete_to)


def test_an_oplog_is_whole_only_where_the_lock_kept_a_primary_still() -> None:
    assert was_still(record(lock="fsync"))
    assert not was_still(record(lock="fsync", lock_held_ms=None))
    assert not was_still(record(lock="fsync", role="replica"))
    assert not was_still(record(lock="none"))


def test_an_order_survives_the_pipe_on_one_line() -> None:
    order = WatchOrder(
        connect=ConnectOptions(
            host="db", port=7, user="u", password=lambda: "p\n'ä", auth_source="app",
            mechanism="SCRAM-SHA-1", tls=Tls(ca=Path("/ca"), cert=Path("/c"), verify=False),
        ),
        note=Path("/run/n"),
        wait_s=9.5,
        hold_s=3,
    )  # fmt: skip
    line = order.to_line()
    assert "\n" not in line
    read = WatchOrder.from_line(line)
    assert read.connect.password and read.connect.password() == "p\n'ä"
    same = replace(read.connect, password=order.connect.password)
    assert (same, read.note, read.wait_s, read.hold_s) == (order.connect, Path("/run/n"), 9.5, 3)
    assert "ä" not in repr(read)


def test_an_order_without_secrets_and_one_with_a_uri() -> None:
    plain = WatchOrder(connect=ConnectOptions(socket="/s"), note=Path("/n"), wait_s=1, hold_s=1)
    assert WatchOrder.from_line(plain.to_line()) == plain
    by_uri = replace(plain, connect=ConnectOptions(uri=lambda: "mongodb://u:p@h"))
    read = WatchOrder.from_line(by_uri.to_line()).connect
    assert read.uri and read.uri() == "mongodb://u:p@h"
    assert "u:p" not in repr(read) and read.where == "the configured uri"


def test_a_note_is_there_until_it_is_removed(tmp_path: Path) -> None:
    note = marker_file(tmp_path / "run" / "a.fsync-locked")
    assert note.read() is None
    note.write("7,1@2")
    assert note.read() == "7,1@2"
    assert note.path.read_text() == '{"still": "7,1@2"}', "as every version writes and reads it"
    note.remove()
    note.remove()
    assert note.read() is None
    note.path.write_text("{")
    with pytest.raises(DatabaseError, match="delete it"):
        note.read()


def test_the_documented_role_lacks_nothing() -> None:
    granted = role_document()["privileges"]
    for kind in ("fsync", "none"):
        assert missing(granted, kind, oplog=True) == missing(granted, kind, oplog=False) == []


@pytest.mark.parametrize("action", CLUSTER_ACTIONS)
def test_every_action_is_missed_where_it_is_needed(action: str) -> None:
    granted = role_document()["privileges"]
    granted[0]["actions"].remove(action)
    assert missing(granted, "fsync", oplog=True) == [(CLUSTER, action)]
    only_locking = action in ("fsync", "unlock", "inprog")
    assert missing(granted, "none", oplog=True) == ([] if only_locking else [(CLUSTER, action)])


@pytest.mark.parametrize(
    ("resource", "covers"),
    [
        ({"anyResource": True}, True),
        ({"db": "local", "collection": "oplog.rs"}, True),
        ({"db": "local", "collection": ""}, True),
        ({"db": "", "collection": ""}, False),  # all databases but the server's own
        ({"db": "local", "collection": "startup_log"}, False),
    ],
)
def test_which_resources_hold_the_oplog(resource: dict[str, Any], covers: bool) -> None:
    granted = [
        {"resource": {"cluster": True}, "actions": list(CLUSTER_ACTIONS)},
        {"resource": resource, "actions": ["find", "collStats"]},
    ]
    assert (missing(granted, "fsync", oplog=True) == []) == covers
    assert missing(granted, "fsync", oplog=False) == []


def test_advice_is_a_command_that_grants_exactly_what_is_missing() -> None:
    both = grant([(CLUSTER, "fsync"), (CLUSTER, "unlock"), (OPLOG, "find")])
    assert both == (
        'db.getSiblingDB("admin").grantPrivilegesToRole("zbackup", '
        '[{"resource": {"cluster": true}, "actions": ["fsync", "unlock"]}, '
        '{"resource": {"db": "local", "collection": "oplog.rs"}, "actions": ["find"]}])'
    )
    assert '"actions": ["unlock"]' in advice("fsyncUnlock") and '["inprog"]' in advice("currentOp")
    assert '"oplog.rs"' in advice("reading local.oplog.rs") and '["collStats"]' in advice("collStats")
    assert advice("dropDatabase") == ""
