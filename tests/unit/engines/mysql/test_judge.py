from typing import Any

import pytest

from zbackup.engines.mysql.server import assess
from zbackup.engines.mysql.server.status import Channel, Dialect, LogStatus
from zbackup.model.errors import DatabaseError, Refused
from zbackup.model.log import LogPosition
from zbackup.model.server import ServerFacts

LOG = LogStatus(position=LogPosition.of("binlog.000001", 4), gtid="")
SOUND = {"log_bin": "ON", "sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
MYSQL = Dialect.of("9.7.4")


def facts(version: str = "9.7.4", **more: Any) -> ServerFacts:
    known: dict[str, Any] = {
        "flavor": Dialect.of(version).flavor,
        "version": version,
        "server_uuid": "u",
        "role": "primary",
        "applier_running": False,
        "data_paths": (),
        "position": LOG.position,
        "gtid": "",
        "server": {"innodb_flush_log_at_trx_commit": "1", "performance_schema": "ON"},
    }
    return ServerFacts(**(known | more))


OLD_TABLE: dict[str, Any] = {"non_transactional": ("a.b (MyISAM)",), "non_transactional_count": 7}
RISKY: dict[str, Any] = {"server": {"innodb_flush_log_at_trx_commit": "0"}}


@pytest.mark.parametrize(
    ("server", "kind", "because"),
    [
        (facts(), "backup-lock", "every table"),
        (facts(**OLD_TABLE), "ftwrl", "a.b (MyISAM) and 6 more"),
        (facts(**RISKY), "ftwrl", "innodb_flush_log_at_trx_commit"),
        (facts(server={"performance_schema": "OFF"}), "backup-lock", "every table is transactional"),
        (facts("5.7.44-log"), "ftwrl", "came with MySQL 8.0"),
        (facts("10.11.6-MariaDB-log"), "backup-stage", "MariaDB"),
        (facts("10.11.6-MariaDB", **OLD_TABLE), "backup-stage", "MariaDB"),
        (facts("10.3.39-MariaDB"), "ftwrl", "before 10.4"),
    ],
)
def test_auto_takes_the_gentlest_exact_lock_and_says_why(
    server: ServerFacts, kind: str, because: str
) -> None:
    choice = assess.choose("auto", server)
    assert choice.kind == kind
    assert because in choice.reason


@pytest.mark.parametrize(
    ("wanted", "server"),
    [
        ("backup-stage", facts()),
        ("backup-lock", facts("11.8.2-MariaDB")),
        ("backup-lock", facts(**OLD_TABLE)),
        ("backup-lock", facts(**RISKY)),
        ("none", facts(**OLD_TABLE)),
        ("none", facts("11.8.2-MariaDB", **RISKY)),
    ],
)
def test_a_lock_that_would_not_do_is_refused_with_what_would(wanted: str, server: ServerFacts) -> None:
    with pytest.raises(Refused, match="auto"):
        assess.choose(wanted, server)


@pytest.mark.parametrize("wanted", ["ftwrl", "backup-lock", "none"])
def test_a_configured_lock_that_does_is_taken(wanted: str) -> None:
    assert assess.choose(wanted, facts()).kind == wanted


def test_a_sound_server_has_no_blockers_and_no_warnings() -> None:
    assert assess.blockers(MYSQL, SOUND, LOG, ()) == ()
    assert assess.warnings(SOUND, (), {"InnoDB": 3}, "") == ()


@pytest.mark.parametrize(
    ("variables", "log", "because"),
    [
        ({}, LogStatus(position=None, gtid=""), "binlog is off"),
        ({"binlog_encryption": "ON"}, LOG, "encrypted"),
        ({"encrypt_binlog": "ON"}, LOG, "encrypted"),
        ({"binlog_storage_engine": "innodb"}, LOG, "inside InnoDB"),
        ({"Innodb_redo_log_enabled": "OFF"}, LOG, "redo log is disabled"),
        ({}, LogStatus(position=LOG.position, gtid="", filters=("Binlog_Do_DB = a",)), "Binlog_Do_DB = a"),
    ],
)
def test_what_stands_in_the_way_of_a_recovery(
    variables: dict[str, str], log: LogStatus, because: str
) -> None:
    (blocker,) = assess.blockers(MYSQL, SOUND | variables, log, ())
    assert because in blocker


def test_a_replica_must_log_what_it_applies() -> None:
    channel = Channel(name="", applier_running=True)
    assert "log_replica_updates" in assess.blockers(MYSQL, SOUND, LOG, (channel,))[0]
    assert assess.blockers(MYSQL, SOUND | {"log_replica_updates": "ON"}, LOG, (channel,)) == ()


def test_old_servers_are_named() -> None:
    assert "older than 8.0.26" in assess.blockers(Dialect.of("8.0.25"), SOUND, LOG, ())[0]
    assert "older than 10.4" in assess.blockers(Dialect.of("10.3.39-MariaDB"), SOUND, LOG, ())[0]


def test_warnings_name_the_setting() -> None:
    risky = {"sync_binlog": "0", "innodb_flush_log_at_trx_commit": "0", "binlog_format": "STATEMENT"}
    found = " ".join(assess.warnings(risky, (), {"MEMORY": 2}, "2 tablespaces"))
    for word in ("sync_binlog", "flush_log", "STATEMENT", "2 MEMORY", "2 tablespaces"):
        assert word in found


def test_statements_that_no_server_takes_again_are_told_of() -> None:
    risky = {"binlog_format": "STATEMENT", "sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"}
    assert any("LOAD DATA" in text for text in assess.warnings(SOUND | risky, (), {}, ""))
    (session,) = assess.warnings(SOUND | risky | {"binlog_format": "ROW"}, (), {}, "")
    assert "LOAD DATA" in session, "a session may log otherwise"


def test_a_version_that_makes_no_sense_is_an_error() -> None:
    with pytest.raises(DatabaseError):
        Dialect.of("postgres")


def test_redo_log_that_no_lock_can_complete_stands_in_the_way() -> None:
    lazy = SOUND | {"innodb_flush_log_at_trx_commit": "0"}
    (blocker,) = assess.blockers(Dialect.of("10.11.6-MariaDB"), lazy, LOG, ())
    assert "set it to 1 or 2" in blocker
    assert assess.blockers(Dialect.of("11.8.2-MariaDB"), lazy, LOG, ()) == ()
    assert assess.blockers(MYSQL, lazy, LOG, ()) == ()
