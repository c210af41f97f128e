"""The story of dev clones of MySQL and MariaDB: `test_clones.py` here and in tests/slow tell it."""

import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql
import pytest

from tests.lab import servers
from tests.lab.mysql_fixture import free_port
from tests.lab.pool import run
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER
from tests.system.house import ZBACKUP, Connection, House, Run, Zbackup, checksums, next_second, utc
from tests.unit.docs.typed import shell, typed

FIRST, LAST = 23100, 23199
ADMIN = "zbackup_clone"
EVENT = "CREATE EVENT shop.purge ON SCHEDULE EVERY 1 SECOND DO DELETE FROM shop.orders"


@pytest.fixture(scope="module")
def history(house: House) -> Iterator[dict[str, Any]]:
    """Production has an event, knows a source, and is written to after a moment that a clone is made of."""
    yield _history(house)


def _history(house: House) -> dict[str, Any]:
    server = house.server
    server.sql(EVENT)
    word = "SOURCE" if server.settings.kind == "mysql" else "MASTER"
    change = "REPLICATION SOURCE" if server.settings.kind == "mysql" else "MASTER"
    server.sql(f"CHANGE {change} TO {word}_HOST = '127.0.0.1', {word}_PORT = 1, {word}_USER = 'x'")
    first = house.snapshot()
    then = server.checksum()
    moment = next_second()
    server.sql("UPDATE shop.customers SET email = CONCAT('later', id)")
    next_second()
    second = house.snapshot()
    return {"first": first, "second": second, "moment": moment, "then": then, "now": server.checksum()}


def create(house: Zbackup, *words: str, config: Path | None = None) -> list[dict[str, Any]]:
    """Make clones; returns their JSON."""
    made: list[dict[str, Any]] = house.zb("clone", "create", "--json", *words, config=config).data["clones"]
    return made


def entered(house: House, name: str, user: str = ADMIN, password: str = "") -> "Connection[Any]":
    """A connection to a clone through its socket, with the password in its file unless another is given."""
    own = house.home / "clones" / name / "password"
    return pymysql.connect(
        unix_socket=str(house.home / "run" / name / "mysqld.sock"),
        user=user,
        password=password or own.read_text().strip(),
        autocommit=True,
    )


def entered_by_dsn(house: House, name: str) -> "Connection[Any]":
    """A connection to a clone as a driver gets one from what `clone dsn` prints."""
    parts = urlsplit(
        house.zb(*typed("dev-clones.md", "zbackup clone dsn", {"dev1": name}), "--json").data["dsn"]
    )
    return pymysql.connect(
        host=parts.hostname or "",
        port=parts.port or 0,
        user=parts.username or "",
        password=unquote(parts.password or ""),
        autocommit=True,
    )


