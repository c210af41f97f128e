"""Choose the last statement that dropped or emptied a table which was there. Pure.

A dump that is loaded again begins with DROP TABLE IF EXISTS, which is logged when there is no such table,
too: everything before it has the table no more. So a drop counts unless a drop, or another name that the
table got, left nothing to drop before it. Some logs hold no drop of what was not there, such as an oplog.
"""

from collections.abc import Collection, Iterable, Sequence

from zbackup.model.log_entry import Kind, LogEntry, Touched
from zbackup.model.table_name import EVERY_TABLE, joined, separated


class LastDrop:
    """Hears the log of SCHEMA.TABLE file by file, the newest first, and of each in its order.

    `found` is the last that counts, as far as was heard; `defined` the last change of the table's definition,
    which may be the same; `renamed` when it last got another name, and which. SCHEMA.* is all of a schema:
    there one table may go after the other. `only_of_what_was_there`: no other drop of a table is in the log.
    `last` is the last of the log that did anything to it, and `there` whether it left the table there (None:
    not known). `view` is the last that dropped a view or a sequence of that name. `disproved` are the
    positions of transactions that were found before, and did nothing to it.
    """

    def __init__(
        self,
        table: str,
        kind: Kind,
        *,
        only_of_what_was_there: bool = False,
        disproved: Collection[str] = (),
    ) -> None:
        self.table, self.kind, self._sure, self._disproved = table, kind, only_of_what_was_there, disproved
        self.last: LogEntry | None = None
        self.there: bool | None = None
        self.found: LogEntry | None = None
        self.defined: LogEntry | None = None
        self.renamed: tuple[LogEntry, str] | None = None
        self.view: LogEntry | None = None
        self._open = False
        """True while it depends on what was before whether what was found counts."""
        self._begin_file()

    def _begin_file(self) -> None:
        self._here: LogEntry | None = None
        self._here_open = False
        self._here_defined: LogEntry | None = None
        self._here_renamed: tuple[LogEntry, str] | None = None
        self._here_last: LogEntry | None = None
        self._here_view: LogEntry | None = None
        self._gone: bool | None = None

    def saw(self, entry: LogEntry) -> None:
        """Hear of the next transaction of the file."""
        if entry.transaction.start in self._disproved:
            return
        own, schema = self._done([t for t in entry.tables if t.name not in entry.no_tables])
        if self.kind in self._done([t for t in entry.tables if t.name in entry.no_tables])[0]:
            self._here_view = entry
        self._here_last = entry if own | schema else self._here_last
        if "ddl" in own | schema:
            self._here_defined = entry
        if self.kind in own | schema and not self._gone:
            # With a schema goes what there is of it, and whether this table was, is not said.
            self._here, self._here_open = entry, self._gone is None and not (self._sure and self.kind in own)
        if self._ends(own, schema):
            self._gone = True
        # What makes a table again and fills it is of both.
        made = self.table in [_folded(name, self.table) for name in entry.replaced]
        if made or own - {"ddl", "drop", "truncate"} or ("ddl" in own and "drop" not in own):
            self._gone = False
        self._follow(entry)

    def _follow(self, entry: LogEntry) -> None:
        """By its renames whether a table of that name is there."""
        if self._is_schema():
            return
        names = [name for pair in entry.renames for name in pair]
        # As in _done(): what was found although it is written otherwise is one there.
        exact = self.table in names
        for old, new in entry.renames:
            if self.table == (old if exact else _folded(old, self.table)):
                self._gone, self._here_renamed = True, (entry, new)
            if self.table == (new if exact else _folded(new, self.table)):
                self._gone = False

    def ended_file(self) -> bool:
        """Hear that there is no more of the file; tell whether older ones have no say."""
        self.defined = self.defined or self._here_defined
        self.renamed = self.renamed or self._here_renamed
        self.last = self.last or self._here_last
        self.view = self.view or self._here_view
        if self.there is None and self._gone is not None:
            self.there = not self._gone
        if self.found is None or (self._open and self._gone):
            self.found, self._open = self._here, self._here_open
        elif self._gone is False:
            self._open = False
        self._begin_file()
        return self.found is not None and not self._open

    def _ends(self, own: set[Kind], schema: set[Kind]) -> bool:
        """Whether nothing is left behind this that a drop could take."""
        whole = schema if self._is_schema() else own | schema
        return self.kind == "drop" and "drop" in whole

    def _done(self, tables: Sequence[Touched]) -> tuple[set[Kind], set[Kind]]:
        """Return what was done to the table, or to tables of the schema; and to the schema as a whole."""
        everything = joined(separated(self.table)[0], EVERY_TABLE)
        touched = [t for t in tables if self._is_meant(t.name, everything)]
        if not touched:
            # It was found although it is written otherwise, so it is one there.
            table, everything = self.table.casefold(), everything.casefold()
            touched = [Touched(t.name.casefold(), t.kinds) for t in tables]
            touched = [t for t in touched if t.name in (table, everything) or self._is_schema()]
        own = _kinds(t for t in touched if t.name != everything)
        return own, _kinds(t for t in touched if t.name == everything)

    def _is_meant(self, name: str, everything: str) -> bool:
        of_schema = self._is_schema() and name.startswith(everything.removesuffix(EVERY_TABLE))
        return of_schema or name in (self.table, everything)

    def _is_schema(self) -> bool:
        return self.table.endswith(f".{EVERY_TABLE}")


def _folded(name: str, table: str) -> str:
    """The table's name, if this is the same but for its case."""
    return table if name.casefold() == table.casefold() else name


def _kinds(touched: Iterable[Touched]) -> set[Kind]:
    return {kind for each in touched for kind in each.kinds}
