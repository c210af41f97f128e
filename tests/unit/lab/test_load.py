"""The write load's model and the judgement of a recovered state."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.lab.load_journal import Entry, judge, nanoseconds, parse, summarise
from tests.lab.load_model import Add, Content, Forget, Move, content, contents, transaction

START = datetime(2024, 5, 1, 10, 2, tzinfo=UTC)
SECOND = 1_000_000_000


def journal(threads: int = 2, transactions: int = 50) -> list[Entry]:
    """One transaction a second and thread, sent on the second and answered half a second later."""
    zero = nanoseconds(START)
    return [
        Entry(thread, seq, zero + seq * SECOND, zero + seq * SECOND + SECOND // 2)
        for thread in range(1, threads + 1)
        for seq in range(1, transactions + 1)
    ]


def state(*last: int) -> dict[int, Content]:
    """What the tables hold when thread 1, 2, ... stopped at the given numbers."""
    return {thread: content(thread, seq) for thread, seq in enumerate(last, 1)}


def test_every_kind_of_transaction_occurs() -> None:
    kinds = {tuple(type(change) for change in transaction(1, seq).changes) for seq in range(1, 200)}
    assert kinds == {(Add,), (Add, Add, Add, Move, Move), (Move,), (Forget,)}


@given(some.integers(1, 9), some.integers(0, 300))
def test_the_last_number_can_be_read_from_the_rows(thread: int, last: int) -> None:
    assert content(thread, last).last == last


@given(some.integers(1, 9), some.integers(0, 200))
def test_rows_read_back_give_the_same_content(thread: int, last: int) -> None:
    whole = content(thread, last)
    progress = [] if whole.progress is None else [(thread, whole.progress)]
    ledger = [(thread, seq, part, note) for (seq, part), note in whole.ledger.items()]
    balance = [(thread, slot, amount) for slot, amount in whole.balance.items()]
    assert contents(progress, ledger, balance) == ({thread: whole} if last else {})


def test_statements_name_the_thread_and_only_single_inserts_leave_progress_alone() -> None:
    for seq in range(1, 100):
        wanted = transaction(3, seq)
        statements = wanted.statements()
        assert all(arguments[0] == 3 for _, arguments in statements)
        assert statements[-1][0].startswith("INSERT INTO progress") is not wanted.single


@pytest.mark.parametrize(
    ("milliseconds", "right"),
    [(20_000, 19), (20_001, 20), (20_500, 20), (20_501, 20), (20_999, 20), (21_000, 20)],
)
def test_the_cut_is_between_transactions(milliseconds: int, right: int) -> None:
    at = START + timedelta(milliseconds=milliseconds)
    verdict = judge(state(right, right), journal(), at)
    assert verdict.last == {1: right, 2: right}
    assert verdict.present == 2 * right


def test_one_under_way_may_be_in_or_out() -> None:
    at = START + timedelta(milliseconds=20_200)
    assert judge(state(19, 20), journal(), at).undecided == 2
    assert judge(state(20, 19), journal(), at).required == 38


def test_a_lost_transaction_is_named() -> None:
    with pytest.raises(AssertionError, match="thread 2: transactions 19 to 20 are lost"):
        judge(state(20, 18), journal(), START + timedelta(seconds=20.9))


def test_a_later_transaction_is_named() -> None:
    with pytest.raises(AssertionError, match="thread 1: transactions 21 to 22 are too much"):
        judge(state(22, 20), journal(), START + timedelta(seconds=20.9))


def test_a_thread_that_is_missing_altogether_is_lost() -> None:
    with pytest.raises(AssertionError, match="thread 2: transactions 1 to 20 are lost"):
        judge(state(20), journal(), START + timedelta(seconds=20.9))


def test_a_hole_before_the_last_transaction_is_found() -> None:
    wrong = content(1, 0)
    for seq in range(1, 21):
        if seq != 15:
            wrong.apply(transaction(1, seq))
    with pytest.raises(AssertionError, match="expected"):
        judge({1: wrong}, journal(threads=1), START + timedelta(seconds=20.9))


def test_before_the_first_transaction_there_is_nothing() -> None:
    assert judge({}, journal(), START).present == 0


def test_one_beyond_the_journal_is_possible_at_the_end_and_no_more() -> None:
    judge(state(51, 50), journal(), None)
    with pytest.raises(AssertionError, match="too much"):
        judge(state(52, 50), journal(), None)


def test_an_unanswered_transaction_is_not_required() -> None:
    entries = [*journal(threads=1, transactions=5), Entry(1, 6, nanoseconds(START) + 6 * SECOND, None)]
    at = START + timedelta(seconds=9)
    judge(state(5), entries, at)
    judge(state(6), entries, at)


def test_a_cut_off_line_counts_for_nothing() -> None:
    text = "".join(entry.line() for entry in journal(threads=1, transactions=2))
    assert parse(text + "1,3,17") == parse(text) == journal(threads=1, transactions=2)
    assert parse("1,1,5,\n") == [Entry(1, 1, 5, None)]


def test_a_stall_is_the_longest_time_without_an_answer() -> None:
    entries = [Entry(1, 1, 0, 10_000_000), Entry(2, 1, 0, 20_000_000), Entry(1, 2, 11_000_000, 520_000_000)]
    summary = summarise(entries)
    assert (summary.transactions, summary.stall, summary.longest) == (3, 500.0, 509.0)
    assert summarise([]).rate == 0.0


def test_a_moment_keeps_its_microseconds() -> None:
    assert nanoseconds(datetime(2024, 5, 1, 10, 2, 0, 123457, tzinfo=UTC)) % SECOND == 123_457_000
