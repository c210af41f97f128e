"""The statements of copies: what is read back from them is what was written."""

import hashlib
import sqlite3
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.production import statements, tables
from zbackup.engines.mysql.production.tables import Column, ServerTable
from zbackup.engines.mysql.server.connection import Row
from zbackup.features.copyback.mysql import load_data_lines, missing_keys
from zbackup.features.copyback.mysql.insert_rows import BATCH_BYTES, BATCH_ROWS, batches
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.table_name import TableName

NUMBER = Column(name="n", type="bigint", data_type="bigint")
OTHER = Column(name="o`", type="int", data_type="int")
TEXT = Column(name="t", type="varchar(9)", data_type="varchar", charset="latin1")
BYTES = Column(name="b", type="blob", data_type="blob")
JSON = Column(name="j", type="json", data_type="json")
UUID = Column(name="u", type="uuid", data_type="uuid")
DATE = Column(name="d", type="date", data_type="date")

ESCAPES = {"0": 0, "n": 10, "r": 13, "Z": 26}


def unescaped(text: bytes) -> bytes:
    """What a server makes of what stands between quotes (MySQL manual, "String Literals")."""
    found, rest = bytearray(), iter(text.decode("latin1"))
    for letter in rest:
        assert letter not in "'\"", "the literal ends early"
        if letter == "\\":
            letter = next(rest)
            found.append(ESCAPES.get(letter, ord(letter)))
        else:
            found.append(ord(letter))
    return bytes(found)


@given(st.binary())
def test_a_literal_holds_every_byte(value: bytes) -> None:
    said = statements.literal(BYTES, value)
    assert said.startswith(b"_binary'") and said.endswith(b"'")
    assert unescaped(said[8:-1]) == value


def test_text_is_introduced_by_its_own_character_set() -> None:
    said = [statements.literal(column, b"x") for column in (TEXT, JSON, UUID, DATE, NUMBER)]
    assert said == [b"_latin1'x'", b"_utf8mb4'x'", b"_latin1'x'", b"'x'", b"'x'"]
    assert statements.literal(TEXT, None) == b"NULL"


def test_a_number_in_a_key_is_a_number_or_the_end() -> None:
    """The clone's server is not believed: what it says would become part of a statement."""
    assert statements.key_literal(NUMBER, b"-12") == b"-12"
    with pytest.raises(VerificationFailed, match="for a number in n"):
        statements.key_literal(NUMBER, b"1 OR TRUE")


KEYS = st.tuples(st.integers(-3, 3), st.integers(-3, 3))


@given(st.sets(KEYS), KEYS, KEYS)
def test_ranges_of_keys_are_those_of_tuples(keys: set[tuple[int, int]], low: Row, high: Row) -> None:
    """Two columns, as a server orders them; asked of a real database that orders them so, too."""
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE k (`n`, `o``` )")
    database.executemany("INSERT INTO k VALUES (?, ?)", sorted(keys))

    def said(condition: bytes) -> set[tuple[int, int]]:
        return set(database.execute(f"SELECT * FROM k WHERE {condition.decode()}"))

    def raw(key: Row) -> Row:
        return tuple(str(part).encode() for part in key)

    columns = (NUMBER, OTHER)
    within = statements.between(columns, raw(low), raw(high))
    assert said(within) == {key for key in keys if low < key <= high}
    assert said(statements.between(columns, None, raw(high))) == {key for key in keys if key <= high}
    assert said(statements.between(columns, raw(low), None)) == {key for key in keys if low < key}
    assert said(statements.one_of(columns, [raw(low), raw(high)])) == keys & {low, high}
    ordered = database.execute("SELECT * FROM k" + statements.order(columns).decode()).fetchall()
    assert all(a < b for a, b in pairwise(ordered))


