"""Statements in a log that no server can replay on a clone: they need files that were never logged. Pure."""

from typing import Final

from zbackup.engines.mysql.binlog.statement import Statement

STOP_WORD: Final = b"tablespace"
"""It is in every such statement, in letters of any case."""


def why_replay_stops(statement: Statement) -> str:
    """Why a replay ends at this statement; "" when it does not."""
    words = [token.word for token in statement.tokens[:200]]
    if statement.verb == "ALTER" and "TABLE" in words[:6] and "IMPORT" in words:
        at = words.index("IMPORT")
        if "TABLESPACE" in words[at + 1 : at + 2]:
            return "IMPORT TABLESPACE needs a file that is not in the log"
    return ""
