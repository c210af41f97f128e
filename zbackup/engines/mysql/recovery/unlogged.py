"""Find tables that were made or altered without a word in the log, as with sql_log_bin = 0.

An applier takes rows with more or fewer columns than its table has, and leaves out what has no place (MySQL
manual, "Replication with Differing Table Definitions"). The event in front of rows tells what their table's
columns are. Where that is not what the base has, or what it was before, and no statement in the log names the
table in between, the change was not logged.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from zbackup.engines.mysql.binlog.compressed import inner_events
from zbackup.engines.mysql.binlog.contents import Contents, kinds_of, read_contents
from zbackup.engines.mysql.binlog.events import (
    FIRST_EVENT,
    HEADER_SIZE,
    SHAPE,
    TABLE_MAP,
    TRANSACTION_PAYLOAD,
    Buffer,
)
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.binlog.scan import Scanner
from zbackup.engines.mysql.binlog.table_map import POST_HEADER, ColumnFacts, plain_values, read_table_map
from zbackup.engines.mysql.binlog.torn_end import torn_at
from zbackup.engines.mysql.recovery.covered_log import covered_files, end_of
from zbackup.engines.mysql.recovery.packets import has_text
from zbackup.engines.mysql.recovery.replay import LogRange
from zbackup.engines.mysql.server.connection import Connection
from zbackup.engines.mysql.sql.quoting import literal
from zbackup.model.backup import BackupFiles
from zbackup.model.errors import Refused, ZbackupError
from zbackup.model.event_log import log as event_log
from zbackup.model.log import LogPosition
from zbackup.model.record import ARCHIVED, Record
from zbackup.model.table_name import EVERY_TABLE, joined, separated
from zbackup.proc import secure_files

Columns = tuple[ColumnFacts, ...]
_Difference = tuple[str, str, str]
"""A table's name, what it has now, and what it had before."""

_OWN_SCHEMAS: Final = ("mysql", "sys", "information_schema", "performance_schema")
_MOST: Final = 1 << 18
"""Bytes of an event in a compressed transaction that are opened: rows are not read."""

_SIGNED: Final = frozenset(
    ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal")
)
_TIMES: Final = ("time", "datetime", "timestamp")
_PLAIN: Final = ("date", "year", "json")
_SHAPES: Final = frozenset(
    (
        *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    )
)
_BLOBS: Final = {
    f"{length}{kind}": size
    for size, length in enumerate(("tiny", "", "medium", "long"), 1)
    for kind in ("blob", "text")
}
_TEXT: Final = {
    **dict.fromkeys(_BLOBS, "blob"),
    **{"char": "char", "binary": "char", "varchar": "varchar", "varbinary": "varchar"},
}
_ENDINGS: Final = {"mysql": (".ibd", ".MYD", ".ARZ", ".CSV"), "mariadb": (".frm",)}
_VIEW: Final = b"TYPE=VIEW"
_PARTITION: Final = re.compile(r"#[pP]#")
_FULL_TEXT: Final = re.compile(r"fts_[0-9a-f]{16}_")
_LETTER: Final = re.compile(r"@([0-9a-f]{4})")
_OTHER_LETTER: Final = re.compile(r"@(?![0-9a-f]{4})")
_WORD: Final = re.compile(r"\w+")
_MOST_NAMED: Final = 10
_VALUE: Final = re.compile(r"'((?:[^']|'')*)'")