def asked(connection: "Connection[Any]", statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def require_harmless(house: House, clone: "Connection[Any]") -> None:
    """No identity, event, source of production's, and no way to have one by accident."""
    mysql = house.server.settings.kind == "mysql"
    (facts,) = asked(clone, "SELECT @@server_id, @@event_scheduler, @@bind_address")
    assert facts[0] != house.server.sql("SELECT @@server_id")[0][0]
    assert facts[1:] == ("DISABLED", "127.0.0.1")
    if mysql:
        assert asked(clone, "SELECT @@server_uuid") != tuple(house.server.sql("SELECT @@server_uuid"))
    with pytest.raises(pymysql.MySQLError):
        asked(clone, "SET GLOBAL event_scheduler = ON")
    assert asked(clone, "SHOW REPLICA STATUS" if mysql else "SHOW ALL SLAVES STATUS") == ()
    with pytest.raises(pymysql.MySQLError):
        asked(clone, "START REPLICA" if mysql else "START SLAVE")
    assert asked(clone, "SELECT User FROM mysql.user WHERE User LIKE 'zbackup\\_%'") == (
        (ADMIN,),
        (ADMIN,),
    )


def asked_by_the_client(house: House, name: str, statement: str) -> str:
    """What the server's own client answers that a shell starts with what `clone env` prints."""
    settings, programs = house.server.settings, house.home / "client"
    programs.mkdir(exist_ok=True)
    client = servers.path(settings.flavour) / "bin" / settings.kind
    for program, here in (("mysql", client), ("zbackup", ZBACKUP)):
        (programs / program).symlink_to(here)
    line = shell("dev-clones.md", "eval", {"dev1": name})
    return subprocess.run(
        ("sh", "-c", f"{line} --batch --skip-column-names --execute {shlex.quote(statement)}"),
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "ZBACKUP_CONFIG": str(house.default)},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def production(house: House) -> dict[str, int | None]:
    return house.server.checksum()


class CloneStory:
    """The tests, in the order of the story."""

    def test_a_dry_run_changes_nothing(self, house: House, history: dict[str, Any]) -> None:
        before = house.state()
        plan = house.zb("clone", "create", "--dry-run", "--count", "2", "--json").data
        assert (plan["dry_run"], plan["names"]) == (True, ["shop-dev1", "shop-dev2"])
        assert plan["snapshot"]["backup"] == history["second"]["backup"]
        assert house.state() == before

    def test_a_clone_is_production_s_data_with_an_identity_of_its_own(
        self, house: House, history: dict[str, Any]
    ) -> None:
        before = house.names()
        small = house.configure("small", clones={"quota": "1GiB", "reservation": "64MiB", "memory": "32MiB"})
        words = typed("dev-clones.md", "zbackup clone create shop --name dev1")[2:]
        (made,) = create(house, *words, config=small)
        assert (made["kind"], made["state"], made["running"], made["user"]) == ("dev", "ready", True, ADMIN)
        assert FIRST <= made["port"] <= LAST
        left = utc(made["lease_ends"]) - utc(made["created"])
        assert left.total_seconds() == pytest.approx(8 * 3600, abs=60)
        sizes = run("zfs", "get", "-Hpo", "value", "quota,reservation", made["dataset"]).split()
        assert sizes == [str(1 << 30), str(64 << 20)]
        note = (house.home / "run" / "dev1.process").read_text().split()
        assert os.getpriority(os.PRIO_PROCESS, int(note[0])) == 10
        with entered_by_dsn(house, "dev1") as clone:
            assert checksums(clone, list(history["now"])) == history["now"]
            require_harmless(house, clone)
            ((memory,),) = asked(clone, "SELECT @@innodb_buffer_pool_size")
            assert memory == 32 << 20
            clone.query("DELETE FROM shop.orders")
            clone.query("CREATE TABLE shop.notes (id INT PRIMARY KEY) ENGINE=InnoDB")
        assert asked_by_the_client(house, "dev1", "SELECT @@port") == str(made["port"])
        assert production(house) == history["now"]
        assert house.zb("clone", "create", "--name", "dev1").rc == 10
        self.assert_nothing_is_left_of_what_cannot_be_made(house, made["port"])
        self.assert_only_its_own_password_opens_it(house, made)
        house.zb(*typed("dev-clones.md", "zbackup clone destroy"), "--yes", "--json").data  # noqa: B018
        assert house.names() == before | {house.clones}

    def assert_nothing_is_left_of_what_cannot_be_made(self, house: House, port: int) -> None:
        """For want of a port (of three one is a clone's and one another program's), or of room."""
        tight = house.home / "tight.toml"
        state = house.state()
        with socket.create_server(("", port + 1)):
            for last, wanted, free in ((port + 1, 1, 0), (port + 2, 2, 1)):
                tight.write_text(f'clones = {{ ports = "{port}-{last}" }}\n' + house.default.read_text())
                for more in (("--dry-run",), ()):
                    words = ("clone", "create", "-q", "--count", str(wanted), *more)
                    said = house.zb(*words, config=tight).refused(10)
                    assert f"{wanted} of the ports {port}-{last} wanted, {free} free: 1 belong" in said
                    assert "1 are used by other programs" in said
        huge = house.configure("huge", clones={"reservation": "1TiB"})
        assert "out of space" in house.zb("clone", "create", "-q", config=huge).refused(3)
        assert house.state() == state

    def assert_only_its_own_password_opens_it(self, house: House, made: dict[str, Any]) -> None:
        file = Path(made["password_file"])
        assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o600, 0)
        password = file.read_text().strip()
        for user, old in ((APP_USER, APP_PASSWORD), ("root", "")):
            for where in ({"unix_socket": made["socket"]}, {"host": "127.0.0.1", "port": made["port"]}):
                with pytest.raises(pymysql.MySQLError, match=r"denied|not allowed"):
                    pymysql.connect(user=user, password=old, **where)
        with entered(house, "dev1", APP_USER, password) as clone:
            assert asked(clone, "SELECT COUNT(*) FROM shop.customers") == ((1000,),)
            with pytest.raises(pymysql.MySQLError):
                asked(clone, "SELECT * FROM mysql.user")
        variables = house.zb("clone", "env", "dev1", "--json").data["environment"]
        assert (variables["MYSQL_USER"], variables["MYSQL_PWD"]) == (ADMIN, password)
        assert password not in house.zb("clone", "show", "dev1").out
        assert house.zb(*typed("dev-clones.md", "zbackup clone stop"), "--json").data["running"] is False
        with socket.create_server(("", made["port"])):
            for word in ("start", "reset"):
                assert "cannot be used" in house.zb("clone", word, "dev1", "-q").refused(10)
        assert house.zb("clone", "start", "dev1", "--json").data["running"] is True
        with entered(house, "dev1") as clone:
            require_harmless(house, clone)
        with house.server.connect(APP_USER, APP_PASSWORD) as untouched:
            assert asked(untouched, "SELECT COUNT(*) FROM shop.customers") == ((1000,),)


