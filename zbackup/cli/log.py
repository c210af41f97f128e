"""zbackup log"""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final

import typer

from zbackup import app
from zbackup.cli import completion, prose
from zbackup.cli import private_key as private_key_option
from zbackup.cli.command_context import At, OneInstance, on_one
from zbackup.cli.log_lines import LogLines, entry_shape, gaps, read_shape
from zbackup.cli.options import Options
from zbackup.cli.output import print_line, say, tell
from zbackup.cli.restore_target import find_target, proves
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.log.log import follow, largest, promised_from, rows_of, was_promised
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.search_copies import search_copies
from zbackup.jobs.restore.search_log import require_all_read, search_log
from zbackup.jobs.restore.source import BackupSource
from zbackup.model.errors import NotInstalled, Refused, UsageError
from zbackup.model.log import ClusterTime
from zbackup.model.log_entry import KINDS, Kind, LogEntry, LogFilter, LogRead
from zbackup.model.moment import FORMS
from zbackup.model.progress import Progress
from zbackup.model.table_name import parse_table
from zbackup.model.target import NamedBackup, parse_target
from zbackup.model.transaction_name import parse_named
from zbackup.proc.start import PIPE, Child, for_pager, start

USUAL: Final = ("less",)
NONE: Final = ("cat",)


def chosen(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The pager's command line by PAGER; () for none. Pure."""
    if "SUDO_UID" in environment:
        return USUAL
    try:
        words = tuple(shlex.split(environment.get("PAGER", USUAL[0])))
    except ValueError:  # a quote that is not closed
        return USUAL
    return () if words == NONE else words


class Pager:
    """Begins with the first line that is printed, and takes over from the progress then: the terminal is the
    pager's until it ends. What is noted meanwhile is told behind it."""

    def __init__(self, progress: Progress, *, wanted: bool) -> None:
        self._progress = progress
        self._argv = chosen(os.environ) if wanted and sys.stdout.isatty() else ()
        self._child: Child[bytes] | None = None
        self._terminal = -1
        self._notes: list[str] = []

    def phase(self, name: str, detail: str = "") -> None:
        if self._child is None:
            self._progress.phase(name, detail)

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        if self._child is None:
            self._progress.advance(done, total, unit)

    def note(self, text: str) -> None:
        if self._child is None:
            self._progress.note(text)
        else:
            self._notes.append(text)

    def begin(self) -> None:
        """Start it, unless it runs, or there is none."""
        if self._child is not None or not self._argv:
            return
        self._progress.phase("")
        sys.stdout.flush()
        try:
            child = start(self._argv, for_pager(), stdin=PIPE, stdout=None, stderr=None)
        except NotInstalled:
            self._argv = ()
            return
        self._child, self._terminal = child, os.dup(sys.stdout.fileno())
        if child.stdin:
            os.dup2(child.stdin.fileno(), sys.stdout.fileno())
            child.stdin.close()

    def end(self, say: Callable[[str], None] = tell) -> None:
        """Wait until its user has seen enough."""
        child, self._child = self._child, None
        if child is None:
            return
        # Ctrl-C is the pager's, which may take it for something else.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with suppress(OSError):
                sys.stdout.flush()
            os.dup2(self._terminal, sys.stdout.fileno())
            os.close(self._terminal)
            child.wait()
        finally:
            signal.signal(signal.SIGINT, before)
        for note in self._notes:
            say(note)


@contextmanager
def paged(progress: Progress, *, wanted: bool) -> Iterator[Pager]:
    """A pager for what the body prints, whatever becomes of that."""
    pager = Pager(progress, wanted=wanted)
    try:
        yield pager
    finally:
        pager.end()


HELP = f"""Show what happened: which transaction did what to which table, and when.

One line a transaction, in the order of the log: when it was committed, its GTID, its position, what it did,
how large it is, and the statement, where the log has it. A narrow terminal has two: when and what, then the
names. Read from the server's own log files, and from snapshots for what the server has purged; no server is
asked, but for MongoDB's oplog. The last line is the command that restores to just before the last one that is
shown. Lost log, purged by the server and in no backup, is reported: with exit status 9 if it is within the
window that the retention policy promises, or not before --since, else in one line.

Where the log holds statements instead of rows (binlog_format STATEMENT or MIXED), tables are those that the
statement's text names, and "by text" is said: triggers and functions may have changed others.

In statements, *** replaces strings and numbers, which may be passwords or data; those that define a table are
shown. --rows shows data; as root, --statements full shows each statement as it was logged.

On a terminal it goes through PAGER, or less -FRX; PAGER=cat prints it as it comes. A moment is {FORMS}.

\b
zbackup log shop --table shop.orders --since -1h
zbackup log shop --table shop.orders --kind drop --kind truncate
zbackup log shop --kind ddl --since "yesterday 00:00"
zbackup log shop --since label:before-deploy        since the backup with this label
zbackup log shop --largest 10 --since -1d           the transactions with most bytes
zbackup log shop --grep "WHERE 1"                   in the statements' texts
zbackup log shop --kind ddl --statements full       with passwords and data; root only
zbackup log shop --rows 3e11fa47-71ca-11e1-9e33-c80aa9429562:23   its rows, before and after
zbackup log docs --rows 1795240185,7                MongoDB: the operations of one transaction
zbackup log shop --at offsite --since -7d --kind drop    what the backups at a destination hold
zbackup log shop --table shop.orders --follow       as it happens, until Ctrl-C
zbackup log shop --json | jq -c .transaction        one JSON document a line
"""

Tables = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="SCHEMA.TABLE",
        help="Only transactions that touched this table (SCHEMA: any of its tables). Quote a name with a "
        "dot: '`my.db`.orders'. May be given several times.",
        show_default=False,
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="KIND",
        help=f"Only this: one of {', '.join(KINDS)}. May be given several times.",
        autocompletion=completion.kinds,
        show_default=False,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="TARGET",
        help="Only what was committed then or later: a moment, or what restore --to takes.",
        show_default=False,
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until", metavar="TARGET", help="Only what was committed before that.", show_default=False
    ),
]
Largest = Annotated[
    int,
    typer.Option(
        "--largest", metavar="N", min=0, help="The N largest, the largest first.", show_default=False
    ),
]
Grep = Annotated[
    str,
    typer.Option(
        "--grep", metavar="TEXT", help="Only with this in the statement's text.", show_default=False
    ),
]
Rows = Annotated[
    str | None,
    typer.Option(
        "--rows",
        metavar="TRANSACTION",
        help="Show the rows of this one before and after, as the server's own tool prints them; of MongoDB "
        "its operations, each as a line of JSON.",
        show_default=False,
    ),
]
Statements = Annotated[
    str,
    typer.Option(
        "--statements",
        metavar="full",
        help="Show statements as they were logged, with passwords and data. Root only.",
        show_default=False,
    ),
]
Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Continue with what is committed next, until Ctrl-C.")
]