class _Tables:
    """The columns of each table, by schema.table: the base's, until a statement names the table."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._columns: dict[str, dict[str, Columns]] = {}
        self._tables: set[str] = set()
        self._schemas: set[str] = set()
        self._agreed: set[bytes] = set()
        self._by_table: dict[str, list[bytes]] = {}

    def difference(self, event: bytes, *, whole: bool, mariadb: bool) -> _Difference | None:
        """How a table's columns differ from those that it had up to now. What was seen before, and is what it
        was, is not read again; what is not `whole` ends too early.

        Raise ValueError or LookupError where the event makes no sense.
        """
        if (key := event[POST_HEADER:]) in self._agreed:
            return None
        told = read_table_map(event)
        if told.schema in _OWN_SCHEMAS:
            return None
        name, folded = joined(told.schema, told.table), told.table.casefold()
        now = (told if whole else replace(told, optional={})).facts(self._charsets.get, mariadb=mariadb)
        there = self._columns.setdefault(folded, {})
        before = there.get(name)
        if before is None:
            changed = folded in self._tables or told.schema.casefold() in self._schemas
            before = None if changed else _columns(self._connection, told.schema, told.table)
        if before is None:
            before = now
        if not before:
            return name, "", ""
        if difference := _difference(before, now):
            return name, *difference
        there[name] = tuple(map(_filled, before, now))
        self._agreed.add(key)
        self._by_table.setdefault(folded, []).append(key)
        return None

    @cached_property
    def _charsets(self) -> dict[int, str]:
        """The character set of each collation, by its number."""
        rows = self._connection.rows("SELECT * FROM information_schema.COLLATIONS")
        # MariaDB's later collations are for several character sets, with a number for each.
        rows += self._connection.rows(
            "SELECT * FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        )
        named = ((row.get("ID"), row.get("CHARACTER_SET_NAME")) for row in rows)
        return {int(number): str(charset) for number, charset in named if number and charset}

    def changed(self, contents: Contents) -> None:
        """Forget the tables whose definition a statement may have changed, in whichever schema."""
        for name in (name for name, mask in contents.tables.items() if "ddl" in kinds_of(mask)):
            schema, table = (part.casefold() for part in separated(name))
            if table == EVERY_TABLE:
                self._schemas.add(schema)
                for folded, there in self._columns.items():
                    for known in [n for n in there if separated(n)[0].casefold() == schema]:
                        del there[known]
                        self._forget(folded)
                continue
            self._tables.add(table)
            self._columns.pop(table, None)
            self._forget(table)

    def _forget(self, folded: str) -> None:
        self._agreed.difference_update(self._by_table.pop(folded, ()))


def require_all_logged(connection: Connection, log: LogRange, heard: Callable[[Contents], None]) -> None:
    """Raise Refused when rows that would be replayed are of a table that the server does not have, or has
    with other columns, and no statement in between explains that.

    `heard` is told of each transaction that has statements.
    """
    tables = _Tables(connection)
    for scanner, path, span in _transactions(log):
        if has_text(scanner.data, span, scanner.trailer):
            contents = read_contents(scanner, span)
            tables.changed(contents)
            heard(contents)
        for event, whole in _maps(scanner.data, *span, scanner.trailer):
            # What cannot be read ends the replay by itself.
            with suppress(ValueError, LookupError):
                found = tables.difference(event, whole=whole, mariadb=scanner.is_mariadb)
                # Where a statement that cannot be told made it, its name is somewhere in front.
                if found and (found[1] or not _is_named(log, found[0], LogPosition.of(path.name, span[1]))):
                    raise Refused(_told(found, scanner, path, span))


def _transactions(log: LogRange) -> Iterator[tuple[Scanner, Path, tuple[int, int]]]:
    for path in log.files:
        limit = log.stop.offset if path.name == log.stop.file else log.torn.get(path.name)
        with opened(path, limit) as scanner:
            start = log.start.offset if path.name == log.start.file else FIRST_EVENT
            for begin, end, _ in scanner.spans(start):
                yield scanner, path, (begin, end)


def _is_named(log: LogRange, name: str, before: LogPosition) -> bool:
    """Whether a statement before that names the table, or one of its name."""
    words = _words_in(separated(name)[1])
    for scanner, path, span in _transactions(log):
        if LogPosition.of(path.name, span[0]) >= before:
            return False
        if has_text(scanner.data, span, scanner.trailer):
            said = read_contents(scanner, span).said
            if any(words <= _words_in(text) for text, _ in said):
                return True
    return False


def _words_in(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def find_unlogged_tables(
    connection: Connection, base: BackupFiles, log: BackupFiles, start: LogPosition
) -> str:
    """Why the restored server may lack tables, or have some that were dropped; "" if nothing tells that.

    The files of tables are compared between the base, whose log ends at `start`, and the backup that holds
    the log, if a lock kept tables from being created and dropped while these were taken. Nobody knows when
    between the two it was done, so that the replay goes on.
    """
    if any(
        r.lock == "none" or r.purpose != "base" or ARCHIVED in r.server for r in (base.record, log.record)
    ):
        return ""
    try:
        before, after = _TableFiles.of(base), _TableFiles.of(log)
        made, gone = after.beyond(before), before.beyond(after)
        unexplained = _not_in(made.keys() | gone.keys(), log, start) if made or gone else set()
        created = {name for name in made.keys() & unexplained if not after.is_view(made[name])}
        dropped = {name for name in gone.keys() & unexplained if not before.is_view(gone[name])}
        if base.record.engine == "mysql":
            # OPTIMIZE LOCAL TABLE moves a table between a file of its own and the one of all.
            created = {name for name in created if _columns(connection, *separated(name)) == ()}
            own = log.record.server.get("innodb_file_per_table", "").upper() in ("ON", "1")
            dropped = dropped if own else set()
        return _tables_told(sorted(created), sorted(dropped), log.record) if created or dropped else ""
    except (OSError, ZbackupError) as failure:
        event_log.info("replay.tables_not_compared", reason=str(failure))
        return ""


@dataclass(frozen=True, slots=True)
class _TableFiles:
    """The files of a backup's tables, by schema; None for what is no directory, or cannot be listed."""

    files: BackupFiles
    names: dict[str, frozenset[str] | None]

    @classmethod
    def of(cls, files: BackupFiles) -> "_TableFiles":
        datadir, found = files.record.fact("datadir"), {}
        endings = _ENDINGS["mysql" if files.record.engine == "mysql" else "mariadb"]
        for schema in secure_files.names(files.where.path(datadir)):
            if schema.startswith(("#", ".")) or schema in _OWN_SCHEMAS:
                continue
            found[schema] = _table_names(files.where.path(f"{datadir}/{schema}"), endings)
        return cls(files, found)

    def beyond(self, other: "_TableFiles") -> dict[str, str]:
        """The tables, as SCHEMA.TABLE, that the other does not have, with their files' names; not those whose
        names are not read."""
        found = {}
        for schema, names in self.names.items():
            others = other.names.get(schema, frozenset())
            if names is None or others is None:
                continue
            for name in names - others:
                parts = _decoded(schema), _decoded(name)
                if parts[0] is not None and parts[1] is not None:
                    found[joined(parts[0], parts[1])] = f"{schema}/{name}"
        return found

    def is_view(self, file: str) -> bool:
        """Whether it is of a view, which has a file like a table's in MariaDB alone."""
        record, where = self.files
        if record.engine == "mysql":
            return False
        with secure_files.open_regular(where.path(f"{record.fact('datadir')}/{file}.frm")) as opened_file:
            return opened_file.read(len(_VIEW)) == _VIEW


