"""What the grammar tells of logged statements, judged by what a real server had before and after each.

Thousands of random statements of several sessions, with temporary tables of the same names, in every format
of the log. ZBACKUP_STATEMENTS says how many, ZBACKUP_SEED which ones.
"""

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.variants import Variant
from tests.slow.random_statements import LATER, SCHEMAS, Name, Said, Session, Writer, pool
from zbackup.engines.mysql.binlog.files import log_files
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import Kind, LogEntry, LogFilter
from zbackup.plan.recovery.last_drop import LastDrop

VARIANTS = ("mysql-9.7", "mariadb-11.8")
COUNT = int(os.environ.get("ZBACKUP_STATEMENTS", "3000"))
SEED = int(os.environ.get("ZBACKUP_SEED", "20261128"))
CR_SERVER_LOST = 2013
EACH_FILE = 400
"""Statements after which another file of the log is begun."""
CODECS = {"utf8mb4": "utf-8", "gbk": "gbk", "sjis": "shift_jis", "latin1": "cp1252"}
MODES = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
DEFINED: frozenset[Kind] = frozenset({"ddl", "drop", "truncate"})

Content = tuple[str, int, int]
"""Kind of the table in information_schema, number of rows, sum of their tags."""
State = dict[str, Content]


@dataclass
class Step:
    """A statement that was run, and what there was before and after."""

    said: Said
    session: Session
    end: LogPosition
    before: State
    after: State
    hidden: frozenset[str]
    """Names that it has a temporary table of."""
    failed: str = ""
    entries: list[LogEntry] = field(default_factory=list)


class Judge:
    """Runs statements on a server, and asks it what is there."""

    def __init__(self, server: DatabaseServer, mariadb: bool) -> None:
        self.server, self.mariadb = server, mariadb
        self.connection = server.connect(charset="utf8mb4")
        self.sessions: list[tuple[Session, Any]] = []
        self.steps: list[Step] = []
        self.files: list[Path] = []
        self.crashes: list[str] = []
        self.entries: list[LogEntry] = []

    def ask(self, question: str) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())

    def state(self) -> State:
        schemas = ", ".join(f"'{name}'" for name in (*SCHEMAS, LATER))
        shown = self.ask(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE FROM information_schema.TABLES "
            f"WHERE TABLE_SCHEMA IN ({schemas})"
        )
        tables = [f"{schema}.{table}" for schema, table, kind in shown if kind == "BASE TABLE"]
        counted = self._counted(tables)
        return {f"{s}.{t}": (kind, *counted.get(f"{s}.{t}", (0, 0))) for s, t, kind in shown}

    def _counted(self, tables: list[str]) -> dict[str, tuple[int, int]]:
        if not tables:
            return {}
        asked = " UNION ALL ".join(
            f"SELECT {number}, COUNT(*), COALESCE(SUM(tag), 0) FROM {quoted(BY_NAME[name])}"
            for number, name in enumerate(tables)
        )
        return {tables[number]: (int(count), int(total)) for number, count, total in self.ask(asked)}

    def position(self) -> LogPosition:
        asked = "SHOW MASTER STATUS" if self.mariadb else "SHOW BINARY LOG STATUS"
        file, offset = self.ask(asked)[0][:2]
        return LogPosition.of(file, int(offset))

    def connect(self, writer: Writer, number: int) -> tuple[Session, Any]:
        choice = writer.random.choice
        session = Session(
            number, choice(SCHEMAS), charset=choice(list(CODECS)), form=choice(("ROW", "MIXED", "STATEMENT"))
        )
        mode = choice(MODES)
        session.ansi = "ANSI" in mode
        connection = self.server.connect(charset="utf8mb4")
        settings = [
            f"SET SESSION sql_mode = '{mode}'",
            f"SET SESSION binlog_format = {session.form}",
            "SET SESSION lock_wait_timeout = 5",
            f"USE `{session.current}`",
        ]
        if self.mariadb:
            settings.append(f"SET SESSION binlog_alter_two_phase = {choice(('ON', 'OFF'))}")
        for each in settings:
            with connection.cursor() as cursor:
                cursor.execute(each)
        return session, connection

    def hidden(self, connection: Any, said: Said) -> frozenset[str]:
        """The names of a statement that its session has a temporary table of."""
        found = set()
        for name in said.names:
            with connection.cursor() as cursor:
                try:
                    cursor.execute(f"SHOW CREATE TABLE {quoted(name)}")
                    row = cursor.fetchone()
                except pymysql.Error:
                    continue
            if "TEMPORARY" in row[1][:20]:
                found.add(str(name))
        return frozenset(found)

    def run(self, writer: Writer, count: int) -> None:
        before, number = self.state(), 0
        while number < count:
            if number % 40 == 0 or not self.sessions:
                if len(self.sessions) >= 4:
                    self.sessions.pop(writer.random.randrange(4))[1].close()
                    before = self.state()
                self.sessions.append(self.connect(writer, number))
            if number % EACH_FILE == EACH_FILE - 1:
                self.ask("FLUSH BINARY LOGS")
            number += 1
            writer.there = [BY_NAME[name] for name in sorted(before)]
            session, connection = writer.random.choice(self.sessions)
            said = writer.statement(session)
            hidden = self.hidden(connection, said)
            failed = execute(connection, session, said)
            if not self.server.running:
                self._start_again(failed)
                before = self.state()
                continue
            after = self.state()
            self.steps.append(Step(said, session, self.position(), before, after, hidden, failed))
            before = after

    def _start_again(self, why: str) -> None:
        """A server that ended by a statement (MariaDB 11.8.9 does) is started again, without sessions."""
        self.crashes.append(why)
        self.server.start()
        self.connection = self.server.connect(charset="utf8mb4")
        self.sessions.clear()

    def assign(self, entries: list[LogEntry]) -> None:
        """Give each transaction to the statement behind which it ends."""
        self.entries = entries
        steps = iter(self.steps)
        step = next(steps)
        for entry in entries:
            while step.end < LogPosition.parse(entry.transaction.end):
                step = next(steps)
            step.entries.append(entry)


