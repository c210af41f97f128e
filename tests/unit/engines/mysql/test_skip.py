"""A transaction that is left out of a replay: where it lies, and what is replayed around it."""

from pathlib import Path

import pytest

from tests.unit.samples import at
from zbackup.engines.mysql.binlog.find_stop import StopPoint
from zbackup.engines.mysql.recovery.recover import Hole
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.log import LogPosition, Transaction

BEGIN, STOP = LogPosition.of("binlog.000001", 400), LogPosition.of("binlog.000003", 900)
FILES = tuple(Path(f"/x/binlog.00000{number}") for number in (1, 2, 3))


def transaction(start: str, end: str) -> Transaction:
    return Transaction(start=start, end=end, committed=at(1), gtid="0-1-7")


def hole(start: str, end: str) -> Hole:
    cut = StopPoint(stop=STOP, last_applied=None, first_skipped=None, transactions=9, log_bytes=9)
    return Hole.of(transaction(start, end), BEGIN, cut)


def test_what_is_before_and_behind_it_is_replayed_and_nothing_of_it() -> None:
    whole = LogRange(files=FILES, start=BEGIN, stop=STOP, ends_file=True)
    first, second = hole("binlog.000002:500", "binlog.000002:700").around(whole)
    assert (first.files, str(first.start), str(first.stop)) == (FILES[:2], str(BEGIN), "binlog.000002:500")
    assert (second.files, str(second.start), str(second.stop)) == (FILES[1:], "binlog.000002:700", str(STOP))
    assert (first.ends_file, second.ends_file) == (False, True)


def test_nothing_is_replayed_before_the_first() -> None:
    whole = LogRange(files=FILES, start=BEGIN, stop=STOP, ends_file=True)
    (only,) = hole("binlog.000001:400", "binlog.000001:500").around(whole)
    assert (str(only.start), only.files) == ("binlog.000001:500", FILES)


@pytest.mark.parametrize(
    ("start", "end", "why"),
    [
        ("binlog.000001:300", "binlog.000001:400", "the base holds 0-1-7 already"),
        ("binlog.000003:800", "binlog.000003:900", "use --before 0-1-7"),
        ("binlog.000003:900", "binlog.000003:950", "not before the target anyway"),
    ],
)
def test_one_that_is_not_in_between_is_refused(start: str, end: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        hole(start, end)


def test_a_replay_that_fails_says_what_is_missing() -> None:
    around = hole("binlog.000002:500", "binlog.000002:700")
    why = r"follows 0-1-7 cannot be applied without it \(no row\)"
    with pytest.raises(VerificationFailed, match=why), around.explained():
        raise VerificationFailed("no row")
