"""A developer attacks from his clone. `test_dev_clone.py` tells it.

Production's user is the clone's server's user, so that file permissions alone keep it from nothing.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab.server_user import SERVER_UID
from tests.system.clone_story import asked, create, entered
from tests.system.forked import forks
from tests.system.house import Connection, House, next_second

SRV = Path("/srv/production")
"""A directory of production's outside of all datasets, such as that of its pid file."""
PID = SRV / "server.pid"
NOT_ALLOWED = {1044, 1045, 1142, 1143, 1227, 1370, 1410, 1698, 3630}


@pytest.fixture(scope="module")
def target(house: House) -> Iterator[House]:
    """Production, with files of its user's that a clone must not harm, and a backup."""
    SRV.mkdir(parents=True)
    PID.write_text("4711\n")
    (SRV / "secret").write_text("production's\n")
    for path in (SRV, PID, SRV / "secret"):
        os.chown(path, SERVER_UID, SERVER_UID)
    house.server.sql("CREATE USER 'dba'@'%' IDENTIFIED BY 'x'")
    house.server.sql("GRANT ALL ON *.* TO 'dba'@'%' WITH GRANT OPTION")
    house.server.sql("CREATE USER 'everything'@'%' IDENTIFIED BY 'x'")
    house.server.sql("GRANT ALL ON `%`.* TO 'everything'@'%' WITH GRANT OPTION")
    with forks(house.home) as house.forks:
        house.snapshot()
        yield house


def harmed() -> dict[str, str]:
    """What production's directory holds that it did not hold."""
    found = {path.name: path.read_text(errors="replace") for path in SRV.iterdir() if path.is_file()}
    found |= {path.name: "a directory" for path in SRV.iterdir() if path.is_dir()}
    return {
        name: text
        for name, text in found.items()
        if (name, text) not in (("server.pid", "4711\n"), ("secret", "production's\n"))
    }


def process_of(house: House, name: str) -> Path:
    """The directory of a clone's server in /proc."""
    return Path("/proc", (house.home / "run" / f"{name}.process").read_text().split()[0])


def writable_mounts(process: Path) -> set[str]:
    """Where a process may write, as far as mounts go; of /proc it sees only itself."""
    lines = [line.split(" ") for line in (process / "mountinfo").read_text().splitlines()]
    tops = {line[4].replace("\\040", " "): line[5].split(",") for line in lines}
    return {place for place, options in tops.items() if "rw" in options}


def require_confined(house: House, name: str) -> None:
    """It can write to what is its own and nothing else, and has no privilege of the kernel's."""
    process = process_of(house, name)
    own = (str(house.home / "clones" / name), str(house.home / "run" / name))
    members = tuple(str(d.mountpoint) for d in (house.pool.data, house.pool.log))
    left = {p for p in writable_mounts(process) if not p.startswith((*own, *members))}
    assert left <= {"/tmp", "/var/tmp", "/dev/shm"}
    status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
    assert {status[f"Cap{kind}"] for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"


@contextmanager
def listener() -> Iterator[tuple[int, list[Any]]]:
    """A port of this machine's, and who called it."""
    calls: list[Any] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, address = server.accept()
                except OSError:
                    return
                calls.append(address)
                connection.close()

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1], calls
        server.shutdown(socket.SHUT_RDWR)


def attempts(house: House, port: int) -> list[str]:
    """What would reach production or the network."""
    mysql = house.server.settings.kind == "mysql"
    root = f"/proc/{house.server.pid}/root"
    both = [
        f"SET GLOBAL general_log_file = '{PID}'",
        f"SET GLOBAL general_log_file = '{root}{PID}'",
        f"SET GLOBAL slow_query_log_file = '{SRV}/slow'",
        f"SELECT 1 INTO OUTFILE '{SRV}/out'",
        f"SELECT 'x' INTO DUMPFILE '{SRV}/dump'",
        f"LOAD DATA INFILE '{SRV}/secret' INTO TABLE shop.words",
        f"LOAD DATA INFILE '{root}{SRV}/secret' INTO TABLE shop.words",
        "CREATE FUNCTION f RETURNS STRING SONAME 'udf.so'",
        "GRANT FILE ON *.* TO CURRENT_USER",
        "INSERT INTO mysql.plugin VALUES ('evil', 'evil.so')",
    ]
    if mysql:
        return [
            *both,
            "INSTALL PLUGIN clone SONAME 'mysql_clone.so'",
            f"CLONE LOCAL DATA DIRECTORY = '{SRV}/cloned'",
            "INSTALL COMPONENT 'file://component_validate_password'",
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='x'",
            "START REPLICA",
            f"SET PERSIST_ONLY general_log_file = '{PID}'",
            "SET GLOBAL partial_revokes = OFF",
        ]
    return [
        *both,
        "INSTALL SONAME 'ha_federatedx'",
        f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'x'",
        "START SLAVE",
        "UPDATE mysql.global_priv SET Priv = '{}' WHERE User = 'x'",
    ]


