"""Bytes of row images and what they mean, against encoders written from the manuals' examples.

That servers' own rows are read as servers read them is proven in the lab (tests/lab/undo_rows.py).
"""

import json
import struct
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.engines.mysql.production.tables import Column, ServerTable
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.changes import UNKNOWN
from zbackup.features.undo.mysql.json_binary import UNTELLABLE, json_text
from zbackup.features.undo.mysql.net_change import RowStep
from zbackup.features.undo.mysql.values import Logged, decimal_text, reader_of
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.model.table_name import TableName


def column(type: str, charset: str = "", name: str = "c") -> Column:
    return Column(name=name, type=type, data_type=type.partition("(")[0].partition(" ")[0], charset=charset)


@given(st.integers(1, 65), st.integers(0, 30), st.data())
def test_every_decimal_is_read_as_it_was_packed(precision: int, scale: int, data: st.DataObject) -> None:
    scale = min(scale, precision)
    number = data.draw(st.integers(-(10**precision) + 1, 10**precision - 1))
    packed = _packed(number, precision, scale)
    text = decimal_text(packed, precision - scale, scale).decode()
    assert Decimal(text) == Decimal(number).scaleb(-scale, None) if precision < 28 else True
    digits = str(abs(number)).zfill(scale + 1)
    assert text.lstrip("-").replace(".", "") == digits
    assert text.startswith("-") is (number < 0)


def _packed(number: int, precision: int, scale: int) -> bytes:
    sizes = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
    digits = str(abs(number)).zfill(precision)
    whole, behind = digits[: precision - scale], digits[precision - scale :]
    first = len(whole) % 9
    groups = [whole[:first], *(whole[n : n + 9] for n in range(first, len(whole), 9))]
    groups += [behind[n : n + 9] for n in range(0, len(behind), 9)]
    packed = b"".join(int(g).to_bytes(sizes[len(g)], "big") for g in groups if g)
    if number < 0:
        packed = bytes(byte ^ 0xFF for byte in packed)
    return bytes((packed[0] ^ 0x80, *packed[1:]))


@pytest.mark.parametrize(
    ("type", "kind", "metadata", "data", "text"),
    [
        ("int", 3, b"", struct.pack("<i", -5), b"-5"),
        ("bigint unsigned", 8, b"", b"\xff" * 8, b"18446744073709551615"),
        ("mediumint", 9, b"", b"\xff\xff\xff", b"-1"),
        ("year", 13, b"", b"\x7c", b"2024"),
        ("year", 13, b"", b"\x00", b"0000"),
        ("date", 10, b"", ((2024 << 9) | (2 << 5) | 31).to_bytes(3, "little"), b"2024-02-31"),
        ("timestamp(3)", 17, b"\x03", struct.pack(">I", 1) + b"\x04\xce", b"1970-01-01 00:00:01.123"),
        ("timestamp", 17, b"\x00", b"\0\0\0\0", b"0000-00-00 00:00:00"),
        ("timestamp", 17, b"\x00", struct.pack(">I", 1714557723), b"2024-05-01 10:02:03"),
        ("time", 19, b"\x00", bytes.fromhex("80a294"), b"10:10:20"),
        ("time(2)", 19, b"\x02", bytes.fromhex("7fffffff"), b"-00:00:00.01"),
        ("varchar(10)", 15, b"\x28\x00", b"\x02ab", b"ab"),
        ("varchar(300)", 15, b"\xb0\x04", b"\x02\x00ab", b"ab"),
        ("binary(4)", 254, b"\xfe\x04", b"\x02ab", b"ab\0\0"),
        ("enum('a','b')", 254, b"\xf7\x01", b"\x02", b"2"),
        ("bit(12)", 16, b"\x04\x01", b"\x0f\xff", b"\x0f\xff"),
        ("float", 4, b"\x04", struct.pack("<f", 1.5), b"1.5"),
        ("uuid", 254, b"\xfe\x10", b"\x10" + bytes.fromhex("000000000001800010000000000000ff"), None),
    ],
)
def test_a_value_is_read_as_the_server_writes_it(
    type: str, kind: int, metadata: bytes, data: bytes, text: bytes | None
) -> None:
    read = reader_of(column(type, "utf8mb4" if "char" in type else ""), Logged(kind, metadata))
    value, end = read(data + b"more", 0)
    assert end == len(data)
    assert text in (value, None)
    with pytest.raises((ValueError, struct.error)):
        read(data[:-1], 0)


def test_a_column_of_another_type_was_altered_and_one_that_is_compressed_cannot_be_read() -> None:
    with pytest.raises(Refused, match="c is int now, and was bigint: it was altered since"):
        reader_of(column("int"), Logged(8, b""))
    with pytest.raises(Refused, match=r"c \(blob\) cannot be read from the log"):
        reader_of(column("blob"), Logged(140, b"\x02"))
    with pytest.raises(Refused, match="mysql56_temporal_format"):
        reader_of(column("datetime(3)"), Logged(12, b""))


DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=200)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(DOCUMENTS, st.booleans())
def test_every_document_is_read_as_it_was_packed(document: object, large: bool) -> None:
    kind, body = _json(document, large=large)
    assert json.loads(json_text(bytes((kind,)) + body)) == document


@given(st.binary(max_size=60))
def test_what_is_no_document_is_refused_and_nothing_else_happens(data: bytes) -> None:
    try:
        json_text(data)
    except ValueError:
        return