def _table_names(directory: Path, endings: tuple[str, ...]) -> frozenset[str] | None:
    try:
        names = secure_files.names(directory)
    except (OSError, Refused):
        return None
    stems = (name.rpartition(".")[0] for name in names if name.endswith(endings))
    # A partition has a file of its own; of a full-text index the server makes tables.
    return frozenset(
        _PARTITION.split(stem)[0] for stem in stems if stem[:1] != "#" and not _FULL_TEXT.match(stem)
    )


def _decoded(name: str) -> str | None:
    """A name as the server wrote it for a file; None for letters that it writes in a way of its own."""
    if _OTHER_LETTER.search(name):
        return None
    return _LETTER.sub(lambda found: chr(int(found[1], 16)), name)


def _not_in(names: Set[str], log: BackupFiles, start: LogPosition) -> set[str]:
    """Those that no statement names from there on, up to the end of the log that the backup holds."""
    files = covered_files(*log)
    end = end_of(log.record, log.where, files)
    within = [f for f in files if start.sequence <= LogPosition.of(f.name, 0).sequence <= end.sequence]
    torn = {file.name: at for file in within if (at := torn_at(file)) is not None}
    whole = LogRange(files=tuple(within), start=start, stop=end, ends_file=True, torn=torn)
    left = {name: _words_in(separated(name)[1]) for name in names}
    found_by: dict[str, set[str]] = {}
    for name, words in left.items():
        for key in (separated(name)[1].casefold(), max(words, key=len, default="")):
            found_by.setdefault(key, set()).add(name)
    for scanner, _, part in _transactions(whole):
        if not left:
            break
        if not has_text(scanner.data, part, scanner.trailer):
            continue
        contents = read_contents(scanner, part)
        changed = [(schema.casefold(), table.casefold()) for schema, table in map(separated, contents.tables)]
        schemas, tables = (
            {schema for schema, table in changed if table == EVERY_TABLE},
            {t for _, t in changed},
        )
        said = {word for text, _ in contents.said for word in _words_in(text)}
        maybe = {name for key in tables | said for name in found_by.get(key, ())}
        if schemas:
            maybe |= {name for name in left if separated(name)[0].casefold() in schemas}
        for name in maybe & left.keys():
            schema, table = (each.casefold() for each in separated(name))
            if schema in schemas or table in tables or left[name] <= said:
                del left[name]
    return set(left)


