"""What a replay has to know of the statements in its log."""

import pytest

from zbackup.engines.mysql.binlog.contents import Contents
from zbackup.engines.mysql.binlog.query_status import QueryStatus
from zbackup.engines.mysql.recovery.recover import LoggedStatements


def heard(text: str, codec: str = "") -> LoggedStatements:
    contents = Contents()
    contents.by_text = True
    contents.say(text, QueryStatus(codec=codec))
    said = LoggedStatements()
    said.take(contents)
    return said


@pytest.mark.parametrize(
    ("text", "in_order"),
    [
        ("CREATE TABLE t (a INT) ENGINE=ARCHIVE", True),
        ("alter table t engine = 'Archive'", True),
        ("ALTER TABLE t ENGINE `archive`", True),
        ("CREATE TABLE archive (a INT) ENGINE=InnoDB COMMENT 'an ARCHIVE'", True),
        ("CREATE TABLE order_archive (a INT) ENGINE=InnoDB COMMENT 'an ARCHIVE'", False),
        ("INSERT INTO archive VALUES (1)", False),
    ],
)
def test_tables_that_lock_no_rows_want_one_applier(text: str, in_order: bool) -> None:
    assert heard(text).in_order is in_order


@pytest.mark.parametrize(
    ("text", "codec", "told"),
    [
        ("INSERT INTO t VALUES (3,X'BF5C')", "gbk", True),
        ("INSERT INTO t VALUES (3,X'BF5C')", "shift_jis", True),
        ("INSERT INTO t VALUES (3,X'BF5C')", "cp1252", False),
        ("INSERT INTO t VALUES (3,X'BF5C')", "", False),
        ("INSERT INTO t VALUES (3, x 'BF5C')", "big5", True),
        ("INSERT INTO t VALUES (3,'X''BF')", "gbk", False),
    ],
)
def test_letters_that_are_lost_in_the_log_are_told_of(text: str, codec: str, told: bool) -> None:
    assert bool(heard(text, codec).doubt()) is told
    assert codec in heard(text, codec).doubt() or not told
