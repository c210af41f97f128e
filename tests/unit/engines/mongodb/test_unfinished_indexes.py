"""Indexes that were being built: which of them are looked for, and where."""

from typing import Any, cast

import pytest

from zbackup.engines.mongodb.recovery.unfinished_indexes import drop_unfinished_indexes
from zbackup.engines.mongodb.server.connection import Connection
from zbackup.model.errors import DatabaseError


def test_more_collections_than_one_answer_has_are_not_passed_over() -> None:
    class Server:
        def command(self, _: object) -> dict[str, Any]:
            return {"databases": [{"name": "shop"}]}

        def run(self, _: str, __: object) -> dict[str, Any]:
            return {"cursor": {"id": 7, "firstBatch": []}}

    with pytest.raises(DatabaseError, match="shop has too many collections"):
        drop_unfinished_indexes(cast(Connection, Server()))