def execute(connection: Any, session: Session, said: Said) -> str:
    """Why it failed, "" if it did not."""
    try:
        with connection.cursor() as cursor:
            charset, text = sent(said.text, session.charset)
            cursor.execute(f"SET NAMES {charset}")
            cursor.execute("SET character_set_results = utf8mb4")
            cursor.execute(text)  # type: ignore[arg-type]
            cursor.execute("SET NAMES utf8mb4")
    except pymysql.Error as error:
        if error.args[0] in (CR_SERVER_LOST, 0):
            time.sleep(2)
            return f"{error} {said.text!r}"
        with connection.cursor() as cursor:
            cursor.execute("SET NAMES utf8mb4")
        return str(error)
    return ""


def sent(text: str, charset: str) -> tuple[str, bytes]:
    """The text in a session's character set, or in UTF-8 where it has not all of its letters."""
    try:
        return charset, text.encode(CODECS[charset])
    except UnicodeEncodeError:
        return "utf8mb4", text.encode()


def quoted(name: Name) -> str:
    return "`{}`.`{}`".format(name.schema.replace("`", "``"), name.table.replace("`", "``"))


def is_table(content: Content | None) -> bool:
    return content is not None and content[0] == "BASE TABLE"


class Told:
    """What the log tells of one statement, by table."""

    def __init__(self, step: Step) -> None:
        self.kinds: dict[str, set[Kind]] = {}
        self.renames = [pair for each in step.entries for pair in each.renames]
        self.replaced = {name for each in step.entries for name in each.replaced}
        self.no_tables = {name for each in step.entries for name in each.no_tables}
        for each in step.entries:
            for touched in each.tables:
                self.kinds.setdefault(touched.name, set()).update(touched.kinds)

    def of(self, name: str) -> set[Kind]:
        if name in self.no_tables:
            return set()
        return self.kinds.get(name, set()) | self.kinds.get(f"{name.partition('.')[0]}.*", set())


