"""Names of tables as people type them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.errors import UsageError
from zbackup.model.table_name import TableName, joined, parse_table, separated

NAMES = st.text(st.characters(codec="utf-8", min_codepoint=32), min_size=1).filter(
    lambda name: name == name.strip() and name != "*"
)


@pytest.mark.parametrize(
    ("typed", "schema", "table"),
    [
        ("shop.orders", "shop", "orders"),
        (" shop.orders ", "shop", "orders"),
        ("shop", "shop", "*"),
        ("shop.*", "shop", "*"),
        ("`my.db`", "my.db", "*"),
        ("`my.db`.*", "my.db", "*"),
        ("`my.db`.`ta``ble`", "my.db", "ta`ble"),
        ('"my.db"."ta""ble"', "my.db", 'ta"ble'),
        ('`my.db`."a`b"', "my.db", "a`b"),
        ("`my.db`.orders", "my.db", "orders"),
        ("`my.db`.a.b", "my.db", "a.b"),
        ("shop.`a.b`", "shop", "a.b"),
        ("shop.order lines", "shop", "order lines"),
        ("my shop.`order lines`", "my shop", "order lines"),
        ("café.naïve_表", "café", "naïve_表"),
        ("shop.ta`ble", "shop", "ta`ble"),
    ],
)
def test_a_typed_name(typed: str, schema: str, table: str) -> None:
    assert parse_table(typed, "mysql") == TableName(schema, table)


@pytest.mark.parametrize(
    "typed",
    ["", " ", ".", "shop.", ".orders", "`shop.orders", "`a`b.c", "``.a", "shop.`a", 'shop."a"b', "a\nb.c"],
)
def test_what_is_no_name(typed: str) -> None:
    with pytest.raises(UsageError, match=f'"{re.escape(typed.strip())}" is not a table name'):
        parse_table(typed, "mysql")


def test_a_quote_that_is_not_closed_tells_how_names_are_quoted() -> None:
    with pytest.raises(UsageError, match=re.escape("`my.db`.`ta``ble`")):
        parse_table("`shop.orders", "mariadb")


def test_a_name_with_two_meanings_is_refused_and_each_is_shown_for_the_shell() -> None:
    with pytest.raises(UsageError) as refused:
        parse_table("my.db.or`ders", "mariadb")
    assert str(refused.value).splitlines() == [
        '"my.db.or`ders" is ambiguous, because a name in it has a dot. Use one of:',
        "  '`my`.`db.or``ders`'",
        "  '`my.db`.`or``ders`'",
    ]
    assert parse_table("`my.db`.`or``ders`", "mariadb") == TableName("my.db", "or`ders")


def test_a_collection_has_dots_and_a_database_has_none() -> None:
    assert parse_table("docs.fs.chunks", "mongodb") == TableName("docs", "fs.chunks")


def test_a_table_that_is_called_like_all_of_them_is_refused() -> None:
    with pytest.raises(UsageError, match="is not supported"):
        parse_table("shop.`*`", "mysql")


@given(NAMES, NAMES)
def test_every_name_has_one_text(schema: str, table: str) -> None:
    assert separated(joined(schema, table)) == (schema, table)


@given(NAMES, NAMES)
def test_what_is_told_to_be_typed_is_read_as_that(schema: str, table: str) -> None:
    name = TableName(schema, table)
    assert parse_table(name.typed("mysql"), "mysql") == name
