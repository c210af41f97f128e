"""Answers of CHECK TABLE, and what of them is damage."""

from typing import Any, cast

import pytest

from zbackup.engines.mysql.recovery.check_tables import cannot_check, check_tables, complaint, needs_upgrade
from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.progress import Silent

NOT_WELL = "the server does not say that it is well, but "


def row(kind: str, text: str) -> dict[str, Any]:
    return {"Table": "shop.a", "Op": "check", "Msg_type": kind, "Msg_text": text}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row("status", "OK")], ""),
        ([row("status", "Table is already up to date")], ""),
        ([row("warning", "1 client is using or hasn't closed the table properly"), row("status", "OK")], ""),
        ([row("Error", "Index k is corrupted"), row("status", "Operation failed")], "Index k is corrupted"),
        ([row("warning", "InnoDB: wrong count in index k"), row("error", "Corrupt")], "Corrupt"),
        (
            [row("status", "Operation failed")],
            "the server does not say that it is well, but Operation failed",
        ),
        ([row("status", "Unknown - internal error 7")], f"{NOT_WELL}Unknown - internal error 7"),
        ([row("warning", "Size of datafile is: 3")], f"{NOT_WELL}Size of datafile is: 3"),
        ([], f"{NOT_WELL}nothing"),
    ],
)
def test_what_is_damage(rows: list[dict[str, Any]], why: str) -> None:
    assert complaint(rows) == why


class Server:
    """Tables, one with a name that has to be quoted, and damaged; and what the server says of each."""

    def __init__(self, *tables: tuple[str, str | None, str], **says: dict[str, Any]) -> None:
        self.asked: list[str] = []
        self.listing = ""
        self.tables = tables or (("a", "InnoDB", ""), ("b`; DROP TABLE a", "InnoDB", ""))
        self.says = {"`a`": row("status", "OK")} | {f"`{name}`": said for name, said in says.items()}

    def rows(self, statement: str, arguments: tuple[object, ...] = ()) -> list[dict[str, Any]]:
        if arguments:
            self.listing = statement
            return [{"s": "shop", "t": t, "e": e, "c": c} for t, e, c in self.tables]
        self.asked.append(statement)
        return [self.says.get(statement.rpartition(".")[2], row("error", "Corrupt"))]


def test_every_table_is_asked_for_by_its_name() -> None:
    server = Server()
    found = check_tables(cast(Connection, server), Silent())
    assert server.asked == ["CHECK TABLE `shop`.`a`", "CHECK TABLE `shop`.`b``; DROP TABLE a`"]
    assert (found.tables, found.damaged) == (2, ("shop.b`; DROP TABLE a: Corrupt",))


def test_tables_of_every_kind_are_listed_but_views() -> None:
    """MariaDB calls a table with its history SYSTEM VERSIONED."""
    server = Server()
    check_tables(cast(Connection, server), Silent())
    assert "TABLE_TYPE NOT IN ('VIEW', 'SYSTEM VIEW')" in server.listing
    assert "BASE TABLE" not in server.listing and "ENGINE IS NULL" in server.listing


def test_a_table_that_cannot_be_opened_is_damaged() -> None:
    server = Server(("a", "InnoDB", ""), ("c", None, "Incorrect information in file: './shop/c.frm'"))
    found = check_tables(cast(Connection, server), Silent())
    assert found.damaged == ("shop.c: it cannot be opened: Incorrect information in file: './shop/c.frm'",)
    assert (found.tables, server.asked) == (1, ["CHECK TABLE `shop`.`a`"])


UPGRADE = 'Table upgrade required. Please do "REPAIR TABLE `u`" or dump/reload to fix it!'
REBUILD = 'Table rebuild required. Please do "ALTER TABLE `u` FORCE" or dump/reload to fix it!'


@pytest.mark.parametrize("text", [UPGRADE, REBUILD])
def test_a_table_that_the_server_wants_upgraded_is_not_damaged_and_one_that_cannot_check_not_counted(
    text: str,
) -> None:
    notes: list[str] = []

    class Noting(Silent):
        def note(self, text: str) -> None:
            notes.append(text)

    says = {
        "u": row("error", text),
        "n": row("note", "The storage engine for the table doesn't support check"),
    }
    server = Server(("a", "InnoDB", ""), ("u", "MyISAM", ""), ("n", "InnoDB", ""), **says)
    found = check_tables(cast(Connection, server), Noting())
    assert (found.tables, found.damaged, found.unchecked) == (1, (), ("shop.u",))
    assert notes == ["shop.u was not checked: the server wants it upgraded first (mariadb-upgrade)"]
    notes.clear()
    more = {"u": row("error", text), "v": row("error", text), "w": row("error", text)}
    check_tables(cast(Connection, Server(*((name, "MyISAM", "") for name in "uvw"), **more)), Noting())
    assert notes == [
        "shop.u (and 2 more) was not checked: the server wants it upgraded first (mariadb-upgrade)"
    ]
    assert not needs_upgrade([row("error", text), row("error", "Corrupt")])
    assert not needs_upgrade([row("error", "Table is marked as crashed and should be repaired")])
    assert not cannot_check([]) and not cannot_check([row("status", "OK")])


def test_people_see_how_far_it_is() -> None:
    seen: list[tuple[int, int, str]] = []

    class Watching(Silent):
        def advance(self, done: int, total: int, unit: str = "B") -> None:
            seen.append((done, total, unit))

    check_tables(cast(Connection, Server()), Watching())
    assert seen == [(0, 2, "tables"), (1, 2, "tables"), (2, 2, "tables")]
