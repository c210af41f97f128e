"""Every statement that is made of names and values has the same tokens, whatever these are."""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engines.mysql_sql.hostile_names import NAMES, TEXTS
from tests.unit.examples import examples
from zbackup.engines.mysql.clone.accounts import TemporaryAccount, at_last, replacement
from zbackup.engines.mysql.lock import restart_applier
from zbackup.engines.mysql.production import statements
from zbackup.engines.mysql.production.account import grants
from zbackup.engines.mysql.production.tables import Column, ServerTable
from zbackup.engines.mysql.server import account
from zbackup.engines.mysql.server.privileges import grant
from zbackup.engines.mysql.server.status import Dialect
from zbackup.engines.mysql.sql.lexer import string_value, tokens
from zbackup.features.copyback.mysql import load_data_lines
from zbackup.features.undo.mysql import reverse
from zbackup.features.undo.mysql.net_change import RowStep
from zbackup.model.cloning import Login
from zbackup.model.table_name import TableName

Given = Sequence[str]
"""A schema, a table, two columns, an index and a value."""
PLAIN: Given = ("schema", "table", "first", "second", "index", "value")


def table(given: Given) -> ServerTable:
    columns = tuple(
        Column(name=name, type="varchar(9)", data_type="varchar", charset="utf8mb4") for name in given[2:4]
    )
    number = Column(name=given[2] + "n", type="int", data_type="int")
    return ServerTable(
        name=TableName(*given[:2]),
        type="BASE TABLE",
        engine="InnoDB",
        rows=1,
        row_bytes=1,
        columns=(*columns, number),
        key=(columns[0], number),
        index=given[4],
    )


def row(given: Given) -> tuple[bytes | None, ...]:
    return given[5].encode(), None, b"7"


def key(given: Given) -> tuple[bytes | None, ...]:
    return given[5].encode(), b"-7"


def undone(given: Given, kind: str) -> str:
    old, new = row(given), (given[5].encode() + b"x", b"y", b"7")
    before, after = {"insert": (old, None), "update": (old, new), "delete": (None, new)}[kind]
    name, at = TableName(*given[:2]), key(given)
    step = RowStep(table=name, key_before=at, key=at, before=before, after=after)
    return reverse.statement(table(given), step)


MADE: dict[str, Callable[[Given], str | bytes]] = {
    "insert": lambda g: statements.insert(TableName(*g[:2]), table(g).stored, [row(g), row(g)]),
    "update": lambda g: statements.update(
        TableName(*g[:2]), table(g).key, key(g), list(zip(table(g).stored, row(g), strict=True))
    ),
    "read rows": lambda g: statements.read_rows(table(g), table(g).stored, after=key(g)),
    "read between": lambda g: statements.read_between(table(g), table(g).stored, key(g), key(g)),
    "one of": lambda g: b"SELECT " + statements.one_of(table(g).key, [key(g), key(g)]),
    "digest": lambda g: statements.digest(TableName(*g[:2]), table(g).stored, b"TRUE"),
    "lines": lambda g: load_data_lines.lines(table(g), statements.between(table(g).key, key(g), None)),
    "proof": lambda g: load_data_lines.proof(TableName(*g[:2]), table(g), b"TRUE"),
    "load": lambda g: load_data_lines.load(TableName(*g[:2]), table(g)),
    "numbers": lambda g: load_data_lines.numbers(TableName(*g[:2]), table(g).key[1], b"TRUE"),
    "undo: rows": lambda g: reverse.select(table(g), [key(g), key(g)], locked=True),
    "undo: delete": lambda g: undone(g, "delete"),
    "undo: insert": lambda g: undone(g, "insert"),
    "undo: update": lambda g: undone(g, "update"),
    "copies' account": lambda g: grants(f"{g[2]}@{g[3].replace('@', '')}h", g[0]),
    "privilege": lambda g: grant("SELECT", f"{g[2]}@{g[3].replace('@', '')}h"),
    "zbackup's account": lambda g: account.script("mysql", "zbackup", g[5]),
    "a clone's own account": lambda g: TemporaryAccount(g[0], g[5]).creation(),
    "a clone's accounts, MySQL": lambda g: replacement("mysql", Login(g[0], g[5])),
    "a clone's accounts, MariaDB": lambda g: replacement("mariadb", Login(g[0], g[5])),
    "a clone's accounts at last": lambda g: "".join(at_last("mariadb", Login(g[0], g[5]))),
    "applier, MySQL": lambda g: restart_applier.statement("STOP", Dialect.of("9.7.0"), g[0]),
    "applier, MariaDB": lambda g: restart_applier.statement("STOP", Dialect.of("10.11.8-MariaDB"), g[0]),
}


def shape(said: str | bytes) -> tuple[list[tuple[str, str]], list[str]]:
    """The tokens without what is in quotes, and that."""
    text = said.decode() if isinstance(said, bytes) else said
    found, inside = [], []
    for token in tokens(text):
        quoted = token.kind in ("name", "string")
        found.append((token.kind, "" if quoted else token.text))
        if quoted:
            inside.append(token.name if token.kind == "name" else string_value(token))
    return found, inside


@pytest.mark.parametrize("what", MADE)
@settings(max_examples=examples(20))
@given(st.tuples(NAMES, NAMES, NAMES, NAMES, NAMES, TEXTS.filter(bool)))
def test_names_and_values_stay_what_they_are(what: str, given: Given) -> None:
    wanted, plain = shape(MADE[what](PLAIN))
    made, inside = shape(MADE[what](given))
    # Undo shows what cannot be printed as hexadecimal digits.
    if not (what.startswith("undo") and not given[5].isprintable()):
        assert made == wanted
        assert len(inside) == len(plain)
        for here, was in zip(inside, plain, strict=True):
            if was in PLAIN:
                assert here == given[PLAIN.index(was)]
    assert "unclosed" not in [kind for kind, _ in made]