def _tables_told(made: list[str], gone: list[str], log: Record) -> str:
    told = []
    if made:
        told.append(f"created: {_some(made)}, which {log.called} has and the base does not have")
    if gone:
        told.append(f"dropped: {_some(gone)}, which the base has and {log.called} does not have")
    return (
        "tables were created or dropped after the base, and no statement in the log did that (was "
        f"sql_log_bin = 0?): here they are as the base has them. {'; '.join(told)}"
    )


def _some(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join([*names[:_MOST_NAMED], *([f"{more} more"] if more > 0 else [])])


def _told(found: _Difference, scanner: Scanner, path: Path, span: tuple[int, int]) -> str:
    subject = scanner.gtid(span[0]) or str(LogPosition.of(path.name, span[0]))
    name, now, before = found
    if not now:
        return (
            f"{subject} changes rows of {name}, which the base does not have, and no logged statement "
            "created it (was sql_log_bin = 0?). Start from a backup taken after that (--base), or restore to "
            f"before it (--before {subject})"
        )
    return (
        f"{name} has {now} in {subject} and had {before} before, but no logged "
        "statement changed it (was sql_log_bin = 0?): rows would be lost or changed. Start from a backup "
        f"taken after that change (--base), or restore to before it (--before {subject})"
    )


def _maps(data: Buffer, at: int, end: int, trailer: int) -> Iterator[tuple[bytes, bool]]:
    """The events that name a table of which rows follow, without header, and whether each is whole."""
    unpack = SHAPE.unpack_from
    while at + HEADER_SIZE <= end:
        kind, size, _ = unpack(data, at)
        if kind == TABLE_MAP:
            yield bytes(data[at + HEADER_SIZE : at + size - trailer]), at + size <= end
        elif kind == TRANSACTION_PAYLOAD:
            with suppress(ValueError, LookupError):
                for inner in inner_events(data[at + HEADER_SIZE : at + size - trailer], _MOST):
                    yield from _maps(inner, 0, len(inner), 0)
        at += max(size, HEADER_SIZE)


def _difference(before: Columns, now: Columns) -> tuple[str, str] | None:
    """What is now, and what was before, in words; None where all that is known of both is the same."""
    if len(before) != len(now):
        return f"{len(now)} columns", str(len(before))
    for place, (old, new) in enumerate(zip(before, now, strict=True), 1):
        differ = [a is not None and b is not None and a != b for a, b in zip(old, new, strict=True)]
        if any(differ):
            return f"column {place} as {_words(new, differ)}", f"it as {_words(old, differ)}"
    return None


def _words(column: ColumnFacts, told: list[bool]) -> str:
    """The facts that are to be told, in the words of a definition."""
    size = f"({','.join(map(str, column.size))})" if column.size else ""
    words = (
        column.name,
        f"{column.kind}{size}",
        f"{column.kind}{size}",
        "unsigned" if column.unsigned else "signed",
        f"CHARACTER SET {column.character_set}",
        f"with the values {', '.join(column.values or ())}",
        "NULL" if column.nullable else "NOT NULL",
    )
    shown = [str(word) for word, wanted in zip(words, told, strict=True) if wanted]
    return " ".join(dict.fromkeys(shown))


def _filled(known: ColumnFacts, told: ColumnFacts) -> ColumnFacts:
    return known._replace(
        **{field: getattr(told, field) for field in known._fields if getattr(known, field) is None}
    )


def _columns(connection: Connection, schema: str, table: str) -> Columns | None:
    """The columns that a server's table has in its log; None where it does not tell, () without the table.

    Asked for its columns, a sequence of MariaDB's is opened, and an applier then fails at it (11.8.9). A long
    unique key of MariaDB's has a column of its own that is not shown, and a versioned table may have two.
    """
    where = f"TABLE_SCHEMA = {literal(schema)} AND TABLE_NAME = {literal(table)}"
    kinds = connection.rows(f"SELECT TABLE_TYPE AS kind FROM information_schema.TABLES WHERE {where}")
    if [row["kind"] for row in kinds] != ["BASE TABLE"]:
        return None if kinds else ()
    keys = connection.rows(f"SELECT INDEX_TYPE AS kind FROM information_schema.STATISTICS WHERE {where}")
    if any(row["kind"] == "HASH" for row in keys):
        return None
    rows = connection.rows(
        "SELECT COLUMN_NAME AS name, DATA_TYPE AS kind, COLUMN_TYPE AS full, IS_NULLABLE AS nullable, "
        "CHARACTER_OCTET_LENGTH AS octets, NUMERIC_PRECISION AS digits, NUMERIC_SCALE AS scale, "
        "DATETIME_PRECISION AS fraction, CHARACTER_SET_NAME AS charset "
        f"FROM information_schema.COLUMNS WHERE {where} ORDER BY ORDINAL_POSITION"
    )
    return tuple(map(_facts, rows)) or None


def _facts(row: Mapping[str, Any]) -> ColumnFacts:
    """A column as information_schema has it."""
    kind, full = str(row["kind"]).lower(), str(row["full"])
    facts = ColumnFacts(name=str(row["name"]), nullable=row["nullable"] == "YES")
    if kind in _SIGNED:
        size = _size(row, "digits", "scale") if kind == "decimal" else None
        return facts._replace(kind=kind, size=size, unsigned="unsigned" in full)
    if kind in _TEXT:
        charset = str(row["charset"] or "binary")
        size = (_BLOBS[kind],) if kind in _BLOBS else _size(row, "octets")
        return facts._replace(kind=_TEXT[kind], size=size, character_set=charset)
    if kind in _TIMES:
        return facts._replace(kind=kind, size=_size(row, "fraction"))
    if kind in ("enum", "set"):
        return facts._replace(kind=kind, **_choice(kind, full))
    if kind == "bit":
        return facts._replace(kind=kind, size=_size(row, "digits"))
    return facts._replace(kind="geometry" if kind in _SHAPES else kind if kind in _PLAIN else None)


def _size(row: Mapping[str, Any], *names: str) -> tuple[int, ...] | None:
    """None where the server does not tell."""
    return None if any(row[name] is None for name in names) else tuple(int(row[name]) for name in names)


def _choice(kind: str, full: str) -> dict[str, Any]:
    """The size and the values of an ENUM or SET, by its definition."""
    if "\\" in full:
        return {}
    values = [value.replace("''", "'") for value in _VALUE.findall(full)]
    bytes_ = (len(values) + 7) // 8
    size = (1 if len(values) < 256 else 2) if kind == "enum" else bytes_ if bytes_ <= 4 else 8
    return {"size": (size,), "values": plain_values(values)}