def command(  # noqa: PLR0913  a parameter is an option of the command line
    options: Options,
    instance: OneInstance = None,
    *,
    table: Tables = None,
    kind: Kinds = None,
    since: Since = None,
    until: Until = None,
    largest_n: Largest = 0,
    grep: Grep = "",
    rows: Rows = None,
    statements: Statements = "",
    follow_on: Follow = False,
    at: At = None,
    private_key: private_key_option.Files = None,
) -> None:
    if private_key and not at:
        raise UsageError("--private-key works only with a bucket: add --at DESTINATION")
    if at and (follow_on or rows):
        raise UsageError("--follow and --rows are of this host's log: leave out --at")
    if rows is not None and (table or kind or since or until or grep or largest_n or follow_on):
        raise UsageError("--rows shows one transaction as a whole: leave out what chooses among several")
    if rows is not None and statements:
        raise UsageError("--rows shows rows, not statements: leave out --statements")
    if statements:
        _require_root(statements)
    if follow_on and (largest_n or until):
        raise UsageError("--follow has no end: leave out --largest and --until")
    with (
        on_one(options, "log", instance, private_keys=private_key) as plain,
        paged(plain.progress, wanted=not (options.json or follow_on)) as pager,
    ):
        ctx = replace(plain, progress=pager)
        if statements:
            ctx.progress.note("statements are shown as they were logged, with their passwords and data")
        if rows is not None:
            _show_rows(options, pager, rows_of(ctx, parse_named(rows)))
            return
        there = app.choose_destination(ctx, at) if at else None
        wanted = LogFilter(
            tables=tuple(str(parse_table(name, ctx.engine_name)) for name in table or ()),
            kinds=frozenset(_kind(name) for name in kind or ()),
            since=_bound(ctx, there, since) if since else None,
            until=_bound(ctx, there, until) if until else None,
            grep=grep,
        )
        found = _found(ctx, there, wanted, follow_on=follow_on)
        if statements:
            found = map(_as_logged, found)
        _show(
            options,
            ctx,
            pager,
            largest(found, largest_n) if largest_n else found,
            lines=_lines(ctx, by_size=bool(largest_n), at=at or ""),
            # A log that is followed has no end at which to tell of what is long gone.
            promised=None if follow_on else promised_from(ctx, wanted, there),
        )


