"""What a dev clone's init file says: one statement a line, nothing for the log, all of it quoted."""

import pytest

from zbackup.engines.mysql.accounts import replacement
from zbackup.model.cloning import Login

LOGIN = Login("zbackup_clone", "Zb-1secret")


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_every_statement_is_a_line_and_none_is_logged(flavor: str) -> None:
    lines = replacement(flavor, LOGIN).splitlines()
    assert lines[0] == "SET SESSION sql_log_bin = 0;"
    assert all(line.endswith(";") and line.count(";") == 1 for line in lines)
    assert lines[-1] == "FLUSH PRIVILEGES;"
    assert lines[1].startswith("UPDATE mysql.") and lines[2] == "FLUSH PRIVILEGES;", "all are shut first"


def test_the_password_is_not_in_its_representation() -> None:
    assert "secret" not in repr(LOGIN)
