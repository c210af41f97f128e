"""As whom and where a server is asked for its accounts, and the script where nobody is let in."""

from typing import Any, cast

from tests.unit.plan.test_init_plan import server
from zbackup.features.init.jobs.administrators import MysqlAdministrator, account_script, administrator
from zbackup.features.init.mongodb_administrator import MongoAdministrator

MONGOD = server(engine="mongodb", socket="", host="::1", port=27018)


def test_a_mongod_is_asked_where_it_was_found() -> None:
    made = administrator(MONGOD, "root", "x")
    assert isinstance(made, MongoAdministrator) and made.pid == 7
    assert (made.connect.where, made.connect.user) == ("::1:27018", "root")
    assert made.connect.password is not None and made.connect.password() == "x"
    by_socket = cast(Any, administrator(server(engine="mongodb", socket="/tmp/m.sock"), "root", "x"))
    assert by_socket.connect.where == "socket /tmp/m.sock"


def test_without_a_password_nobody_logs_in_to_a_mongod() -> None:
    """So it is seen whether it is open to everybody."""
    assert cast(Any, administrator(MONGOD, "", None)).connect.password is None


def test_a_mysqld_is_asked_by_its_socket_with_a_password_or_none() -> None:
    for engine in ("mysql", "mariadb"):
        made = administrator(server(engine=engine), "dba", "x")
        assert isinstance(made, MysqlAdministrator) and made.flavor == engine
        assert (made.connect.socket, made.connect.user) == ("/run/mysqld/mysqld.sock", "dba")
        assert made.connect.password() == "x"
        assert cast(Any, administrator(server(engine=engine), "root", None)).connect.password() == ""


def test_an_administrator_gets_the_script_of_his_server() -> None:
    assert account_script(MONGOD, "zbackup", "x").startswith("db.")
    for engine in ("mysql", "mariadb"):
        script = account_script(server(engine=engine), "zbackup", "x")
        assert "CREATE USER" in script and "IDENTIFIED BY 'x'" in script
    assert account_script(server(engine="mariadb"), "z", "x") != account_script(server(), "z", "x")