@given(st.lists(st.integers(0, BATCH_BYTES // 3), max_size=30))
def test_batches_are_bounded_and_lose_no_row(sizes: list[int]) -> None:
    rows: list[Row] = [(b"x" * size, None) for size in sizes]
    found = list(batches(iter(rows)))
    assert [row for batch in found for row in batch] == rows
    for batch in found:
        assert 0 < len(batch) <= BATCH_ROWS
        assert sum(len(row[0] or b"") for row in batch[:-1]) < BATCH_BYTES


def test_a_table_without_a_key_is_read_in_one_go() -> None:
    table = ServerTable(
        name=TableName("s", "t"), type="BASE TABLE", engine="InnoDB", rows=1, row_bytes=1, columns=(NUMBER,)
    )
    assert statements.read_rows(table, (NUMBER,), where="n > 1 -- c") == (
        b"SELECT `n` FROM `s`.`t` WHERE (n > 1 -- c\n)"
    )


def test_a_generated_column_is_never_written() -> None:
    made = Column(name="g", type="int", data_type="int", generated=True)
    table = ServerTable(
        name=TableName("s", "t"),
        type="BASE TABLE",
        engine="InnoDB",
        rows=1,
        row_bytes=1,
        columns=(NUMBER, made),
    )
    assert table.stored == (NUMBER,)
    assert statements.insert(table.name, table.stored, [(b"1",)]) == (
        b"INSERT INTO `s`.`t` (`n`) VALUES\n('1')"
    )


def table_of(*columns: Column, engine: str = "InnoDB", row_bytes: int = 100) -> ServerTable:
    return ServerTable(
        name=TableName("s", "t"),
        type="BASE TABLE",
        engine=engine,
        rows=1,
        row_bytes=row_bytes,
        columns=columns,
        key=(NUMBER,),
        index="PRIMARY",
    )


def test_only_rows_whose_every_type_a_load_takes_come_as_lines() -> None:
    assert load_data_lines.are_possible(table_of(NUMBER, TEXT, BYTES, JSON, DATE))
    assert not load_data_lines.are_possible(table_of(NUMBER, UUID))
    assert not load_data_lines.are_possible(table_of(NUMBER, engine="MyISAM"))
    said = load_data_lines.load(TableName("s", "w`k"), table_of(NUMBER, JSON))
    assert b"INTO TABLE `s`.`w``k` CHARACTER SET binary" in said
    assert said.endswith(b"(`n`, @json1) SET `j` = CONVERT(@json1 USING utf8mb4)")


def test_a_portion_of_lines_is_bounded() -> None:
    sizes = {0: load_data_lines.LINES_AT_MOST, 1024: 1024, 10**9: 1}
    assert {size: load_data_lines.at_a_time(table_of(NUMBER, row_bytes=size)) for size in sizes} == sizes


def test_a_row_without_a_hash_is_seen_in_the_sum() -> None:
    assert statements.is_whole((b"0", None)) and statements.is_whole((b"9", str(9 * (2**64 - 1)).encode()))
    assert not statements.is_whole((b"9", str(10**30 + 5).encode()))


@given(st.sets(st.integers(-(2**63), 2**64), min_size=1), st.integers(1, 30))
def test_numbers_that_a_server_cut_are_not_believed(keys: set[int], cut: int) -> None:
    lines = [str(key).encode() for key in sorted(keys)]
    count, length, text = str(len(lines)).encode(), str(sum(map(len, lines))).encode(), b"\n".join(lines)
    assert load_data_lines.split((count, length, text)) == lines
    assert load_data_lines.split((count, length, text[:-cut])) is None
    assert load_data_lines.split((b"0", None, None)) == []


def test_a_long_value_is_counted_and_never_made_a_line() -> None:
    said = load_data_lines.lines(table_of(NUMBER, TEXT, BYTES), b"TRUE").decode()
    assert said.startswith("SELECT COUNT(*), COUNT(IF(LENGTH(`b`) > 16384, 1, NULL)), GROUP_CONCAT(")
    assert "QUOTE(IF(LENGTH(`b`) > 16384, NULL, CAST(`b` AS BINARY)))" in said and "LENGTH(`t`)" not in said
    assert "COUNT(IF(NULL, 1, NULL))" in load_data_lines.lines(table_of(NUMBER, TEXT), b"TRUE").decode()


def test_a_float_keeps_the_sign_of_zero() -> None:
    column = Column(name="f", type="float", data_type="float")
    assert statements.selected((column,)) == "`f` * 1e0"


@given(st.lists(st.lists(st.integers(-(2**63), 2**64), min_size=1)), st.integers(0, 400))
def test_numbers_are_remembered_whole_or_not_at_all(found: list[list[int]], most: int) -> None:
    rows: list[list[Row]] = [[(str(number).encode(),) for number in part] for part in found]
    remembered = missing_keys.LackingNumbers(most)
    for part in rows:
        remembered.add(part)
    assert not remembered.is_whole
    remembered.end()
    assert remembered.is_whole == (remembered.size <= most)
    assert list(remembered.keys()) == (rows if remembered.is_whole else [])


@given(st.lists(st.binary(), min_size=1), st.binary())
def test_lines_are_proven_by_all_of_their_bytes(made: list[bytes], other: bytes) -> None:
    text = b"\n".join(made)
    found = str(len(made)).encode(), hashlib.sha256(text).hexdigest().encode()
    assert load_data_lines.proves(found, len(made), text + b"\n")
    assert not load_data_lines.proves(found, len(made) + 1, text + b"\n")
    assert other == text or not load_data_lines.proves(found, len(made), other + b"\n")
    assert not load_data_lines.proves((found[0], None), len(made), text + b"\n")


def test_a_character_set_is_a_word_or_the_end() -> None:
    """The clone's server is not believed: what it says would become part of a statement."""

    class Clone:
        charset = "utf16"

        def one(self, _: str, __: object = ()) -> dict[str, object]:
            return {"type": "BASE TABLE", "engine": "InnoDB", "n": 1, "length": 1, "options": None}

        def rows(self, statement: str, _: object = ()) -> list[dict[str, object]]:
            column = {"name": "t", "type": "text", "data_type": "text", "charset": self.charset, "made": 0}
            return [column] if "information_schema.COLUMNS" in statement else []

    clone = Clone()
    name = TableName("s", "a")
    found = tables.read_table(cast(Any, clone), name)
    assert found and found.columns[0].charset == "utf16"
    clone.charset = "utf16'', (SELECT 1)) -- "
    with pytest.raises(Refused, match="for a character set"):
        tables.read_table(cast(Any, clone), name)
