"""Statements in a log that no server can replay on a clone: they need files that were never logged, or write
where a clone must not. Pure.

A data file of CREATE TABLESPACE may lie anywhere in innodb_directories (MySQL reference manual, "CREATE
TABLESPACE Statement"); a name without a directory is in the data directory, which a clone has.
"""

from typing import Final

from zbackup.engines.mysql.sql.grammar import Statement
from zbackup.engines.mysql.sql.lexer import string_value

STOP_WORD: Final = b"tablespace"
"""It is in every such statement, in letters of any case."""

_BEFORE_NAME: Final = ("TABLE", "EXISTS", ".")
"""The words before a table's name."""


def why_unreplayable(statement: Statement) -> str:
    """Return why a replay ends at this statement; "" when it does not."""
    if statement.verb not in ("CREATE", "ALTER"):
        return ""
    words = statement.words
    if statement.verb == "ALTER" and statement.kind == "TABLE":
        imports = (n for n, word in enumerate(words) if word == "IMPORT" and words[n - 1] not in _BEFORE_NAME)
        if any(_imports_files(words, at + 1) for at in imports):
            return "IMPORT TABLESPACE needs a file that is not in the log"
    if "TABLESPACE" in words[1:3]:
        files = (n + 1 for n, word in enumerate(words) if word == "DATAFILE" and words[n - 1] == "ADD")
        names = [statement.tokens[at] for at in files if at < len(words)]
        if any(_is_elsewhere(string_value(name)) for name in names if name.kind == "string"):
            return "ADD DATAFILE puts a file outside of the data directory"
    return ""


def _is_elsewhere(path: str) -> bool:
    """Tell whether a data file may lie outside of the data directory: an absolute name does not tell."""
    return "/" in path.removeprefix("./") or "\\" in path


def _imports_files(words: list[str], at: int) -> bool:
    """Tell whether IMPORT, which stands before `at`, is of the whole table or of some of its partitions."""
    if words[at : at + 1] == ["PARTITION"]:
        at += 2
        while words[at : at + 1] == [","]:
            at += 2
    return words[at : at + 1] == ["TABLESPACE"]
