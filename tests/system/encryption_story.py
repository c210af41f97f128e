"""Encrypted tables and logs, told once for each kind of server."""

import json
from collections.abc import Callable

from tests.lab.mysql_fixture import DatabaseServer
from tests.system.house import House, next_second
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