class MomentStory:
    """A clone of a moment, which takes a recovery, and what it is reset to."""

    def test_of_a_moment(self, house: House, history: dict[str, Any]) -> None:
        moment = history["moment"].isoformat()
        (made,) = create(house, "--name", "before", "--at", moment)
        assert utc(made["target"]) == history["moment"]
        assert made["kind"] == "dev" and FIRST <= made["port"] <= LAST
        with entered(house, "before") as clone:
            assert checksums(clone, list(history["then"])) == history["then"]
            require_harmless(house, clone)
        with pytest.raises(pymysql.MySQLError):
            pymysql.connect(unix_socket=made["socket"], user="root")
        for _ in range(2):  # what it is reset to is still there then
            with entered(house, "before") as clone:
                asked(clone, "DROP TABLE shop.orders")
            back = house.zb("clone", "reset", "before", "--json").data
            assert (back["port"], back["target"]) == (made["port"], made["target"])
            with entered(house, "before") as clone:
                assert checksums(clone, list(history["then"])) == history["then"]
                require_harmless(house, clone)
        house.destroy("before")


class ShutStory:
    """What replaces production's accounts fails half-way; told last, as it breaks production for a while."""

    def test_nobody_gets_in_by_production_s_password(self, house: House, history: dict[str, Any]) -> None:
        port = free_port()
        house.server.sql("RENAME TABLE mysql.servers TO mysql.servers_away")
        try:
            house.snapshot()
            before = house.names() | {house.clones}
            words = ("clone", "create", "--name", "open", "--port", str(port), "-q")
            making = house.begin(*words, forked=True)
            self.knock(making, port)
            assert "refuses the account" in making.end().err
        finally:
            house.server.sql("RENAME TABLE mysql.servers_away TO mysql.servers")
        assert house.names() == before
        house.snapshot()

    def knock(self, making: Run, port: int) -> None:
        """Logins with production's passwords fail while the clone is made."""
        while making.process.poll() is None:
            for user, password in ((APP_USER, APP_PASSWORD), ("root", "")):
                with pytest.raises(pymysql.MySQLError):
                    pymysql.connect(host="127.0.0.1", port=port, user=user, password=password)
            time.sleep(0.02)
