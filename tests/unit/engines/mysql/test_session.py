"""What a session of zbackup sets for itself before anything else."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

from zbackup.engines.mysql.connection import Connection
from zbackup.engines.mysql.options import ConnectOptions


def test_limits_on_statements_are_not_meant_for_it() -> None:
    """With a global max_execution_time of 200 ms, a look at the tables was cut off and no backup taken."""
    said: list[str] = []
    row = {"id": 1, "account": "zbackup@localhost", "version": "9.7.4"}
    cursor = SimpleNamespace(
        execute=lambda statement, _: said.append(statement), fetchall=lambda: [row], fetchone=lambda: row
    )
    raw = SimpleNamespace(cursor=lambda: nullcontext(cursor))
    Connection(cast(Any, raw), ConnectOptions(user="zbackup", password=lambda: ""))
    assert "/*!50708 , max_execution_time = 0 */" in said[0]
    assert "/*M!100101 , max_statement_time = 0 */" in said[0]
