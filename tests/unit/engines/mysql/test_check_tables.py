"""What CHECK TABLE says, and what of it is damage."""

from typing import Any, cast

import pytest

from zbackup.engines.mysql.recovery.check_tables import check_tables, complaint
from zbackup.engines.mysql.server.connection import Connection
from zbackup.model.progress import Silent


def row(kind: str, text: str) -> dict[str, Any]:
    return {"Table": "shop.a", "Op": "check", "Msg_type": kind, "Msg_text": text}


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([row("status", "OK")], ""),
        ([row("status", "Table is already up to date")], ""),
        ([row("warning", "1 client is using or hasn't closed the table properly"), row("status", "OK")], ""),
        ([row("note", "The storage engine for the table doesn't support check")], ""),
        ([row("Error", "Index k is corrupted"), row("status", "Operation failed")], "Index k is corrupted"),
        ([row("warning", "InnoDB: wrong count in index k"), row("error", "Corrupt")], "Corrupt"),
        ([row("status", "Operation failed")], "Operation failed"),
        ([], ""),
    ],
)
def test_what_is_damage(rows: list[dict[str, Any]], why: str) -> None:
    assert complaint(rows) == why


class Server:
    """Two tables, one with a name that has to be quoted, and damaged."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def rows(self, statement: str, arguments: tuple[object, ...] = ()) -> list[dict[str, Any]]:
        if arguments:
            return [{"s": "shop", "t": "a"}, {"s": "shop", "t": "b`; DROP TABLE a"}]
        self.asked.append(statement)
        return [row("status", "OK")] if statement.endswith("`a`") else [row("error", "Corrupt")]


def test_every_table_is_asked_for_by_its_name() -> None:
    server = Server()
    found = check_tables(cast(Connection, server), Silent())
    assert server.asked == ["CHECK TABLE `shop`.`a`", "CHECK TABLE `shop`.`b``; DROP TABLE a`"]
    assert (found.tables, found.damaged) == (2, ("shop.b`; DROP TABLE a: Corrupt",))
