"""Options of a server on a clone are safe, whatever was recorded: its log on, no network, no replication, no
events."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.clone.server_options import (
    INSTALLED,
    KEPT,
    NOT_FOR_MYSQL,
    OwnPaths,
    Shape,
    arguments,
)
from zbackup.engines.mysql.server.server_facts import VARIABLES

PLACE = OwnPaths(home=Path("/clones/r1"), run=Path("/run/zbackup/r1"))
LEAST = {"log_bin_basename": "/srv/log/binlog", "log_bin_index": "/srv/log/binlog.index"}
PLAIN = Shape(server_id=7, memory=1 << 28, workers=4)

recorded_facts = st.dictionaries(
    st.sampled_from(
        [*VARIABLES, "skip_networking", "port", "socket", "mysqld", "uid", "log_bin", "relay_log"]
    ),
    st.sampled_from(["", "1", "ON", "OFF", "/", "/srv/x y", "--port=1", "utf8mb4"]),
).map(lambda facts: facts | LEAST)
shapes = st.builds(
    Shape,
    server_id=st.integers(1, 2**32 - 1),
    memory=st.integers(1, 2**40),
    workers=st.integers(1, 64),
    port=st.sampled_from([0, 3307]),
    read_only=st.booleans(),
    init=st.sampled_from([None, Path("/run/zbackup/r1/init.sql")]),
    replaying=st.booleans(),
)
flavors = st.sampled_from(["mysql", "mariadb"])


def options(flavor: str, recorded: dict[str, str], shape: Shape = PLAIN) -> dict[str, str]:
    first, *rest = arguments(flavor, recorded, PLACE, shape)
    assert first == "--no-defaults"
    assert all(option.startswith("--") and "=" in option for option in rest)
    pairs = [option.removeprefix("--").split("=", 1) for option in rest]
    named = {name: value for name, value in pairs}
    assert len(named) == len(pairs), "an option is given twice"
    assert not any("_" in name for name in named), "two spellings of one option could both be given"
    return named


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("facts", [{}, {"log_bin_basename": "", "log_bin_index": ""}])
def test_one_that_kept_no_log_gets_none(flavor: str, facts: dict[str, str]) -> None:
    given = arguments(flavor, facts | {"datadir": "/srv/db"}, PLACE, PLAIN)
    assert "--skip-log-bin" in given
    assert not any(option.startswith("--log-bin") for option in given), given


def test_crash_recovery_looks_where_the_original_s_did() -> None:
    facts = LEAST | {"innodb_directories": "/srv/more;/srv/x y"}
    assert options("mysql", facts)["innodb-directories"] == "/srv/more;/srv/x y"
    beside = replace(PLAIN, outside=("/srv/x y", "/outside"))
    assert options("mysql", facts, beside)["innodb-directories"] == "/srv/more;/srv/x y;/outside"
    assert "innodb-directories" not in options("mariadb", facts, beside)
    assert "innodb-directories" not in options("mysql", LEAST | {"innodb_directories": ""})


@given(flavors, recorded_facts, shapes)
def test_a_server_on_a_clone_is_safe(flavor: str, recorded: dict[str, str], shape: Shape) -> None:
    found = options(flavor, recorded, shape)
    assert (found["log-bin"], found["log-bin-index"]) == ("/srv/log/binlog", "/srv/log/binlog.index")
    assert not any(name.startswith(("skip-log-bin", "disable-log-bin", "innodb-force")) for name in found)
    assert found["event-scheduler"] == "OFF"
    assert (found["socket"], found["pid-file"]) == (
        "/run/zbackup/r1/mysqld.sock",
        "/run/zbackup/r1/mysqld.pid",
    )
    assert found["server-id"] == str(shape.server_id)
    for scratch in ("tmpdir", "relay-log", "relay-log-index"):
        assert Path(found[scratch]).is_relative_to("/clones/r1")
    if flavor == "mysql":
        assert found["skip-replica-start"] == "ON"
        assert (found["persisted-globals-load"], found["mysqlx"]) == ("OFF", "OFF")
        assert (found["log-replica-updates"], found["binlog-expire-logs-seconds"]) == ("OFF", "0")
    else:
        assert found["skip-slave-start"] == "ON"
        assert (found["log-slave-updates"], found["expire-logs-days"]) == ("OFF", "0")


@given(flavors, recorded_facts, shapes)
def test_there_is_no_network_unless_asked_for(flavor: str, recorded: dict[str, str], shape: Shape) -> None:
    found = options(flavor, recorded, shape)
    if shape.port:
        assert (found["port"], found["bind-address"]) == ("3307", "127.0.0.1")
        assert "skip-networking" not in found
    else:
        assert found["skip-networking"] == "ON"
        assert "port" not in found and "bind-address" not in found


@given(flavors, recorded_facts, shapes)
def test_commits_are_careless_only_while_replaying(
    flavor: str, recorded: dict[str, str], shape: Shape
) -> None:
    found = options(flavor, recorded, shape)
    careless = {"innodb-flush-log-at-trx-commit": "0", "sync-binlog": "0"}
    for name, value in careless.items():
        assert found.get(name) == (value if shape.replaying else None)


@pytest.mark.parametrize(("flavor", "option"), [("mysql", "super-read-only"), ("mariadb", "read-only")])
def test_read_only_when_asked(flavor: str, option: str) -> None:
    assert options(flavor, LEAST)[option] == "OFF"
    assert options(flavor, LEAST, Shape(server_id=1, memory=1, workers=1, read_only=True))[option] == "ON"


def test_a_read_only_mariadb_does_not_let_its_administrators_write_either() -> None:
    shape = Shape(server_id=1, memory=1, workers=1, read_only=True)
    assert options("mariadb", LEAST, shape)["transaction-read-only"] == "ON"
    assert "transaction-read-only" not in options("mariadb", LEAST)
    assert "transaction-read-only" not in options("mysql", LEAST, shape), "super-read-only is stronger"


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize(
    ("recorded", "given"),
    [("O_DIRECT", "fsync"), ("O_DIRECT_NO_FSYNC", "fsync"), ("O_DSYNC", "O_DSYNC"), ("fsync", "fsync")],
)
def test_a_clone_is_never_written_by_direct_io(flavor: str, recorded: str, given: str) -> None:
    """ZFS refuses it for pages that are no whole blocks, and InnoDB tries again for ever."""
    assert options(flavor, LEAST | {"innodb_flush_method": recorded})["innodb-flush-method"] == given


def test_workers_memory_and_init_file_are_handed_on() -> None:
    shape = Shape(server_id=1, memory=12345, workers=6, init=Path("/x/init.sql"))
    mysql, mariadb = options("mysql", LEAST, shape), options("mariadb", LEAST, shape)
    assert mysql["replica-parallel-workers"] == mariadb["slave-parallel-threads"] == "6"
    assert mysql["innodb-buffer-pool-size"] == "12345"
    assert mysql["init-file"] == "/x/init.sql"
    assert "init-file" not in options("mysql", LEAST)


@pytest.mark.parametrize("name", [n for n in KEPT if n not in NOT_FOR_MYSQL])
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_what_the_files_need_is_kept(flavor: str, name: str) -> None:
    assert options(flavor, LEAST | {name: "seen"})[name.replace("_", "-")] == "seen"


def test_an_empty_value_is_kept_only_where_it_means_something() -> None:
    found = options("mysql", LEAST | {"sql_mode": "", "innodb_data_home_dir": "", "binlog_checksum": ""})
    assert found["sql-mode"] == ""
    assert "innodb-data-home-dir" not in found and "binlog-checksum" not in found
    assert "sql-mode" not in options("mysql", LEAST)


@pytest.mark.parametrize("name", NOT_FOR_MYSQL)
def test_the_number_of_undo_tablespaces_and_the_logs_size_are_mariadbs_only(name: str) -> None:
    recorded, option = LEAST | {name: "3"}, name.replace("_", "-")
    assert options("mariadb", recorded)[option] == "3"
    assert option not in options("mysql", recorded)


@pytest.mark.parametrize("name", INSTALLED)
def test_the_installations_own_files_are_named_while_they_exist(name: str, tmp_path: Path) -> None:
    option = name.replace("_", "-")
    assert options("mysql", LEAST | {name: str(tmp_path)})[option] == str(tmp_path)
    for gone in ("gone", "x" * 300):
        assert option not in options("mysql", LEAST | {name: str(tmp_path / gone)})


@pytest.mark.parametrize(
    ("recorded", "replaying"),
    [("ON", "ON_PERMISSIVE"), ("ON_PERMISSIVE", "ON_PERMISSIVE"), ("OFF", "OFF_PERMISSIVE")],
)
def test_a_replay_takes_transactions_with_gtids_and_without(recorded: str, replaying: str) -> None:
    facts = LEAST | {"gtid_mode": recorded}
    replay = Shape(server_id=7, memory=1 << 28, workers=4, replaying=True)
    assert options("mysql", facts, replay)["gtid-mode"] == replaying
    assert options("mysql", facts)["gtid-mode"] == recorded