def outcome(clone: "Connection[Any]", statement: str) -> int:
    """The number of the error, 0 for none."""
    try:
        asked(clone, statement)
    except pymysql.MySQLError as refused:
        return int(refused.args[0])
    return 0


class DeveloperStory:
    """The developers' account."""

    def test_it_has_what_a_developer_needs(self, target: House) -> None:
        (made,) = create(target, "--name", "dev")
        assert made["own_root"] is False
        mysql = target.server.settings.kind == "mysql"
        with entered(target, "dev") as clone:
            for statement in (
                "CREATE DATABASE mine",
                "CREATE TABLE mine.t (id INT PRIMARY KEY)",
                "INSERT INTO mine.t VALUES (1)",
                "CREATE TABLE shop.words (word VARCHAR(100))",
                "CREATE VIEW shop.some AS SELECT * FROM shop.words",
                "CREATE PROCEDURE shop.look() SELECT 1",
                "CREATE FUNCTION shop.one() RETURNS INT RETURN 1",
                "CREATE TRIGGER shop.first BEFORE INSERT ON shop.words FOR EACH ROW SET NEW.word = 'x'",
                "CREATE EVENT shop.sometimes ON SCHEDULE EVERY 1 DAY DO SELECT 1" if mysql else "SELECT 1",
                "CREATE USER 'colleague'@'%' IDENTIFIED BY 'Zz-1secret-secret'",
                "GRANT SELECT ON shop.* TO 'colleague'@'%'",
                "CREATE ROLE testers",
                "ALTER USER 'app'@'%' IDENTIFIED BY 'Zz-1secret-secret'",
                "SHOW FULL PROCESSLIST",
                "SELECT User FROM mysql.user",
                "SET SESSION sql_log_bin = 1" if mysql else "SELECT 1",
                "DROP DATABASE mine",
            ):
                asked(clone, statement)
        require_confined(target, "dev")

    def test_it_reaches_nothing_beyond_the_clone(self, target: House) -> None:
        with listener() as (port, calls):
            for user in ("zbackup_clone", "root", "dba", "everything"):
                with entered(target, "dev", user, self.password(target)) as clone:
                    for statement in attempts(target, port):
                        assert outcome(clone, statement) in NOT_ALLOWED, (user, statement)
            assert calls == []
        assert harmed() == {}

    def test_no_account_can_be_made_that_may_more(self, target: House) -> None:
        """Nor by the way of one that is changed, renamed, or given a role."""
        with entered(target, "dev") as clone:
            for user in ("root", "dba", "everything"):
                host = "localhost" if user == "root" else "%"
                assert outcome(clone, f"ALTER USER '{user}'@'{host}' IDENTIFIED BY 'Yy-1other-other'") == 0
            asked(clone, "GRANT SELECT ON shop.* TO 'colleague'@'%'")
            for grant in (
                "GRANT ALL ON *.* TO 'colleague'@'%'",
                "GRANT INSERT ON mysql.* TO 'colleague'@'%'",
                "GRANT INSERT ON mysql.user TO 'colleague'@'%'",
                "GRANT SUPER ON *.* TO 'colleague'@'%'",
                "GRANT PROXY ON 'mysql.session'@'localhost' TO 'colleague'@'%'",
                "GRANT PROXY ON 'root'@'localhost' TO 'colleague'@'%'",
            ):
                assert outcome(clone, grant) in NOT_ALLOWED, grant
            for pattern in ("mys_l", "mysq%", "%"):
                # MySQL takes it for a name by now; MariaDB refuses.
                outcome(clone, f"GRANT ALL ON `{pattern}`.* TO 'colleague'@'%'")
        for user, password in (
            ("colleague", "Zz-1secret-secret"),
            *((u, "Yy-1other-other") for u in ("root", "dba")),
        ):
            with entered(target, "dev", user, password) as other:
                for statement in (
                    "INSERT INTO mysql.plugin VALUES ('evil', 'evil.so')",
                    "CREATE TABLE mysql.evil (id INT)",
                    f"SET GLOBAL general_log_file = '{PID}'",
                ):
                    assert outcome(other, statement) in NOT_ALLOWED, (user, statement)
        self.assert_still_so_after_a_start(target)

    def assert_still_so_after_a_start(self, target: House) -> None:
        target.zb("clone", "stop", "dev", "--json").data  # noqa: B018
        target.zb("clone", "start", "dev", "--json").data  # noqa: B018
        with entered(target, "dev", "colleague", "Zz-1secret-secret") as other:
            for statement in (
                "INSERT INTO mysql.plugin VALUES ('a', 'b')",
                "CREATE TABLE mysql.evil (id INT)",
            ):
                assert outcome(other, statement) in NOT_ALLOWED
        require_confined(target, "dev")
        target.destroy("dev")

    def password(self, target: House) -> str:
        return (target.home / "clones" / "dev" / "password").read_text().strip()