def _json(value: object, *, large: bool) -> tuple[int, bytes]:
    match value:
        case None | True | False:
            return 4, bytes(({None: 0, True: 1, False: 2}[value],))
        case int() if -(2**15) <= value < 2**15:
            return 5, struct.pack("<h", value)
        case int() if value < 2**63:
            return 9, struct.pack("<q", value)
        case int():
            return 10, struct.pack("<Q", value)
        case float():
            return 11, struct.pack("<d", value)
        case str():
            data = value.encode()
            length = len(data)
            prefix = bytes((length,)) if length < 128 else bytes((length & 127 | 128, length >> 7))
            return 12, prefix + data
        case list():
            return 2 + large, _container([], value, large=large)
    assert isinstance(value, dict)
    return large, _container([k.encode() for k in value], list(value.values()), large=large)


def _container(keys: list[bytes], values: list[object], *, large: bool) -> bytes:
    width = 4 if large else 2
    at = 2 * width + len(keys) * (width + 2) + len(values) * (width + 1)
    entries, tail = b"", b""
    for key in keys:
        entries += (at + len(tail)).to_bytes(width, "little") + len(key).to_bytes(2, "little")
        tail += key
    for value in values:
        kind, body = _json(value, large=large)
        inline = kind in (4, 5)
        place = body.ljust(width, b"\0") if inline else (at + len(tail)).to_bytes(width, "little")
        entries += bytes((kind,)) + place
        tail += b"" if inline else body
    size = at + len(tail)
    return len(values).to_bytes(width, "little") + size.to_bytes(width, "little") + entries + tail


def test_a_document_with_a_date_in_it_is_not_told_and_never_written() -> None:
    assert json_text(b"\x0f\x0c\x08" + b"\0" * 8) is UNTELLABLE
    assert not reverse.writable((b"1", UNTELLABLE))
    assert reverse.writable((b"1", b"\xff", UNKNOWN, None))
    with pytest.raises(VerificationFailed, match="c is not known"):
        reverse.literal(column("json"), UNTELLABLE)


@pytest.mark.parametrize(
    ("type", "charset", "value", "literal"),
    [
        ("int", "", b"-5", "-5"),
        ("varchar(9)", "utf8mb4", "é'\\".encode(), "'é''\\\\'"),
        ("varchar(9)", "latin1", b"a", "'a'"),
        ("varchar(9)", "latin1", b"\xe9", "_latin1 0xe9"),
        ("varchar(9)", "utf16", b"\0a", "_utf16 0x0061"),
        ("varchar(9)", "utf8mb4", b"a\nb", "_utf8mb4 0x610a62"),
        ("varchar(9)", "utf8mb4", b"\xff", "_utf8mb4 0xff"),
        ("varchar(9)", "utf8mb4", b"", "''"),
        ("blob", "", b"", "_binary ''"),
        ("blob", "", b"'", "_binary 0x27"),
        ("enum('open','it''s')", "utf8mb4", b"1", "1 /* open */"),
        ("enum('open','it''s')", "utf8mb4", b"2", "2"),
        ("set('a','b','c')", "utf8mb4", b"5", "5 /* a,c */"),
        ("datetime", "", b"2024-01-01 00:00:00", "'2024-01-01 00:00:00'"),
        ("int", "", None, "NULL"),
    ],
)
def test_values_are_written_so_that_the_same_bytes_are_stored(
    type: str, charset: str, value: bytes | None, literal: str
) -> None:
    assert reverse.literal(column(type, charset), value) == literal


def test_a_number_that_is_none_is_never_written() -> None:
    with pytest.raises(VerificationFailed, match="for a number in c"):
        reverse.literal(column("int"), b"1; DROP TABLE x")


@given(st.text(max_size=20), st.sampled_from(["utf8mb4", "latin1", "utf8mb3", "sjis", "utf16"]))
def test_no_text_ends_its_own_quotes(text: str, charset: str) -> None:
    literal = reverse.literal(column("varchar(9)", charset), text.encode())
    inner = literal.partition("'")[2].removesuffix("'")
    assert "'" not in inner.replace("''", "")
    assert literal.isprintable()


def test_statements_name_the_key_and_only_what_is_changed() -> None:
    id_, state, at = (
        column("int", name="id"),
        column("varchar(9)", "utf8mb4", name="state"),
        column("timestamp", name="at"),
    )
    name = TableName("shop", "orders")
    table = ServerTable(
        name=name, type="BASE TABLE", engine="InnoDB", rows=0, row_bytes=0,
        columns=(id_, state, at), key=(id_,), index="PRIMARY",
    )  # fmt: skip
    was, is_ = (b"1", b"open", b"2024-01-01 00:00:00"), (b"1", b"paid", b"2024-01-01 00:00:00")
    key = (b"1",)
    assert reverse.statement(table, RowStep(name, key, key, was, is_)) == (
        "UPDATE `shop`.`orders` SET `state` = 'open', `at` = '2024-01-01 00:00:00' WHERE `id` = 1"
    )
    assert reverse.statement(table, RowStep(name, key, key, None, is_)) == (
        "DELETE FROM `shop`.`orders` WHERE `id` = 1"
    )
    assert reverse.statement(table, RowStep(name, key, key, was, None)) == (
        "INSERT INTO `shop`.`orders` (`id`, `state`, `at`) VALUES (1, 'open', '2024-01-01 00:00:00')"
    )
    assert [c.name for c in reverse.differing(table, was, is_)] == ["state"]