def schema_of(name: str) -> str:
    return next(schema for schema in (*SCHEMAS, LATER) if name.startswith(f"{schema}."))


def differences(step: Step) -> Iterator[str]:
    """Where what the log tells is not what the server did."""
    told = Told(step)
    moved = {name: name for name in step.before}
    for old, new in told.renames:
        if "partition" in told.kinds.get(old, ()):
            continue
        if old in moved:
            moved[new] = moved.pop(old)
        elif "EXISTS" not in step.said.text.upper():
            yield f"{old} is renamed, which is not there"
    # MariaDB 11.8.9 logs RENAME TABLE of a temporary table also where it does not log the table, as in MIXED.
    hidden = step.session.form != "STATEMENT" and any(old in step.hidden for old, _ in told.renames)
    unlogged = {name for pair in told.renames for name in pair} if hidden else set()
    for name in {*step.before, *step.after, *told.kinds}:
        if name in ("", *(f"{s}.*" for s in (*SCHEMAS, LATER))):
            continue
        if name not in POOL:
            yield f"{name} is no table"
            continue
        if name in unlogged:
            continue
        if "LIKE" in step.said.text.upper() and step.after.get(name, ("",))[0] == "SEQUENCE":
            # Of MariaDB: what is made like a sequence is one, and no text tells.
            continue
        yield from of_one(name, step, told, moved)


def of_one(name: str, step: Step, told: Told, moved: dict[str, str]) -> Iterator[str]:
    before, after = step.before.get(name), step.after.get(name)
    kinds = set[Kind]() if name in told.no_tables else set(told.kinds.get(name, ()))
    replaced = name in told.replaced
    gone = not replaced and "drop" in kinds | told.kinds.get(f"{schema_of(name)}.*", set())
    source = moved.get(name)
    was, is_ = is_table(before), is_table(after)
    explained = gone or "partition" in kinds or (source != name and "ddl" in kinds)
    wrong = {
        "is gone": was and not is_ and not explained,
        "is new": is_ and not was and "ddl" not in kinds,
        "is there": is_ and gone,
        "is not there": not was and "truncate" in kinds,
        "is another": was
        and is_
        and source != name
        and not replaced
        and after != step.before.get(source or ""),
        "is hidden by a temporary table": name in step.hidden and before == after and bool(kinds & ROWS),
    }
    yield from (f"{name} {what}, and the log tells {kinds}" for what, seen in wrong.items() if seen)
    if was and is_ and source == name:
        yield from of_rows(name, step, kinds, replaced=replaced)


def of_rows(name: str, step: Step, kinds: set[Kind], *, replaced: bool) -> Iterator[str]:
    """Of a table that was there and is."""
    before, after = step.before[name], step.after[name]
    certain = kinds & {*step.said.certain, "truncate"} if "PARTITION" not in step.said.text.upper() else set()
    wrong = {
        "is as it was": before == after and before[1] > 0 and bool(certain),
        "was emptied": before != after and not after[1] and not kinds & EMPTIED and not replaced,
        "was changed": before != after and not kinds - {"ddl"},
    }
    yield from (f"{name} {what}, and the log tells {kinds}" for what, seen in wrong.items() if seen)


ROWS: frozenset[Kind] = frozenset({"insert", "update", "delete", "truncate"})
EMPTIED: frozenset[Kind] = frozenset({"truncate", "partition", "delete"})
BY_NAME = {str(name): name for name in pool()}
POOL = set(BY_NAME)


