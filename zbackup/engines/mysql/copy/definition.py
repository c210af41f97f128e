"""A table's definition as SHOW CREATE TABLE prints it, under another name. Pure.

Both servers print one column, index or constraint a line, between the first line and the one that begins
with ")", and write line ends inside of names and comments as escapes (manuals, "SHOW CREATE TABLE").
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from zbackup.engines.mysql.copy.tables import quoted, quoted_name
from zbackup.model.copying import TableName
from zbackup.model.errors import Refused

_FIRST = re.compile(r"CREATE TABLE (?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*` \(\n")
_FOREIGN = re.compile(r"  CONSTRAINT (?P<name>`(?:[^`]|``)*`) (?P<rest>FOREIGN KEY .*?),?$")
_CHECK = re.compile(r"  CONSTRAINT `(?:[^`]|``)*` (?P<rest>CHECK .*)$")
_KEY = re.compile(r"  (?P<key>(?:UNIQUE )?KEY (?P<name>`(?:[^`]|``)*`) .*)$")
_OF_EXPRESSION = re.compile(r"\(\(|,\s*\(")
_COUNTED = re.compile(r"  (?P<name>`(?:[^`]|``)*`) .*\bAUTO_INCREMENT\b")
_ELSEWHERE = re.compile(r"\b(?:DATA|INDEX) DIRECTORY\b|/\*!50100 TABLESPACE `", re.IGNORECASE)
_COUNTER = re.compile(r"^\) ENGINE=\w+ AUTO_INCREMENT=(\d+)", re.MULTILINE)
_VIEW = re.compile(
    r" VIEW (?:`(?:[^`]|``)*`\.)?`(?:[^`]|``)*`(?P<columns> \(`(?:[^`]|``)*`(?:,\s*`(?:[^`]|``)*`)*\))? AS ",
    re.IGNORECASE,
)
_TRIGGER = re.compile(
    r"\bON\s+(?:`(?:[^`]|``)*`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|\w+))?(?=\s+FOR\s+EACH\b)", re.I
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """A table's definition without its name and without its foreign keys, which are (name, rest) pairs."""

    lines: tuple[str, ...]
    foreign: tuple[tuple[str, str], ...]
    tail: str

    def create(self, name: TableName) -> str:
        """The statement that makes an empty table of that name."""
        body = ",\n".join(self.lines)
        return f"CREATE TABLE {quoted_name(name)} (\n{body}\n{self.tail}"

    def without_check_names(self) -> "Definition":
        """MySQL's names of CHECK constraints are those of a schema: a second table gets others."""
        lines = tuple(f"  {m['rest']}" if (m := _CHECK.match(line)) else line for line in self.lines)
        return Definition(lines=lines, foreign=self.foreign, tail=self.tail)

    def without_keys(self) -> tuple["Definition", tuple[tuple[str, str], ...]]:
        """The definition without its ordinary indexes, and these, by their names: built in one go, they take
        a fraction of what they take row by row.

        None is left out where one may be what AUTO_INCREMENT needs.
        """
        for line in self.lines:
            if (counted := _COUNTED.match(line)) and not self._begins_primary(counted["name"]):
                return self, ()
        found = [(line, match) for line in self.lines if (match := _KEY.match(line))]
        out = {line for line, _ in found}
        rest = tuple(line for line in self.lines if line not in out)
        keys = tuple((_unquoted(match["name"]), match["key"]) for _, match in found)
        return Definition(lines=rest, foreign=self.foreign, tail=self.tail), keys

    def _begins_primary(self, name: str) -> bool:
        return any(line.startswith(f"  PRIMARY KEY ({name}") for line in self.lines)


def parse_definition(text: str) -> Definition:
    """Take SHOW CREATE TABLE's text apart. Raise Refused for a table that is kept elsewhere, or no table."""
    first = _FIRST.match(text)
    # Partitions follow the options, and have lines of their own.
    body, end, tail = text[first.end() :].partition("\n)") if first else ("", "", "")
    if not end:
        raise Refused(f"cannot parse SHOW CREATE output: {text[:80]}")
    if broken := [line for line in body.split("\n") if not line.startswith("  ")]:
        raise Refused(f"a name in its definition has a line end, before {broken[0][:40]!r}")
    if _ELSEWHERE.search(tail):
        raise Refused(
            "it is kept in a directory or tablespace of its own (DATA DIRECTORY, TABLESPACE), which a copy "
            "would share with it"
        )
    lines: list[str] = []
    foreign: list[tuple[str, str]] = []
    for line in body.split("\n"):
        if match := _FOREIGN.match(line):
            foreign.append((_unquoted(match["name"]), match["rest"]))
        else:
            lines.append(line.removesuffix(","))
    return Definition(lines=tuple(lines), foreign=tuple(foreign), tail=")" + tail)


def counter(text: str) -> int:
    """The number that AUTO_INCREMENT gives next, of SHOW CREATE TABLE's text; 1 where it has none."""
    found = _COUNTER.search(text)
    return int(found[1]) if found else 1


def built_at_once(keys: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Groups of the indexes that `without_keys` took out: a server reads the rows once for each statement.

    One of an expression is built alone: MySQL makes a hidden column for it, and copies the table where that
    comes with anything else (manual, "Online DDL Operations").
    """
    plain = [(name, key) for name, key in keys if not _OF_EXPRESSION.search(key)]
    return [group for group in (plain, *([key] for key in keys if key not in plain)) if group]


def add_keys(table: TableName, keys: Sequence[tuple[str, str]]) -> str:
    """The statement for a group of them."""
    return f"ALTER TABLE {quoted_name(table)} " + ", ".join(f"ADD {key}" for _, key in keys)


def add_foreign_key(table: TableName, name: str, rest: str) -> str:
    """The statement for one that `parse_definition` took out."""
    return f"ALTER TABLE {quoted_name(table)} ADD CONSTRAINT {quoted(name)} {rest}"


def referring_to(statement: str, parent: TableName, work: TableName) -> str:
    """A foreign key's statement, with another table in its parent's place."""
    names = (f"REFERENCES {quoted_name(parent)} (", f"REFERENCES {quoted(parent.table)} (")
    for name in names:
        statement = statement.replace(name, f"REFERENCES {quoted_name(work)} (")
    return statement


def view_named(text: str, name: TableName, *, replace: bool) -> str:
    """SHOW CREATE VIEW's text, for a view of another name. Raise Refused if it is not understood."""
    if not _VIEW.search(text) or not text.startswith("CREATE "):
        raise Refused(f"cannot parse SHOW CREATE output: {text[:80]}")
    renamed = _VIEW.sub(lambda m: f" VIEW {quoted_name(name)}{m['columns'] or ''} AS ", text, count=1)
    return renamed.replace("CREATE ", "CREATE OR REPLACE ", 1) if replace else renamed


def trigger_on(text: str, table: TableName) -> str:
    """SHOW CREATE TRIGGER's text, for another table. Raise Refused if it is not understood."""
    if not _TRIGGER.search(text):
        raise Refused(f"cannot parse SHOW CREATE output: {text[:80]}")
    return _TRIGGER.sub(lambda _: f"ON {quoted_name(table)}", text, count=1)


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`")
