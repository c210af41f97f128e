"""Every global variable of the lab's servers is given to a recovered server, or is not for a reason; and none
that could harm is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.engines.mysql.applying import Applying, Notes, as_any
from zbackup.engines.mysql.clone.server_options import KEPT, OwnPaths, Shape, arguments
from zbackup.engines.mysql.recovery.given_settings import GivenSettings
from zbackup.engines.mysql.recovery.packets import PacketSteps
from zbackup.engines.mysql.server import settings
from zbackup.engines.mysql.server.inspect import _changed
from zbackup.engines.mysql.server.server_facts import recorded
from zbackup.engines.mysql.server.status import Dialect

TEXT = (Path(__file__).parent / "global_variables.txt").read_text()
LINES = [line.split() for line in TEXT.splitlines()]
"""A variable's name; "fixed" if it cannot be set, "words" if it takes others than numbers and ON or OFF, else
"plain"; and which of the lab's servers have it so (tests/lab/selftest_replay.py compares)."""

NONE = PacketSteps((), text=False)
SOME = PacketSteps((), text=True)


@pytest.mark.parametrize(("name", "kind"), sorted({(line[0], line[1]) for line in LINES}))
def test_each_is_given_or_is_not_for_a_reason(name: str, kind: str) -> None:
    reasons = [
        reason
        for reason, text in settings.NOT_GIVEN.items()
        if settings.why_not_given(name) == reason and text.split()
    ]
    at_start = name in settings.AT_START and (name in KEPT or name == "time_zone")
    given = bool(settings.given(name, "1"))
    if kind == "fixed":
        assert at_start or reasons, "it cannot be set while a server runs: an option, or a reason"
    elif kind == "words":
        assert at_start or reasons or name in settings.WORDS, "it is given words: WORDS, or a reason"
    assert given != bool(reasons)


def test_no_list_names_what_no_server_has() -> None:
    there = {line[0] for line in LINES}
    assert there >= settings.WORDS | settings.AT_START | settings.LATER | settings.LOGGED


