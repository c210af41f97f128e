"""A dev clone's init file: one statement a line, nothing for the log, all of it quoted."""

from dataclasses import replace

import pytest

from zbackup.engines.mysql.clone.accounts import at_last, replacement
from zbackup.model.cloning import Login

LOGIN = Login("zbackup_clone", "Zb-1secret")


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("full", [False, True])
def test_every_statement_is_a_line_and_none_is_logged(flavor: str, full: bool) -> None:
    lines = replacement(flavor, replace(LOGIN, full=full)).splitlines()
    assert lines[0] == "SET SESSION sql_log_bin = 0;"
    assert all(line.endswith(";") and line.count(";") == 1 for line in lines)
    assert lines[-1] == "FLUSH PRIVILEGES;"
    assert lines[1].startswith("UPDATE mysql.") and lines[2] == "FLUSH PRIVILEGES;", "all are shut first"


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_developers_are_given_nothing_that_reaches_beyond_the_clone(flavor: str) -> None:
    granted = " ".join(line for line in replacement(flavor, LOGIN).splitlines() if line.startswith("GRANT"))
    for word in ("FILE", "SUPER", "SHUTDOWN", "REPLICATION SLAVE", "SYSTEM", "CLONE", "BACKUP", "PERSIST"):
        assert word not in granted
    assert "GRANT ALL ON *.*" in replacement(flavor, replace(LOGIN, full=True))


def test_mariadb_s_developers_may_change_accounts_only_when_ours_is_gone() -> None:
    """Who may change accounts there may change any, ours too, which may do everything."""
    assert "CREATE USER ON" not in replacement("mariadb", LOGIN)
    assert all(
        line.startswith("GRANT CREATE USER ON *.* TO 'zbackup_clone'@") for line in at_last("mariadb", LOGIN)
    )
    assert at_last("mysql", LOGIN) == at_last("mariadb", replace(LOGIN, full=True)) == ()


def test_the_password_is_not_in_its_representation() -> None:
    assert "secret" not in repr(LOGIN)
