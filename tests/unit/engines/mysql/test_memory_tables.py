"""MEMORY tables while a log of rows is replayed: nothing stops it, and they are what they were afterwards."""

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.samples import PLAIN
from zbackup.engines.mysql.recovery.memory_tables import MARK, set_aside
from zbackup.engines.mysql.server.connection import Connection, StatementFailed

ROWS = replace(PLAIN, server={"binlog_format": "ROW"})


class Server:
    """`tables` are by their quoted name: engine and comment. The engine BLACKHOLE is `blackhole`."""

    def __init__(self, blackhole: str = "there", **tables: tuple[str, str]) -> None:
        self.tables = {f"`shop`.`{name}`": found for name, found in tables.items()}
        self.blackhole = blackhole
        self.logs = True
        self.logged: list[str] = []

    def rows(self, statement: str, arguments: tuple[str, ...]) -> list[dict[str, Any]]:
        (engine,) = arguments
        names = [(name, comment) for name, (kind, comment) in self.tables.items() if kind == engine]
        return [{"s": "shop", "t": name.split("`")[3], "c": comment} for name, comment in names]

    def one(self, statement: str) -> dict[str, Any]:
        assert "information_schema.ENGINES" in statement
        return {"n": int(self.blackhole == "there")}

    def execute(self, statement: str) -> None:
        if statement.startswith("SET SESSION sql_log_bin"):
            self.logs = "sql_log_bin = 1" in statement
        elif statement == "INSTALL SONAME 'ha_blackhole'":
            if self.blackhole != "to be loaded":
                raise StatementFailed("Can't open shared library", 1126)
            self.blackhole = "there"
        elif statement == "UNINSTALL SONAME 'ha_blackhole'":
            assert not [name for name, (engine, _) in self.tables.items() if engine == "BLACKHOLE"]
            self.blackhole = "to be loaded"
        else:
            name, _, change = statement.removeprefix("ALTER TABLE ").partition(" ENGINE = ")
            engine, _, comment = change.partition(", COMMENT = ")
            assert engine != "BLACKHOLE" or self.blackhole == "there"
            self.tables[name] = (engine, comment[1:-1].replace("''", "'"))
            self.logged += [statement] * self.logs


def as_connection(server: Server) -> Connection:
    return cast(Connection, server)


@pytest.mark.parametrize("blackhole", ["there", "to be loaded"])
def test_they_take_every_row_meanwhile_and_are_empty_memory_tables_afterwards(blackhole: str) -> None:
    before = {"a": ("MEMORY", "it's"), "b": ("MEMORY", ""), "c": ("InnoDB", ""), "d": ("BLACKHOLE", "mine")}
    if blackhole != "there":
        del before["d"]
    server = Server(blackhole, **before)
    was = dict(server.tables)
    with set_aside(as_connection(server), ROWS):
        assert server.tables["`shop`.`a`"] == ("BLACKHOLE", f"{MARK}it's")
        assert server.tables["`shop`.`c`"] == ("InnoDB", "")
        # The log renames one, makes another like it, and drops one.
        server.tables["`shop`.`new name`"] = server.tables.pop("`shop`.`a`")
        server.tables["`shop`.`like`"] = server.tables["`shop`.`b`"]
    assert server.tables.pop("`shop`.`new name`") == was.pop("`shop`.`a`")
    assert server.tables.pop("`shop`.`like`") == ("MEMORY", "")
    assert server.tables == was
    assert server.blackhole == blackhole and server.logged == []


def test_one_that_the_log_has_given_another_comment_is_a_memory_table_again() -> None:
    server = Server(a=("MEMORY", "old"))
    with set_aside(as_connection(server), ROWS):
        server.tables["`shop`.`a`"] = ("BLACKHOLE", "new")
    assert server.tables == {"`shop`.`a`": ("MEMORY", "new")}


@pytest.mark.parametrize("recorded", [{"binlog_format": "STATEMENT"}, {"binlog_format": "MIXED"}, {}])
def test_a_log_of_statements_needs_what_is_in_them(recorded: dict[str, str]) -> None:
    server = Server(a=("MEMORY", ""), d=("BLACKHOLE", ""))
    with set_aside(as_connection(server), replace(PLAIN, server=recorded)):
        assert server.tables["`shop`.`a`"] == ("MEMORY", "")
    assert server.tables["`shop`.`d`"] == ("BLACKHOLE", "")


def test_without_that_engine_they_stay_and_whoever_replays_is_not_kept_from_it() -> None:
    server = Server("missing", a=("MEMORY", ""))
    with set_aside(as_connection(server), ROWS):
        assert server.tables == {"`shop`.`a`": ("MEMORY", "")}
    assert server.tables == {"`shop`.`a`": ("MEMORY", "")}


def test_where_there_are_none_no_engine_is_loaded() -> None:
    server = Server("to be loaded", c=("InnoDB", ""))
    with set_aside(as_connection(server), ROWS):
        assert server.blackhole == "to be loaded"
