"""Statements in a log that no server can replay on a clone: they need files that were never logged, or write
where a clone must not, or stand in the log in words that no server reads. Pure.

A data file of CREATE TABLESPACE may lie anywhere in innodb_directories (MySQL reference manual, "CREATE
TABLESPACE Statement"); a name without a directory is in the data directory, which a clone has.
"""

from typing import Final

from zbackup.engines.mysql.binlog.query_status import QueryStatus
from zbackup.engines.mysql.sql.grammar import Statement
from zbackup.engines.mysql.sql.lexer import string_value

STOP_WORDS: Final = (b"tablespace", b"name_const(", b"start transaction")
"""One of them is in every such statement, in letters of any case."""

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


def why_unreadable(text: str, told: QueryStatus) -> str:
    """Return why no server reads a statement as it was meant, though one has written it; "" where one does.

    MySQL writes a procedure's variable in its own character set, which need not be one that statements can be
    in, and CREATE TABLE ... SELECT in UTF-8, whatever the session's is, where rows are logged.
    """
    if "NAME_CONST(" in text and "\0" in text:
        return "the server wrote a variable in UTF-16 or UTF-32 into it, which no server can read there"
    made = text.startswith("CREATE TABLE ") and text.endswith("START TRANSACTION")
    if made and told.codec and not text.isascii():
        return (
            f"the server wrote it in UTF-8 and marked it as in {told.codec}: names or defaults would differ"
        )
    return ""


def _is_elsewhere(path: str) -> bool:
    """Whether a data file may lie outside of the data directory: an absolute name does not tell."""
    return "/" in path.removeprefix("./") or "\\" in path


def _imports_files(words: list[str], at: int) -> bool:
    """Whether IMPORT, which stands before `at`, is of the whole table or of some of its partitions."""
    if words[at : at + 1] == ["PARTITION"]:
        at += 2
        while words[at : at + 1] == [","]:
            at += 2
    return words[at : at + 1] == ["TABLESPACE"]
