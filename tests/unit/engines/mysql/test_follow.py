"""Where a clone that is a replica goes on: by GTIDs where MySQL has them, else by position."""

import pytest

from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.recovery.replicate import statements
from zbackup.model.cloning import Source

SOURCE = Source(host="db", port=3306, user="re'pl", password=lambda: "it's")
START = LogPosition.of("binlog.000007", 4711)


@pytest.mark.parametrize(
    ("flavor", "recorded", "where"),
    [
        ("mysql", {"gtid_mode": "ON"}, "SOURCE_AUTO_POSITION = 1"),
        ("mysql", {"gtid_mode": "OFF"}, "SOURCE_LOG_FILE = 'binlog.000007', SOURCE_LOG_POS = 4711"),
        ("mysql", {}, "SOURCE_LOG_FILE = 'binlog.000007', SOURCE_LOG_POS = 4711"),
        ("mariadb", {}, "MASTER_LOG_FILE = 'binlog.000007', MASTER_LOG_POS = 4711, MASTER_USE_GTID = no"),
    ],
)
def test_from_the_end_of_the_snapshot(flavor: str, recorded: dict[str, str], where: str) -> None:
    change, start = statements(flavor, recorded, SOURCE, START)
    assert change.endswith(where)
    assert "'re''pl'" in change and "'it''s'" in change
    assert start.startswith("START ")


def test_the_password_is_not_in_its_representation() -> None:
    assert "it's" not in repr(SOURCE)
