"""Verdicts of drills as they are written down and read back."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.drill import (
    MOST_KEPT,
    DrillVerdict,
    by_backup,
    from_list,
    from_text,
    last_passed,
    one_line,
    remember,
    to_list,
    to_text,
)
from zbackup.model.long_value import CHUNK

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

moments = st.integers(0, 10**9).map(lambda seconds: NOON + timedelta(seconds=seconds))
names = st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True)
reasons = st.just("") | st.text(min_size=1).map(one_line)
counts = st.none() | st.integers(0, 10**12)
verdicts = st.builds(
    DrillVerdict,
    backup=names,
    name=names,
    at=moments,
    to=st.none() | moments,
    transactions=counts,
    tables=counts,
    seconds=st.integers(0, 10**6).map(float),
    why=reasons,
)


def verdict(number: int, why: str = "") -> DrillVerdict:
    return DrillVerdict(backup=f"b{number}", name=f"z-{number}", at=NOON + timedelta(days=number), why=why)


@given(verdicts)
def test_what_is_written_is_read_back(subject: DrillVerdict) -> None:
    assert from_text(to_text(subject)) == subject
    assert len(to_text(subject)) < CHUNK


@given(st.lists(verdicts, min_size=1, max_size=20))
def test_a_list_fits_a_property_and_never_forgets_the_last_that_passed(subject: list[DrillVerdict]) -> None:
    kept: tuple[DrillVerdict, ...] = ()
    for each in subject:
        kept = from_list(to_list(remember(kept, each)))
    assert kept[-1] == subject[-1] and len(kept) <= MOST_KEPT
    assert len(to_list(kept)) <= CHUNK
    assert last_passed(kept) == last_passed(subject)


def test_the_last_that_passed_stays_however_many_fail() -> None:
    kept: tuple[DrillVerdict, ...] = (verdict(0),)
    for number in range(1, 50):
        kept = remember(kept, verdict(number, "it does not open"))
    assert [v.backup for v in kept] == ["b0", *(f"b{n}" for n in range(39, 50))]
    assert last_passed(kept) == verdict(0)
    assert by_backup((verdict(1), verdict(1, "worse")))["b1"].why == "worse"


def test_what_others_wrote_is_read_within_bounds() -> None:
    bad = ("", "{", "[]", "null", "7", '{"backup":"a"}', '{"backup":"a","name":"b","at":"2024-05-01"}')
    assert [from_text(text) for text in bad] == [None] * len(bad)
    assert from_list("{}") == from_list("nonsense") == from_list("[1, []]") == ()
    said = to_text(verdict(1, one_line("a\x1b[2J" + "x" * 900)))
    found = from_text(said)
    assert found is not None and len(found.why) <= 300 and "\x1b" not in found.why
    long = '{"backup":"a","name":"b","at":"2024-05-01T00:00:00+00:00","tables":' + "9" * 400 + "}"
    assert from_text(long) is None
