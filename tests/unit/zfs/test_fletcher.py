"""The sum is the one of OpenZFS, and linear."""

from hypothesis import given
from hypothesis import strategies as st

from zbackup.zfs.resumed_stream import Sum, unpacked

Words = st.binary(max_size=64).map(lambda data: data * 4)


def test_a_sum_by_hand() -> None:
    """a is 1, 3, 6; b is 1, 4, 10; c is 1, 5, 15; d is 1, 6, 21."""
    data = b"".join(n.to_bytes(4, "little") for n in (1, 2, 3))
    assert Sum().over(data, "<") == Sum(6, 10, 15, 21)


@given(Words, Words, st.sampled_from("<>"))
def test_it_goes_on_from_what_came_before(one: bytes, other: bytes, order: str) -> None:
    assert Sum().over(one, order).over(other, order) == Sum().over(one + other, order)


@given(Words, Words, Words, st.sampled_from("<>"))
def test_what_follows_changes_a_difference_as_zeros_do(
    one: bytes, other: bytes, same: bytes, order: str
) -> None:
    before = Sum().over(one, order), Sum().over(other, order)
    after = [summed.over(same, order) for summed in before]
    assert before[1] + (before[0] - before[1]) == before[0]
    assert (before[0] - before[1]).over_zeros(len(same)) == after[0] - after[1]


@given(Words, st.sampled_from("<>"))
def test_it_is_read_back(data: bytes, order: str) -> None:
    summed = Sum().over(data, order)
    assert unpacked(b"12345678" + summed.packed(order), 8, order) == summed
