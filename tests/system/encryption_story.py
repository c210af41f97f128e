"""Encrypted tables and logs, told once for each kind of server."""

import json
import os
import shlex
import stat
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import ODD_DATASET, run
from tests.system.archive_story import in_a_bucket, lose_and_get_back, on_another_pool
from tests.system.house import ZBACKUP, House, checksums, local, next_second, utc
from tests.system.portrait import portrait
from tests.system.test_least_privilege import AS_ZBACKUP, UID, documented_permissions
from tests.unit.docs.typed import shell
from zbackup.engines.mysql.production.account import grants

TABLE = {"mysql": "ENCRYPTION='Y'", "mariadb": "ENCRYPTED=YES"}
ENCRYPTED = {
    "mysql": "SELECT NAME FROM information_schema.INNODB_TABLESPACES "
    "WHERE ENCRYPTION = 'Y' AND NAME = 'shop/secret'",
    "mariadb": "SELECT NAME FROM information_schema.INNODB_TABLESPACES_ENCRYPTION "
    "WHERE ENCRYPTION_SCHEME <> 0 AND NAME = 'shop/secret'",
}
ELSEWHERE = {"mysql": on_another_pool, "mariadb": in_a_bucket}
"""What is left when the host is lost."""


def plain_place(house: House) -> Path:
    """Where the copy of the log is kept: on a dataset of its own below the instance's."""
    return house.pool.dataset(f"{ODD_DATASET}/plain").mountpoint / "log"


def _is_copied_back_encrypted(house: House, report: Mapping[str, Any]) -> None:
    """The table that was dropped, out of the clone."""
    server = house.server
    server.sql("CREATE USER zcopy@localhost IDENTIFIED BY 'copy-secret'")
    server.sql(grants("zcopy@localhost", "shop").rstrip(";"))
    secret = house.home / "copy-password"
    secret.write_text("copy-secret")
    secret.chmod(0o600)
    account = {"user": "zcopy", "password": {"file": str(secret)}}
    copies = house.configure("copies", copy_back=account)
    (done,) = house.zb("copy", "secret", "shop.secret", "--json", config=copies).data["tables"]
    assert (done["action"], done["verified"]) == ("new", True)
    definition = "SHOW CREATE TABLE shop.secret"
    with house.clone(report) as clone, clone.cursor() as cursor:
        cursor.execute(definition)
        assert list(cursor.fetchall()) == list(server.sql(definition))
        assert checksums(clone, ["shop.secret"]) == server.checksum(["shop.secret"])
    assert list(server.sql(ENCRYPTED[server.settings.kind])) == [("shop/secret",)]
    server.sql("DROP TABLE shop.secret")
    server.sql("DROP USER zcopy@localhost")