@pytest.fixture(scope="module")
def judged(variant: Variant) -> Iterator[Judge]:
    place = Path(tempfile.mkdtemp(prefix="zb-said-"))
    place.chmod(0o755)
    mariadb = variant.flavour.startswith("mariadb")
    writer = Writer(SEED, mariadb=mariadb)
    settings = Settings(
        flavour=variant.flavour,
        datadir=place / "data",
        run_dir=place,
        gtid=mariadb,
        options=("--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--event-scheduler=OFF"),
    )
    with DatabaseServer(settings) as server:
        for schema in SCHEMAS:
            server.sql(f"CREATE DATABASE `{schema}` CHARACTER SET utf8mb4")
        judge = Judge(server, mariadb)
        judge.ask("FLUSH BINARY LOGS")
        judge.run(writer, COUNT)
        datadir = server.settings.datadir
        files = log_files(datadir / "binlog.index", datadir, "binlog")[1:]
        found = list(search(files, LogFilter()))
        entries = [each for each in found if isinstance(each, LogEntry)]
        assert not [each for each in found if not isinstance(each, LogEntry) and each.problem]
        judge.files = files
        judge.assign(entries)
        yield judge
    shutil.rmtree(place)


def test_each_statement_did_what_the_log_is_said_to_tell(judged: Judge) -> None:
    wrong = []
    done: Counter[str] = Counter()
    for number, step in enumerate(judged.steps):
        done["failed" if step.failed else "logged" if step.entries else "not logged"] += 1
        for each in differences(step):
            said = "; ".join(entry.logged for entry in step.entries)
            more = f"{step.session} hidden {[*step.hidden]} {step.entries[0].transaction.start}"
            wrong.append(
                f"{number}: {each}\n  {step.said.text!r}\n  logged: {said!r}\n  {step.failed} {more}"
            )
    print(f"{len(judged.steps)} statements: {dict(done)}; {len(judged.entries)} transactions")
    print(f"statements that ended the server: {judged.crashes}")
    assert not wrong, "\n".join([f"{len(wrong)} differences", *wrong[:20]])


def test_the_newest_files_first_tell_the_same(judged: Judge) -> None:
    found = search(judged.files, LogFilter(backwards=True))
    backwards = {e.transaction.start: e for e in found if isinstance(e, LogEntry)}
    assert backwards == {e.transaction.start: e for e in judged.entries}


def true_drops(judged: Judge) -> dict[str, int]:
    """By table, the step at which it was dropped for the last time while it was there."""
    found = {}
    for number, step in enumerate(judged.steps):
        told = Told(step)
        for name, held in step.before.items():
            taken = name in told.replaced or not is_table(step.after.get(name))
            if is_table(held) and taken and "drop" in told.of(name):
                found[name] = number
    return found


def history(judged: Judge, name: str) -> Iterator[str]:
    for step in judged.steps:
        for each in step.entries:
            if any(touched.name == name and "ddl" in touched.kinds for touched in each.tables):
                was, is_ = step.before.get(name), step.after.get(name)
                yield f"{each.transaction.start} {was} -> {is_}: {each.logged[:120]!r} {step.failed[:40]}"


def test_the_last_drop_of_each_table_is_found(judged: Judge) -> None:
    """But for names that views or sequences had at some time: no text tells which of them is dropped."""
    drops, wrong = true_drops(judged), []
    others = {name for step in judged.steps for name, held in step.before.items() if not is_table(held)}
    # MariaDB logs RENAME TABLE of what is not there (IF EXISTS), and of temporary tables that are not logged.
    others |= {n for s in judged.steps for old, n in Told(s).renames if old not in s.before or s.hidden}
    for name in sorted(POOL - others):
        seen = LastDrop(name, "drop")
        for path in reversed(judged.files):
            for each in search([path], LogFilter(tables=(name,), kinds=DEFINED)):
                if isinstance(each, LogEntry):
                    seen.saw(each)
            if seen.ended_file():
                break
        # Of a table that was never there the log does not tell whether it was, before it begins.
        right = judged.steps[drops[name]].entries if name in drops else [seen.found]
        if seen.found not in right:
            wrong.append("\n  ".join((name, *history(judged, name))))
    print(f"{len(POOL)} names, of which {len(drops)} were dropped")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(POOL)}", *wrong[:10]])
