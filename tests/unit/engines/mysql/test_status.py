from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.engines.mysql.lock.restart_applier import statement
from zbackup.engines.mysql.server.connection import Connection, NotAnswered
from zbackup.engines.mysql.server.status import Channel, Dialect, channel_of, log_status, require_answering
from zbackup.model.errors import Refused

OLD = {
    "Connection_name": "east",
    "Slave_SQL_Running": "Yes",
    "Slave_IO_Running": "Yes",
    "Master_Log_File": "b.000002",
    "Read_Master_Log_Pos": 900,
    "Relay_Master_Log_File": "b.000002",
    "Exec_Master_Log_Pos": 900,
    "Until_Condition": "None",
    "Last_SQL_Error": "",
}


def new(**more: object) -> dict[str, object]:
    words = {k.replace("Slave", "Replica").replace("Master", "Source"): v for k, v in OLD.items()}
    del words["Connection_name"]
    return words | {"Channel_Name": ""} | more


def test_old_and_new_words_say_the_same() -> None:
    assert channel_of(OLD) == Channel(name="east", applier_running=True)
    assert channel_of(new()) == Channel(name="", applier_running=True)


def test_a_stopped_applier_is_seen() -> None:
    assert not channel_of(new(Replica_SQL_Running="No")).applier_running


def test_until_and_errors_are_kept() -> None:
    found = channel_of(new(Until_Condition="SQL_AFTER_GTIDS", Last_SQL_Error="no table"))
    assert (found.until, found.error) == ("SQL_AFTER_GTIDS", "no table")


def test_dialects_compare_within_their_flavour() -> None:
    assert Dialect.of("8.4.3-3").is_mysql(8, 2)
    assert not Dialect.of("8.0.36").is_mysql(8, 2)
    assert not Dialect.of("10.11.6-MariaDB").is_mysql(5, 7)
    assert Dialect.of("11.8.2-MariaDB-deb13").is_mariadb(10, 6)


def test_applier_statements_by_dialect() -> None:
    assert statement("STOP", Dialect.of("9.7.4"), "a'b") == "STOP REPLICA SQL_THREAD FOR CHANNEL 'a''b'"
    assert statement("START", Dialect.of("5.7.44"), "") == "START SLAVE SQL_THREAD FOR CHANNEL ''"
    assert statement("START", Dialect.of("10.11.6-MariaDB"), "east") == "START SLAVE 'east' SQL_THREAD"


def says(row: dict[str, Any]) -> Connection:
    return cast(Connection, SimpleNamespace(one=lambda _: row))


def test_a_log_that_is_one_file_written_over_is_refused_in_one_line() -> None:
    """What MySQL makes of log_bin = my-bin.log.x."""
    asked = says({"File": "my-bin.log", "Position": 158})
    with pytest.raises(Refused, match=r"my-bin\.log has no number.*set log_bin to a name without a dot"):
        log_status(asked, Dialect.of("9.7.4"))
    assert (
        str(log_status(says({"File": "b.000007", "Position": 4}), Dialect.of("9.7.4")).position)
        == "b.000007:4"
    )


@pytest.mark.parametrize(
    ("text", "seconds", "waits"),
    [
        ("SHOW BINARY LOG STATUS", 60, True),
        ("show  master status;", 60, True),
        ("SHOW REPLICA STATUS", 10, True),
        ("SHOW REPLICA STATUS", 9, False),
        ("SELECT SLEEP(100)", 60, False),
        (None, 60, False),
    ],
)
def test_nobody_is_asked_what_somebody_waits_for_already(text: str | None, seconds: int, waits: bool) -> None:
    """Each session that waited would stay until the server goes on."""
    rows = [{"Id": 1, "Time": 99, "Info": "SHOW FULL PROCESSLIST"}, {"Id": 7, "Time": seconds, "Info": text}]
    connection = cast(Connection, SimpleNamespace(id=1, where="here", rows=lambda _: rows))
    if waits:
        with pytest.raises(NotAnswered, match=f"connection 7 has waited for that for {seconds} s"):
            require_answering(connection)
    else:
        require_answering(connection)