class OwnRootStory:
    """The full account: the server does what it is told, and the host is out of its reach."""

    def test_what_it_tells_the_server_stays_in_the_clone(self, target: House) -> None:
        (made,) = create(target, "--name", "own", "--own-root")
        assert made["own_root"] is True
        with listener() as (port, calls), entered(target, "own") as clone:
            asked(clone, "CREATE TABLE shop.words (word VARCHAR(100))")
            said = {statement: outcome(clone, statement) for statement in attempts(target, port)}
            outcome(clone, "SET GLOBAL general_log = ON")
            outcome(clone, "SET GLOBAL slow_query_log = ON")
            for directory in (SRV, Path(f"/proc/{target.server.pid}/root{SRV}")):
                outcome(clone, f"CREATE TABLE shop.there (id INT) DATA DIRECTORY = '{directory}'")
                outcome(clone, f"CREATE TABLE shop.h (id INT) ENGINE=MyISAM DATA DIRECTORY='{directory}'")
            ((facts,),) = asked(clone, "SELECT COUNT(*) FROM shop.words")
            self.wait_for_replication(clone)
            assert calls == []
        assert harmed() == {}
        assert facts == 0, "nothing of the host's was read"
        start = "START REPLICA" if target.server.settings.kind == "mysql" else "START SLAVE"
        assert said[start] == 0, "the account may, and that alone does not help it"
        require_confined(target, "own")
        target.destroy("own")

    def wait_for_replication(self, clone: "Connection[Any]") -> None:
        """Until it has tried to call."""
        mysql = "REPLICA" if "MariaDB" not in asked(clone, "SELECT VERSION()")[0][0] else "SLAVE"
        for _ in range(100):
            with clone.cursor(pymysql.cursors.DictCursor) as cursor:
                cursor.execute(f"SHOW {mysql} STATUS")
                row = cursor.fetchone() or {}
            if row.get("Last_IO_Error"):
                return
            threading.Event().wait(0.1)
        raise AssertionError("it never tried")


class ElsewhereStory:
    """A table that production made elsewhere and dropped, in the log that a restore replays (MariaDB)."""

    def test_a_restore_into_its_life_makes_no_file_of_the_host_s(self, target: House) -> None:
        elsewhere = target.pool.dataset("else where").mountpoint / "tables"
        elsewhere.mkdir()
        os.chown(elsewhere, SERVER_UID, SERVER_UID)
        making = f"CREATE TABLE shop.there (id INT PRIMARY KEY) ENGINE=InnoDB DATA DIRECTORY='{elsewhere}'"
        target.server.sql(making)
        target.server.sql("INSERT INTO shop.there VALUES (1), (2)")
        next_second()
        moment = next_second()
        target.server.sql("DROP TABLE shop.there")
        next_second()
        target.snapshot()
        before = sorted(elsewhere.rglob("*"))
        report = target.restore(moment, "into")
        assert any(str(elsewhere) in text for text in report["warnings"])
        with target.clone(report) as clone:
            assert asked(clone, "SELECT COUNT(*) FROM shop.there") == ((2,),)
        assert sorted(elsewhere.rglob("*")) == before
        target.server.sql(making)  # nothing is in its way
        target.server.sql("DROP TABLE shop.there")
        service = target.configure("service", service={"stop": ["/bin/true"], "start": ["/bin/true"]})
        said = target.zb("switch", "shop", "into", "--dry-run", config=service).refused(9)
        assert "would be left behind" in said
        target.zb("clone", "stop", "into", "--json").data  # noqa: B018
        target.zb("clone", "start", "into", "--json").data  # noqa: B018
        with target.clone(report) as clone:
            assert asked(clone, "SELECT COUNT(*) FROM shop.there") == ((2,),)
        target.destroy("into")
