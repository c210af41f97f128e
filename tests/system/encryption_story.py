"""Encrypted tables and logs, told once for each kind of server."""

import json
from collections.abc import Callable

from tests.lab.mysql_fixture import DatabaseServer
from tests.system.house import House, local, next_second, utc
from tests.system.portrait import portrait

TABLE = {"mysql": "ENCRYPTION='Y'", "mariadb": "ENCRYPTED=YES"}


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