class EncryptionStory:
    """The tests, in the order of the story."""

    def test_encrypted_tables_are_back(self, house: House) -> None:
        server = house.server
        encrypted = TABLE[server.settings.kind]
        server.sql(f"CREATE TABLE shop.secret (id INT PRIMARY KEY, v VARCHAR(60)) ENGINE=InnoDB {encrypted}")
        server.sql("INSERT INTO shop.secret SELECT id, CONCAT('secret ', id) FROM shop.customers")
        house.snapshot()
        server.sql("UPDATE shop.secret SET v = CONCAT(v, ' changed') WHERE id % 2 = 0")
        server.sql(f"CREATE TABLE shop.later (id INT PRIMARY KEY) ENGINE=InnoDB {encrypted}")
        server.sql("INSERT INTO shop.later SELECT id FROM shop.customers")
        moment = next_second()
        with server.connect() as connection:
            wanted = portrait(connection)
        server.sql("DROP TABLE shop.secret")
        report = house.restore(moment, "secret")
        with house.clone(report) as clone:
            assert portrait(clone) == wanted
        _is_copied_back_encrypted(house, report)
        assert house.zb("clone", "stop", "secret", "--json").data["running"] is False
        assert house.zb("clone", "start", "secret", "--json").data["running"] is True
        house.destroy("secret")

    def test_an_encrypted_log_is_refused(
        self, house: House, encrypt_log: Callable[[House], DatabaseServer]
    ) -> None:
        house.server = encrypt_log(house)
        checked = house.zb("check", "--json")
        assert checked.rc == 9
        findings = {f["subject"]: f for f in json.loads(checked.out)["data"][0]["findings"]}
        assert "encrypted" in findings["recovery"]["text"]
        house.server.sql("UPDATE shop.customers SET email = CONCAT('later', id)")
        before = house.state()
        said = house.zb(*house.restoring("now", "never"), "-q").refused(9)
        assert "encrypted" in said
        assert house.state() == before

    def test_a_backup_with_an_encrypted_log_comes_back_as_it_is(self, house: House) -> None:
        house.server.sql("UPDATE shop.customers SET email = CONCAT('unreadable', id)")
        with house.server.connect() as connection:
            wanted = portrait(connection)
        taken = house.snapshot()
        house.server.sql("UPDATE shop.customers SET email = CONCAT('even later', id)")
        listed = house.zb("list", "--json").data[0]
        assert taken["name"] in listed["as_they_are"]
        for to in (("--to-backup", taken["name"]), ("--to", local(utc(taken["as_of"]))), ("--to", "latest")):
            report = house.zb("restore", *to, "--name", "as-it-is", "--json").data
            with house.clone(report) as clone:
                assert portrait(clone) == wanted, to
            assert report["recovered"]["base_exact"] is (taken["lock"] in ("ftwrl", "backup-stage"))
            house.destroy("as-it-is")

    def test_an_account_that_may_not_have_the_log_sent_is_told_the_grant(self, house: House) -> None:
        copy = plain_place(house)
        house.settle(plain_log=str(copy), lock="auto")
        grant = "GRANT REPLICATION SLAVE ON *.* TO 'zbackup'@'localhost'"
        checked = house.zb("check", "--json")
        findings = {f["subject"]: f for f in json.loads(checked.out)["data"][0]["findings"]}
        assert grant in findings["privileges"]["text"] and "recovery" not in findings, findings
        before = house.state()
        assert grant in house.zb("snapshot", "-q").refused(7)
        assert house.state() == before
        house.server.sql(grant)

    def test_a_copy_of_the_encrypted_log_leads_to_its_moments(self, house: House) -> None:
        server = house.server
        taken = house.snapshot()
        assert taken["lock"] in ("ftwrl", "backup-stage")
        copy = plain_place(house)
        held = sorted(copy.iterdir())
        assert stat.S_IMODE(copy.stat().st_mode) == 0o700 and copy.stat().st_uid == 0
        assert {(stat.S_IMODE(f.stat().st_mode), f.stat().st_uid) for f in held} == {(0o600, 0)}
        server.sql("UPDATE shop.customers SET email = CONCAT('copied', id)")
        moment = next_second()
        with server.connect() as connection:
            wanted = portrait(connection)
        server.sql("UPDATE shop.customers SET email = CONCAT('gone', id)")
        assert house.zb("window").rc == 0
        assert b"copied" in b"".join(f.read_bytes() for f in copy.iterdir())
        log = Path(str(server.sql("SELECT @@log_bin_basename")[0][0])).parent
        assert b"copied" not in b"".join(f.read_bytes() for f in log.iterdir())
        report = house.restore(moment, "moment")
        with house.clone(report) as clone:
            assert portrait(clone) == wanted
        shown, _ = house.log("--table", "shop.customers", "--since", local(moment))
        assert [each["tables"] for each in shown], shown
        house.destroy("moment")
        checked = house.zb("check", "--json")
        findings = [f for f in json.loads(checked.out)["data"][0]["findings"] if f["severity"] == "critical"]
        assert not findings, findings

    def test_the_daemon_s_user_keeps_the_copy_where_it_is_given_the_directory(self, house: House) -> None:
        home, own = house.home / "zbackup", plain_place(house).with_name("daemon")
        Path("/dev/zfs").chmod(0o666)
        run("zfs", "allow", "-u", str(UID), documented_permissions(), house.pool.data.name)
        password = home / "password"
        for directory in (home, home / "run", home / "run/.daemon", home / "state"):
            directory.mkdir()
            os.chown(directory, UID, UID)
        password.write_bytes((house.home / "password").read_bytes())
        os.chown(password, UID, UID)
        password.chmod(0o400)
        config = house.configure(
            "own user",
            run_dir=home / "run",
            daemon={"state_dir": str(home / "state")},
            password={"file": str(password)},
            plain_log=str(own),
        )
        config.chmod(0o644)
        argv = (*AS_ZBACKUP, str(ZBACKUP), "--config", str(config), "snapshot", "--json")
        own.mkdir(mode=0o700)
        refused = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert refused.returncode == 9 and f"chown -R {UID} {own}" in refused.stderr, refused
        instead = {"-o zbackup -g zbackup": f"-o {UID} -g {UID}", "/srv/shop-log/shop": shlex.quote(str(own))}
        run(*shlex.split(shell("archive-the-log.md", "install -d -m 700 -o zbackup", instead)))
        taken = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert taken.returncode == 0, taken
        assert {(stat.S_IMODE(f.stat().st_mode), f.stat().st_uid) for f in own.iterdir()} == {(0o600, UID)}
        house.snapshot()

    def test_a_server_that_is_down_alone_knows_what_it_wrote_last(
        self, house: House, encrypt_log: Callable[[House], DatabaseServer]
    ) -> None:
        server = house.server
        server.sql("UPDATE shop.customers SET email = CONCAT('read', id)")
        moment = next_second()
        with server.connect() as connection:
            wanted = portrait(connection)
        server.sql("UPDATE shop.customers SET email = CONCAT('read, too', id)")
        with server.connect() as connection:
            last = portrait(connection)
        assert house.zb("window").rc == 0
        server.stop()
        assert "plain_log" in house.zb(*house.restoring("now", "never"), "-q").refused(5)
        for to, name, there in ((moment, "before", wanted), ("latest", "last", last)):
            report = house.restore(to, name)
            with house.clone(report) as clone:
                assert portrait(clone) == there, to
            house.destroy(name)
        server.start()
        if server.settings.kind == "mysql":
            encrypt_log(house)
        house.snapshot()

    def test_the_host_is_lost_and_what_was_archived_of_the_encrypted_log_comes_back(
        self, house: House
    ) -> None:
        """The last, for nothing is left. The keys are elsewhere, as they have to be for the tables."""
        lose_and_get_back(house, from_files=False, elsewhere=ELSEWHERE[house.server.settings.kind])
