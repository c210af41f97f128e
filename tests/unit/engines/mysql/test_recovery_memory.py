"""Memory for a crash recovery: room for the redo log where it is free, and never less than is configured."""

import pytest

from zbackup.engines.mysql.clone import after_replay, clone_server
from zbackup.engines.mysql.clone.clone_server import for_crash_recovery

MIB = 1 << 20
LOG = {"innodb_log_file_size": str(256 * MIB)}


@pytest.mark.parametrize(
    ("memory", "flavor", "recorded", "free", "wanted"),
    [
        (256, "mariadb", LOG, 8192, 512),
        (256, "mariadb", LOG, 1600, 400),
        (256, "mariadb", LOG, 100, 256),
        (256, "mariadb", LOG, None, 256),
        (1024, "mariadb", LOG, 8192, 1024),
        (256, "mariadb", {}, 8192, 256),
        (256, "mariadb", {"innodb_log_file_size": "much"}, 8192, 256),
        (256, "mariadb", {"innodb_log_file_size": "9" * 5000}, 8192, 256),
        (256, "mysql", LOG, 8192, 256),
    ],
)
def test_a_server_that_recovers_has_room_for_its_redo_log(
    monkeypatch: pytest.MonkeyPatch,
    memory: int,
    flavor: str,
    recorded: dict[str, str],
    free: int | None,
    wanted: int,
) -> None:
    monkeypatch.setattr(clone_server, "available", lambda: None if free is None else free * MIB)
    assert for_crash_recovery(memory * MIB, flavor, recorded) == wanted * MIB


def test_what_it_got_for_that_it_gives_back_and_no_more() -> None:
    given = f"SET GLOBAL innodb_buffer_pool_size = {256 * MIB}"
    assert after_replay.given_back("mariadb", 512 * MIB, 256 * MIB) == given
    assert after_replay.given_back("mariadb", 256 * MIB, 256 * MIB) == ""
    assert after_replay.given_back("mysql", 384 * MIB, 256 * MIB) == "", "it rounds, and got no more"