@pytest.mark.parametrize(
    "name",
    [
        "init_connect", "init_slave", "init_replica", "general_log", "general_log_file", "slow_query_log",
        "log_output", "event_scheduler", "secure_file_priv", "plugin_dir", "plugin_load", "log_bin", "debug",
        "server_audit_file_path", "server_audit_logging", "audit_log_file", "wsrep_provider", "autocommit",
        "wsrep_notify_cmd", "innodb_tmpdir", "rpl_semi_sync_master_enabled", "read_only", "super_read_only",
        "offline_mode", "mandatory_roles", "port", "mysqlx_port", "replicate_do_db", "innodb_monitor_enable",
        "innodb_force_recovery", "ssl_ca", "unknown_file", "sql_log_bin", "clone_ssl_key",
        "validate_password_dictionary_file",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["1", "ON", "/etc/passwd", "x"])
def test_what_could_harm_is_never_given(name: str, value: str) -> None:
    assert settings.given(name, value) == settings.option(name, value) == ""


@given(
    st.sampled_from([*sorted(settings.WORDS), "rocksdb_wal_dir", "some_plugin_program"]), st.text(max_size=40)
)
@example("optimizer_switch", "x', GLOBAL init_connect = 'DROP")
@example("sql_mode", "a\\")
@example("sql_mode", "/etc/x")
@example("some_plugin_program", "rm")
def test_a_value_stays_a_value(name: str, value: str) -> None:
    said = settings.given(name, value)
    assert not set(said[1:-1]) & set("'\\/;\n\0`")
    assert said in ("", value, f"'{value}'")
    if name not in settings.WORDS:
        assert not said or not said.startswith("'")


def test_only_what_was_changed_is_recorded(tmp_path: Path) -> None:
    variables = {"datadir": str(tmp_path), "cte_max_recursion_depth": "5000", "max_sort_length": "1024"}
    variables |= {"init_connect": "x", "general_log": "ON"}
    found = recorded(
        variables, "", frozenset({"cte_max_recursion_depth", "init_connect", "general_log", "gone"})
    )
    assert found["cte_max_recursion_depth"] == "5000"
    assert not {"max_sort_length", "init_connect", "general_log", "gone"} & found.keys()
    assert recorded(variables, "")["max_sort_length"] == "1024", "it does not tell what was changed"


def test_numbers_and_switches_are_options_that_a_server_may_not_know() -> None:
    facts = {
        "cte_max_recursion_depth": "5000",
        "big_tables": "ON",
        "init_connect": "x",
        "uid": "0",
        "gtid_mode": "ON",
        "initialize": "ON",
        "user": "0",
    }
    facts |= {
        "max_allowed_packet": "1048576",
        "optimizer_switch": "a=on",
        "transaction_isolation": "SERIALIZABLE",
    }
    shape = Shape(server_id=1, memory=1, workers=1)
    own = OwnPaths(home=Path("/c"), run=Path("/r"))
    found = [option for option in arguments("mysql", facts, own, shape) if option.startswith("--loose-")]
    assert found == ["--loose-big-tables=ON", "--loose-cte-max-recursion-depth=5000"]


def applying(values: dict[str, str], *fixed: str) -> Applying:
    return Applying(cast(Any, None), variables=values, fixed=fixed)


NOW = {
    "max_allowed_packet": "67108864",
    "optimizer_switch": "a=off",
    "ngram_token_size": "2",
    "max_sort_length": "4",
}
NOW |= {"transaction_isolation": "REPEATABLE-READ", "default_storage_engine": "InnoDB", "uid": "7"}


def test_what_differs_is_set_and_the_rest_later() -> None:
    server = applying(dict(NOW))
    facts = {
        "max_allowed_packet": "1048576",
        "optimizer_switch": "a=on",
        "transaction_isolation": "SERIALIZABLE",
    }
    given = GivenSettings.give(as_any(server), facts | {"max_sort_length": "4", "mysqld": "/x"})
    assert server.did == [
        "SET GLOBAL `max_allowed_packet` = 1048576",
        "SET GLOBAL `optimizer_switch` = 'a=on'",
    ]
    assert given.doubt(facts, SOME, Notes()) == ""
    given.give_later(as_any(server))
    assert server.did[2:] == ["SET GLOBAL `transaction_isolation` = 'SERIALIZABLE'"]


def test_no_limit_of_a_recursion_stops_a_replay() -> None:
    """A session may have raised its own, or somebody the server's behind the base."""
    server = applying({"cte_max_recursion_depth": "5000"})
    facts = {"cte_max_recursion_depth": "5000"}
    given = GivenSettings.give(as_any(server), facts)
    assert server.did == ["SET GLOBAL `cte_max_recursion_depth` = 4294967295"]
    given.give_later(as_any(server))
    assert server.did[1:] == ["SET GLOBAL `cte_max_recursion_depth` = 5000"]
    assert given.doubt({"cte_max_recursion_depth": "9000"}, SOME, Notes()) == ""


def test_what_cannot_be_set_is_named_and_doubted_where_statements_are_logged() -> None:
    server, notes = applying(dict(NOW), "max_sort_length"), Notes()
    given = GivenSettings.give(as_any(server), {"max_sort_length": "9"})
    assert given.doubt({}, NONE, notes) == ""
    assert notes.notes == ["max_sort_length is 4 instead of 9"]
    assert "max_sort_length is 4 instead of 9" in given.doubt({}, SOME, notes)


@pytest.mark.parametrize(
    ("name", "doubted"),
    [
        ("optimizer_switch", False), ("eq_range_index_dive_limit", False), ("use_stat_tables", False),
        ("innodb_stats_method", False), ("concurrent_insert", False), ("max_sort_length", True),
        ("cte_max_recursion_depth", False), ("max_allowed_packet", True),
    ],
)  # fmt: skip
def test_how_a_statement_is_carried_out_raises_no_doubt(name: str, doubted: bool) -> None:
    assert settings.depends(name) is doubted


def test_an_engine_of_others_raises_no_doubt() -> None:
    """Most of RocksDB's can be set at a start alone, and none changes a row."""
    server, notes = applying(NOW | {"rocksdb_max_open_files": "-1"}, "rocksdb_max_open_files"), Notes()
    facts = {"rocksdb_max_open_files": "1000"}
    given = GivenSettings.give(as_any(server), facts)
    assert (given.doubt(facts, SOME, notes), notes.notes) == ("", [])


@pytest.mark.parametrize("version", ["9.7.4", "11.8.9-MariaDB"])
def test_a_server_that_names_no_changed_variable_does_not_tell(version: str) -> None:
    names: list[dict[str, str]] = []
    server = cast(Any, SimpleNamespace(rows=lambda _: names))
    assert _changed(server, Dialect.of(version)) is None
    names.append({"name": "DATADIR"})
    assert _changed(server, Dialect.of(version)) == {"datadir"}


def test_what_was_changed_behind_the_base_is_doubted() -> None:
    mark = {settings.ALL: settings.CHANGED}
    facts = {"default_storage_engine": "InnoDB"}
    given = GivenSettings.give(as_any(applying(dict(NOW))), facts | mark)
    later = {"default_storage_engine": "MyISAM"}
    assert "default_storage_engine changed from InnoDB to MyISAM" in given.doubt(later | mark, SOME, Notes())
    assert given.doubt(later | mark, NONE, Notes()) == "", "rows are as they were"
    assert "max_sort_length changed from 4 to 8" in given.doubt(
        facts | mark | {"max_sort_length": "8"}, SOME, Notes()
    )
    assert given.doubt(facts | {"max_sort_length": "8"}, SOME, Notes()) == "", (
        "an earlier version's tells less"
    )
    assert given.doubt(facts | mark | {"optimizer_switch": "a=on"}, SOME, Notes()) == "", (
        "a plan changes no row"
    )


def test_statements_among_rows_that_need_a_larger_packet_are_doubted() -> None:
    given = GivenSettings.give(as_any(applying({})), {})
    assert "larger than max_allowed_packet: 2" in given.doubt({}, PacketSteps((), text=True, torn=2), Notes())
