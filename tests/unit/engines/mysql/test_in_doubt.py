"""XA transactions that a replay left in doubt."""

from typing import Any

import pytest

from zbackup.engines.mysql.recovery import recover
from zbackup.engines.mysql.server.connection import StatementFailed
from zbackup.model.errors import DatabaseError


class Server:
    """A server's answers to what is asked here; `stuck` is one that it would not roll back."""

    def __init__(self, *names: str, stuck: str = "") -> None:
        self.names, self.stuck = list(names), stuck
        self.did: list[str] = []
        self.notes: list[str] = []

    def rows(self, statement: str) -> list[dict[str, Any]]:
        if not statement.startswith("XA RECOVER"):
            return []
        convert = statement.endswith("CONVERT XID")
        return [
            {
                "formatID": 7,
                "gtrid_length": 2,
                "bqual_length": len(name) - 2,
                "data": "0x" + name.encode("latin-1").hex().upper() if convert else f"'{name}'",
            }
            for name in self.names
        ]

    def execute(self, statement: str) -> None:
        if self.stuck and self.stuck in statement:
            raise StatementFailed("XAER_RMFAIL", 1399)
        self.did.append(statement)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def tell(self, flavor: str, of_base: dict[str, str] | None) -> "Server":
        recover.tell(self, flavor, self, of_base)  # type: ignore[arg-type]
        return self


HELD, REPLAYED = "X'6162', X'63', 7", "X'6465', X'', 7"


def test_what_a_mysql_replayed_is_rolled_back_and_what_the_base_held_is_not() -> None:
    server = Server("abc", "de").tell("mysql", {HELD: "abc"})
    assert server.did == ["SET SESSION sql_log_bin = 0", f"XA ROLLBACK {REPLAYED}"]
    gone, left = server.notes
    assert "rolled back: de" in gone and "still in doubt" in left and left.endswith(": abc")


def test_what_is_not_rolled_back_is_not_said_to_be() -> None:
    (note,) = Server("de", stuck="6465").tell("mysql", {}).notes
    assert "still in doubt" in note and note.endswith(": de")


def test_nothing_is_rolled_back_where_nothing_was_replayed_or_where_it_is_kept() -> None:
    for flavor, of_base in (("mysql", None), ("mariadb", {}), ("mysql", {REPLAYED: "de"})):
        server = Server("de").tell(flavor, of_base)
        assert server.did == [] and "still in doubt" in server.notes[0]
    assert Server().tell("mysql", {}).notes == []


def test_a_name_that_a_server_gives_as_bytes_is_a_name() -> None:
    class Bytes(Server):
        def rows(self, statement: str) -> list[dict[str, Any]]:
            return [{**row, "data": row["data"].encode()} for row in super().rows(statement)]

    server = Bytes("de").tell("mysql", {})
    assert server.did[1:] == [f"XA ROLLBACK {REPLAYED}"] and server.notes[0].endswith(": de")


def test_ids_that_are_no_text_are_said_as_statements_do() -> None:
    server = Server("\x0a\x0b\x00\xff").tell("mysql", {})
    assert server.did[1:] == ["XA ROLLBACK X'0a0b', X'00ff', 7"]
    assert server.notes[0].endswith(": X'0a0b', X'00ff', 7")


def test_an_id_that_is_none_runs_nothing() -> None:
    class Liar(Server):
        def rows(self, statement: str) -> list[dict[str, Any]]:
            return [{**row, "data": "00', 1; DROP DATABASE shop; --"} for row in super().rows(statement)]

    with pytest.raises(DatabaseError, match="invalid id"):
        Liar("de").tell("mysql", {})
