"""Encrypted tables that are copied between real servers: part of selftest_copy."""

import pytest

from tests.lab.copy_rig import Rig
from zbackup.model.errors import Refused


@pytest.mark.parametrize("rig", ["mariadb-11.8"], indirect=True)
class TestEncrypted:
    """MySQL needs a file beside its program, which others run: see tests/system/encryption_story.py."""

    def test_a_copy_of_an_encrypted_table_is_encrypted_or_there_is_none(self, rig: Rig) -> None:
        rig.forget()
        rig.copy("odd.secret")
        ask = (
            "SELECT NAME, CURRENT_KEY_ID FROM information_schema.INNODB_TABLESPACES_ENCRYPTION "
            "WHERE ENCRYPTION_SCHEME = 1 AND NAME LIKE 'odd/%'"
        )
        rig.replica.catch_up(rig.production)
        for server in (rig.production, rig.replica):
            assert list(server.sql(ask)) == [("odd/secret", 2)]
        rig.clone.sql("CREATE TABLE odd.locked (id INT PRIMARY KEY) ENCRYPTED=YES ENCRYPTION_KEY_ID=3")
        try:
            with pytest.raises(Refused, match=r"odd\.locked is encrypted, .* has it the same keys"):
                rig.copy("odd.locked")
            assert [t for t in rig.production.tables() if t.startswith("odd.")] == ["odd.secret"]
            rig.production.sql("CREATE TABLE odd.locked (id INT PRIMARY KEY)")
            rig.clone.sql("INSERT INTO odd.locked VALUES (7)")
            (done,) = rig.copy("odd.locked", missing=True)
            assert done.inserted == 1
        finally:
            rig.clone.sql("DROP TABLE odd.locked")
