"""Reading goes on where a finished backup's log ended, in the file that it ended in, and nowhere else."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.samples import PLAIN
from zbackup.engines.mysql.binlog.events import FIRST_EVENT
from zbackup.engines.mysql.recovery.covered_log import read_from, read_up_to
from zbackup.model.log import LogPosition

FILES = [Path(f"/log/binlog.{number:06}") for number in (11, 12, 13)]


@pytest.mark.parametrize(
    ("log_to", "known"),
    [
        ("binlog.000012:4711", LogPosition.of("binlog.000012", 4711)),
        (f"binlog.000012:{FIRST_EVENT + 1}", LogPosition.of("binlog.000012", FIRST_EVENT + 1)),
        (f"binlog.000012:{FIRST_EVENT}", None),
        ("binlog.000012:0", None),
        ("binlog.000014:4711", None),
    ],
)
def test_what_was_found_before_is_behind_a_transaction_of_that_file(
    log_to: str, known: LogPosition | None
) -> None:
    since = replace(PLAIN, log_to=log_to)
    assert [read_up_to(since, file) for file in FILES] == [None, known, None]
    assert read_from(since, FILES) == known and read_from(since, FILES[:1]) is None