def _bound(ctx: Context, there: ShipDestination | None, text: str) -> datetime:
    """The time that bounds what is shown: a moment, when a transaction was committed, or to which a backup's
    data reaches. Raise UsageError for what only the log of this host tells, where another is read."""
    named = parse_target(text)
    source: BackupSource = LOCAL
    if there and not isinstance(named, str | ClusterTime):
        if not isinstance(named, NamedBackup):
            raise UsageError(f'"{text}" is looked for in the log of this host: leave out --at')
        from zbackup.jobs.restore.destination_source import DestinationSource

        source = DestinationSource(there)
    return find_target(ctx, source, named, RestoreOptions(proves=proves(ctx, named)), sure=True).at


def _found(
    ctx: Context, there: ShipDestination | None, wanted: LogFilter, *, follow_on: bool
) -> Iterator[LogEntry | LogRead]:
    if there:
        return search_copies(ctx, there, wanted)
    return follow(ctx, wanted) if follow_on else search_log(ctx, wanted)


def _require_root(statements: str) -> None:
    if statements != "full":
        raise UsageError(
            f'--statements: "{statements}" is not known: write --statements full, or leave it out'
        )
    if os.geteuid() != 0:
        raise Refused(
            "--statements full shows passwords, so only root may use it: sudo zbackup log ... "
            "--statements full"
        )


def _as_logged(each: LogEntry | LogRead) -> LogEntry | LogRead:
    return replace(each, text=each.logged or each.text) if isinstance(each, LogEntry) else each


def _lines(ctx: Context, *, by_size: bool, at: str) -> LogLines:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    return LogLines(ctx.zone, ctx.instance, ctx.engine_name, width, by_size=by_size, at=at)


def _show(
    options: Options,
    ctx: Context,
    pager: Pager,
    found: Iterable[LogEntry | LogRead],
    *,
    lines: LogLines,
    promised: datetime | None,
) -> None:
    """Print each as it is found. Raise what kept the log from being read as a whole, at the end.

    What is lost of it from before what is `promised` is told in one line.
    """
    reads: list[LogRead] = []
    for each in found:
        if isinstance(each, LogRead):
            reads.append(each)
            if each.problem and was_promised(each, promised):
                ctx.progress.note(each.problem)
            continue
        ctx.progress.phase("")
        pager.begin()
        if not _show_one(options, lines, each):
            return
    ctx.progress.phase("")
    if options.json:
        print_line({"read": [read_shape(read) for read in reads], "restore": lines.restore()})
    else:
        for line in lines.end(reads):
            say(prose.fold(line))
    if old := [read for read in reads if not was_promised(read, promised)]:
        ctx.progress.note(gaps(old, ctx.zone))
    require_all_read([read for read in reads if was_promised(read, promised)])


def _show_one(options: Options, lines: LogLines, entry: LogEntry) -> bool:
    """False when nobody reads any more."""
    if options.json:
        lines.saw(entry)
        return print_line({"transaction": entry_shape(entry)})
    return say(lines.line(entry))


def _show_rows(options: Options, pager: Pager, lines: Iterator[str]) -> None:
    for line in lines:
        pager.phase("")
        pager.begin()
        if not (print_line({"row": line}) if options.json else say(line)):
            return


def _kind(name: str) -> Kind:
    for kind in KINDS:
        if kind == name.strip().lower():
            return kind
    raise UsageError(f'--kind: "{name}" is none of {", ".join(KINDS)}')
