"""Names of one transaction."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.errors import UsageError
from zbackup.model.log import LogPosition
from zbackup.model.transaction_name import Gtid, parse_transaction

tags = st.one_of(st.just(""), st.from_regex(r":[a-z_][a-z0-9_]{0,31}", fullmatch=True))
mysql = st.builds(
    lambda uuid, tag, number: Gtid("mysql", f"{uuid}{tag}", number),
    st.uuids(),
    tags,
    st.integers(1, 2**63 - 1),
)
mariadb = st.builds(
    lambda domain, server, number: Gtid("mariadb", f"{domain}-{server}", number),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**64 - 1),
)
places = st.builds(
    lambda base, sequence, offset: LogPosition.of(f"{base}.{sequence:06}", offset),
    st.sampled_from(["binlog", "my.server-bin", "db-1-2-3"]),
    st.integers(1, 2**31 - 1),
    st.integers(0, 2**63 - 1),
)


@given(st.one_of(mysql, mariadb, places), st.sampled_from(["", " ", "\n"]))
def test_a_name_is_read_as_it_was_written(name: Gtid | LogPosition, around: str) -> None:
    assert parse_transaction(f"{around}{name}{around}") == name


@given(mysql)
def test_a_gtid_may_be_in_capitals(name: Gtid) -> None:
    assert parse_transaction(str(name).upper()) == name


@given(st.text(max_size=60))
def test_whatever_is_given_is_understood_or_refused(text: str) -> None:
    try:
        name = parse_transaction(text)
    except UsageError as refusal:
        assert "write a GTID (" in str(refusal)
    else:
        assert parse_transaction(str(name)) == name


@given(
    st.dictionaries(
        st.tuples(st.sampled_from([UUID(int=1), UUID(int=2)]), tags),
        st.lists(st.tuples(st.integers(1, 40), st.integers(0, 3)), min_size=1, max_size=3),
        max_size=4,
    ),
    st.sampled_from([", ", ",\n", ","]),
)
def test_a_set_as_mysql_writes_it_has_what_it_lists(
    sources: dict[tuple[UUID, str], list[tuple[int, int]]], comma: str
) -> None:
    entries = []
    for uuid in {uuid for uuid, _ in sources}:
        entry = str(uuid)
        for (_, tag), found in sorted((key, v) for key, v in sources.items() if key[0] == uuid):
            entry += tag + "".join(f":{n}-{n + more}" if more else f":{n}" for n, more in found)
        entries.append(entry)
    text = comma.join(entries)
    for (uuid, tag), found in sources.items():
        numbers = {n for first, more in found for n in range(first, first + more + 1)}
        inside = {n for n in range(1, 50) if Gtid("mysql", f"{uuid}{tag}", n).is_in(text)}
        assert inside == numbers
    assert not Gtid("mysql", str(UUID(int=3)), 1).is_in(text)


def test_a_position_as_mariadb_writes_it_has_all_numbers_up_to_its_own() -> None:
    written = "0-1-7, 2-9-3"
    assert [n for n in range(10) if Gtid("mariadb", "0-1", n).is_in(written)] == list(range(8))
    assert [n for n in range(10) if Gtid("mariadb", "2-5", n).is_in(written)] == list(range(4))
    assert not Gtid("mariadb", "1-1", 1).is_in(written)
    assert not Gtid("mariadb", "0-1", 1).is_in("")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no transaction"),
        ("DROP", "names no transaction"),
        ("10:02", "names no transaction"),
        ("2024-05-01 10:02", "names no transaction"),
        ("binlog.000012", "names no transaction"),
        ("binlog.12:4", "names no transaction"),
        ("/var/lib/mysql/binlog.000012:4", "names no transaction"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "names no transaction"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:0", "names no transaction"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5", "is not one transaction"),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1:7", "is not one transaction"),
        ("0-1-7,1-1-4", "is not one transaction"),
        ("0-1-99999999999999999999", "names no transaction"),
        ("4294967296-1-7", "names no transaction"),
    ],
)
def test_what_names_none_is_said(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_transaction(text)
