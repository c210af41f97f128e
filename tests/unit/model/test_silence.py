"""What a log does not show, as a record keeps it."""

from datetime import timedelta

from tests.unit.samples import NOON, PLAIN
from zbackup.model.record import SILENCES
from zbackup.model.silence import MOST, Silence, from_lines, to_lines


def silent(number: int) -> Silence:
    since = NOON + timedelta(hours=number)
    return Silence(f"binlog.{number:06}:4", since, since + timedelta(minutes=1))


def test_the_newest_are_written_and_read_back() -> None:
    some = tuple(map(silent, range(MOST + 3)))
    assert from_lines(to_lines(some)) == some[3:]
    record = PLAIN.with_silences(some[:2])
    assert record.silences == some[:2]
    assert PLAIN.with_silences(()) == PLAIN and SILENCES not in PLAIN.server


def test_lines_that_make_no_sense_are_none() -> None:
    good = to_lines([silent(1)])
    for bad in ("", "x", "a\tb\tc", good.replace("+00:00", ""), f"{good}\tmore"):
        assert from_lines(bad) == ()
    times = "0001-01-01T00:00:00+14:00\t9999-12-31T23:59:59-14:00"
    position, _, rest = good.partition("\t")
    for hostile in (f"{position}\t{times}", f"binlog.1:{'9' * 5000}\t{rest}", f"\x1b[2Jbinlog.1:4\t{rest}"):
        assert from_lines(hostile) == (), "whoever receives backups can change them"
    assert len(from_lines(f"{good}\n" * 1000)) == MOST
    assert from_lines(f"x\n{good}") == (silent(1),)


def test_it_is_told_in_one_sentence_with_both_ends() -> None:
    said = silent(1).told
    assert "binlog.000001:4" in said and "13:00:00" in said and "13:01:00" in said and "\n" not in said
