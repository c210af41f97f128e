import pytest

from zbackup.engines.mysql.server.privileges import grant, hint

ACCOUNT = "zbackup@localhost"
DENIED = "Access denied; you need (at least one of) the {} privilege(s) for this operation"


@pytest.mark.parametrize(
    ("message", "mariadb", "advice"),
    [
        (DENIED.format("RELOAD or FLUSH_TABLES"), False, "GRANT RELOAD ON *.*"),
        (DENIED.format("SUPER, REPLICATION CLIENT"), False, "GRANT REPLICATION CLIENT ON *.*"),
        (DENIED.format("SUPER, BINLOG MONITOR"), True, "GRANT BINLOG MONITOR ON *.*"),
        (DENIED.format("SUPER"), False, "GRANT SUPER ON *.*"),
        ("You are not owner of thread 7", False, "GRANT CONNECTION_ADMIN ON *.*"),
        ("You are not owner of thread 7", True, "GRANT CONNECTION ADMIN ON *.*"),
        (
            "SELECT command denied to user 'zbackup'@'localhost' for table 'log_status'",
            False,
            "GRANT SELECT ON performance_schema.*",
        ),
    ],
)
def test_the_narrowest_grant_is_named(message: str, mariadb: bool, advice: str) -> None:
    assert hint(message, ACCOUNT, mariadb=mariadb) == f"{advice} TO 'zbackup'@'localhost'"


def test_no_grant_is_made_up() -> None:
    assert hint("Access denied for reasons of its own", ACCOUNT, mariadb=False) == ""


def test_odd_account_names_stay_one_name() -> None:
    assert grant("PROCESS", "o'brien@ads@10.0.0.%") == "GRANT PROCESS ON *.* TO 'o''brien@ads'@'10.0.0.%'"
