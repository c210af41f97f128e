"""One grammar names every target; each option that names one is a spelling of it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.model.test_moment import NOW
from zbackup.cli.completion import targets
from zbackup.cli.restore_target import OPTIONS, named_target
from zbackup.model.errors import UsageError
from zbackup.model.log import ClusterTime, LogPosition
from zbackup.model.moment import is_moment, local_text, parse_moment, utc_text
from zbackup.model.target import LATEST, LastStatement, NamedBackup, NamedTarget, parse_target
from zbackup.model.transaction_name import Gtid

ZONE = ZoneInfo("Europe/Berlin")
GTID = "3e11fa47-71ca-11e1-9e33-c80aa9429562:23"
NUMBERS = st.integers(0, 2**32 - 1)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
WORDS = st.one_of(TEXTS, st.sampled_from(("10:02", "now", "latest", "-15m", GTID, "0-1-7", "label:x", "1,1")))
TIMES = st.integers(0, 2**32).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
CLOCK = r"(yesterday |2024-05-[0-9]{2}[ T])?[0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,6})?)?(Z|\+02:00)?"
AGO = r"-([0-9]{1,3}[dhms]){1,3}|[0-9]{1,3} (hours?|minutes?|days?) ago|now"
MOMENTS = st.one_of(
    TIMES.map(utc_text),
    TIMES.map(lambda at: local_text(at, ZONE)),
    st.from_regex(CLOCK, fullmatch=True),
    st.from_regex(AGO, fullmatch=True),
    TEXTS,
)
FILES = st.builds("{}.{:06}".format, st.sampled_from(("binlog", "label", "10", "now")), st.integers(1, 10**6))
TRANSACTIONS = st.one_of(
    st.builds("{}-{}-{}".format, NUMBERS, NUMBERS, st.integers(0, 2**64 - 1)),
    st.builds("{}:{}".format, st.uuids(), st.integers(1, 2**63 - 1)),
    st.builds("{}:{}".format, FILES, NUMBERS),
)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("10:02", "10:02"),
        ("2024-05-01 10:02:03.5 Europe/Berlin", "2024-05-01 10:02:03.5 Europe/Berlin"),
        (" Latest ", "latest"),
        ("NOW", "now"),
        (GTID.upper(), Gtid("mysql", GTID[:-3], 23)),
        ("0-1-7", Gtid("mariadb", "0-1", 7)),
        ("binlog.000012:4711", LogPosition.of("binlog.000012", 4711)),
        ("1714557720,1", ClusterTime(1714557720, 1)),
        ("1714557720,1@7", ClusterTime(1714557720, 1)),
        ("backup:zbackup-20240501T080000Z", NamedBackup("backup", "zbackup-20240501T080000Z")),
        ("label: 10:02 ", NamedBackup("label", "10:02")),
        ("backup:now", NamedBackup("backup", "now")),
        ("before-drop:`my.db`.`ta``ble:x`", LastStatement("drop", "`my.db`.`ta``ble:x`")),
        ("before-truncate:shop.orders", LastStatement("truncate", "shop.orders")),
    ],
)
def test_a_target_is_parsed(text: str, target: NamedTarget) -> None:
    assert parse_target(text) == target


@given(MOMENTS)
def test_every_moment_stays_one(text: str) -> None:
    try:
        parse_moment(text, ZONE, NOW)
    except UsageError:
        return
    assert parse_target(text) in (text, "now") and is_moment(text)


@given(WORDS.filter(str.strip))
def test_each_option_is_a_spelling(text: str) -> None:
    name = text.strip()
    for option, prefix, target in (
        ("--to-backup", "backup", NamedBackup("backup", name)),
        ("--to-label", "label", NamedBackup("label", name)),
        ("--before-drop", "before-drop", LastStatement("drop", name)),
        ("--before-truncate", "before-truncate", LastStatement("truncate", name)),
    ):
        assert named_target({option: text}) == named_target({"--to": f"{prefix}:{text}"}) == target


@given(TRANSACTIONS)
def test_a_transaction_is_the_same_with_each_option(text: str) -> None:
    try:
        target = parse_target(text)
    except UsageError as wrong:
        assert "is a day and a GTID" in str(wrong)
        return
    if isinstance(target, str):
        assert is_moment(text) and str(OPTIONS["--before"](text)) != text
    else:
        assert target == named_target({"--before": text})


@given(NUMBERS, NUMBERS)
def test_a_cluster_time_is_the_same_with_each_option(seconds: int, increment: int) -> None:
    text = f"{seconds},{increment}"
    assert parse_target(text) == named_target({"--to-timestamp": text}) == ClusterTime(seconds, increment)


@given(WORDS)
def test_other_words_are_refused_in_one_line_that_names_what_is_accepted(text: str) -> None:
    try:
        parse_target(text)
    except UsageError as wrong:
        assert "backup:NAME, label:LABEL" in str(wrong) or not text.strip().removeprefix("label:").strip()
        assert wrong.exit_status == 2


@pytest.mark.parametrize("text", ["2024-10-23", "1000-12-31"])
def test_a_day_that_is_a_gtid_too_is_asked_about(text: str) -> None:
    with pytest.raises(UsageError, match=f'"{text} 00:00" for the day.* --before {text} for the GTID'):
        parse_target(text)


@pytest.mark.parametrize("text", ["2024-5-1", "2024-05-1", "2024-5-01"])
def test_a_day_without_its_zeros_is_taken_for_no_gtid(text: str) -> None:
    with pytest.raises(UsageError, match=f'"2024-05-01 00:00" for the day.* --before {text} for the GTID'):
        parse_target(text)
    assert named_target({"--before": text}) == Gtid("mariadb", "2024-5", 1)


@pytest.mark.parametrize("text", ["2024-05-01", "today"])
def test_a_day_alone_is_told_its_first_moment(text: str) -> None:
    with pytest.raises(UsageError, match="its first moment is"):
        parse_moment(str(parse_target(text)), ZONE, NOW)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"--to": None},
        {"--to": "now", "--before": "0-1-7"},
        {"--before-drop": "shop.orders", "--before-truncate": "shop.orders"},
    ],
)
def test_exactly_one_target_is_named(options: dict[str, str | None]) -> None:
    with pytest.raises(UsageError, match=r"^say once where to restore to, with --to TARGET: a moment"):
        named_target(options)


def test_what_a_target_begins_with_is_completed() -> None:
    assert targets("b") == ["backup:", "before-drop:", "before-truncate:"] and LATEST in targets("")
    assert targets("10:") == []
