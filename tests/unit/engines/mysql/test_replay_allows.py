"""Statements that the original's settings allowed are in its log, and a replay must not refuse them.

Tried on MySQL 9.7 and MariaDB 10.11: without these, CREATE FUNCTION failed on the applier with error 1418 and
a wide CREATE TABLE with "Row size too large", although both had succeeded on the original.
"""

from pathlib import Path

import pytest

from zbackup.engines.mysql.clone.server_options import OwnPaths, Shape, arguments

PLACE = OwnPaths(home=Path("/clones/r1"), run=Path("/run/zbackup/r1"))
LOG = {"log_bin_basename": "/srv/log/binlog", "log_bin_index": "/srv/log/binlog.index"}
STRICT = LOG | {"innodb_strict_mode": "ON", "log_bin_trust_function_creators": "OFF"}


def options(flavor: str, recorded: dict[str, str], *, replaying: bool) -> list[str]:
    return arguments(flavor, recorded, PLACE, Shape(server_id=7, memory=1, workers=1, replaying=replaying))


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("recorded", [LOG, STRICT])
def test_a_replay_refuses_nothing_that_is_in_the_log(flavor: str, recorded: dict[str, str]) -> None:
    found = options(flavor, recorded, replaying=True)
    assert {"--innodb-strict-mode=OFF", "--log-bin-trust-function-creators=ON"} <= set(found)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_afterwards_the_server_is_as_strict_as_the_original(flavor: str) -> None:
    found = options(flavor, STRICT, replaying=False)
    assert {"--innodb-strict-mode=ON", "--log-bin-trust-function-creators=OFF"} <= set(found)


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_times_are_shown_in_the_originals_zone(flavor: str) -> None:
    assert "--default-time-zone=+05:00" in options(flavor, LOG | {"time_zone": "+05:00"}, replaying=False)
    for recorded in (LOG, LOG | {"time_zone": "SYSTEM"}):
        assert not any("time-zone" in option for option in options(flavor, recorded, replaying=False))


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_statements_write_and_read_files_in_the_clones_scratch_directory_only(flavor: str) -> None:
    for replaying in (True, False):
        assert f"--secure-file-priv={PLACE.scratch}" in options(flavor, LOG, replaying=replaying)


@pytest.mark.parametrize("mode", ["", "UTF8_IS_UTF8MB3", "UTF8_IS_UTF8MB3,NO_PROGRESS_INFO"])
def test_utf8_means_what_it_meant(mode: str) -> None:
    """Tried on MariaDB 10.11: CREATE TABLE ... CHARACTER SET utf8 made another table; rows did not fit."""
    assert f"--old-mode={mode}" in options("mariadb", LOG | {"old_mode": mode}, replaying=True)
    assert not any("old-mode" in option for option in options("mariadb", LOG, replaying=True))


@pytest.mark.parametrize("mode", ["ON", "OFF"])
def test_what_was_revoked_of_a_grant_for_all_schemas_is_revoked_again(mode: str) -> None:
    """Tried on MySQL 9.7: without partial_revokes "There is no such grant defined", and the replay ended."""
    assert f"--partial-revokes={mode}" in options("mysql", LOG | {"partial_revokes": mode}, replaying=True)
    assert not any("partial-revokes" in option for option in options("mysql", LOG, replaying=True))
