"""Tables back into production: what ports.Copier asks of MySQL, Percona Server and MariaDB."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from zbackup.engines.mysql.production import tables
from zbackup.engines.mysql.production.account import (
    ProductionAccount,
    clone_options,
    grants,
    require_privileges,
    sees_all,
)
from zbackup.engines.mysql.production.statements import SETTINGS
from zbackup.engines.mysql.production.tables import ServerTable, quoted_name
from zbackup.engines.mysql.production.throttle import PATIENCE
from zbackup.engines.mysql.server.connection import (
    Connection,
    LoginRefused,
    PrivilegeMissing,
    StatementFailed,
    connect,
    connect_rows,
)
from zbackup.engines.mysql.sql.quoting import identifier
from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyStep, CopyWish, Difference
from zbackup.features.copyback.mysql import encryption, load_data_lines
from zbackup.features.copyback.mysql.compare import CopyTally, difference, put_back
from zbackup.features.copyback.mysql.copy_sessions import Ends, sessions, when_allowed
from zbackup.features.copyback.mysql.creation import create
from zbackup.features.copyback.mysql.definition import schema_named
from zbackup.features.copyback.mysql.fill import fill, prove
from zbackup.features.copyback.mysql.finish import add_extras, add_keys, exchange, release, release_statements
from zbackup.features.copyback.mysql.job import TableJob, in_turn, parents_first, shortened
from zbackup.features.copyback.mysql.load_lacking import load_lacking
from zbackup.features.copyback.mysql.load_rows import Filled
from zbackup.features.copyback.mysql.marker import find_marker, marker_named, remove_marker, set_marker
from zbackup.features.copyback.mysql.missing_keys import MOST_REMEMBERED, LackingNumbers, lacking
from zbackup.features.copyback.mysql.plan_table import plan_table, together
from zbackup.features.copyback.mysql.same_definition import require_shape, require_whole
from zbackup.features.copyback.mysql.sides import Sides
from zbackup.model.errors import NotFound, Refused, Taken, UsageError, VerificationFailed
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName

LACKS_SOMETHING = (1049, 1054, 1146, 1305, 1356)
"""A schema, column, table, function or another view that it reads is not there."""


def make_views(sides: Sides, jobs: Sequence[TableJob]) -> list[CopiedTable]:
    """Make them in whatever order they need each other, and say which production did not take.

    Raise PrivilegeMissing when the account may not make some, after all others.
    """
    done: list[CopiedTable] = []
    left = list(jobs)
    while left:
        failures: list[tuple[TableJob, StatementFailed | PrivilegeMissing]] = []
        for job in left:
            try:
                _make(sides, job)
                done.append(_copied_view(job.step))
            except (StatementFailed, PrivilegeMissing) as failure:
                if isinstance(failure, StatementFailed) and failure.code not in LACKS_SOMETHING:
                    raise
                failures.append((job, failure))
        if len(failures) == len(left):
            if denied := [why for _, why in failures if isinstance(why, PrivilegeMissing)]:
                raise denied[0]
            done += [_copied_view(job.step, f"the view {job.step.into}: {why}") for job, why in failures]
            break
        left = [job for job, _ in failures]
    return done


def _make(sides: Sides, job: TableJob) -> None:
    if job.view:
        sides.production_rows.execute(f"USE {identifier(job.step.into.schema)}")
        create(sides.production_rows, job.view)


def _copied_view(step: CopyStep, *conflicts: str) -> CopiedTable:
    return CopiedTable(
        source=step.source,
        into=step.into,
        action="view",
        refused=len(conflicts),
        conflicts=conflicts,
        notes=step.notes,
    )


def plan_rest(sides: Sides, wish: CopyWish, name: TableName, moment: str) -> TableJob | None:
    """Plan what is left to do for a table or view when an earlier run, of that moment, has named the tables.

    None for a view that is there. Raise NotFound, Refused or Taken.
    """
    table = tables.read_table(sides.clone, name)
    if table is None:
        raise NotFound(f"the clone has no table {name}")
    into = name
    if wish.into is not None:
        into = TableName(wish.into.schema, name.table if wish.into.is_schema else wish.into.table)
    if table.is_view:
        return None if _is_there(sides, name, into) else _planned(sides, wish, name)
    return _named(sides, table, into, moment)


def _is_there(sides: Sides, name: TableName, into: TableName) -> bool:
    there = tables.read_table(sides.production, into)
    if there is None or not there.is_view:
        return False
    return tables.definition(sides.production, into, "VIEW") == tables.definition(sides.clone, name, "VIEW")


def _planned(sides: Sides, wish: CopyWish, name: TableName) -> TableJob | None:
    try:
        return plan_table(sides, wish, name)
    except Taken:
        return None


def _named(sides: Sides, table: ServerTable, into: TableName, moment: str) -> TableJob:
    beside = TableName(into.schema, shortened(into.table, "_restored"))
    kept = TableName(into.schema, shortened(into.table, f"_before_{moment}"))
    was = tables.read_table(sides.production, kept)
    if was is None and tables.read_table(sides.production, beside):
        into = beside
    step = CopyStep(
        source=table.name,
        into=into,
        action="replace" if was else "new",
        statements=tuple(f"{sql};" for sql in release_statements(sides.production, kept)) if was else (),
        kept=kept if was else None,
        resumed=True,
        notes=("an earlier run gave it its name",),
    )
    return TableJob(step=step, table=table, work=into, named=True)


# Without it the snapshot below is none.
ONE_VIEW_FOR_ALL = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
ONE_VIEW = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlCopier:
    account: ProductionAccount

    @property
    def configured(self) -> bool:
        return self.account.rules is not None

    def require_account(self, schemas: Sequence[str] = ()) -> str:
        with connect(self.account.login) as connection:
            where = require_privileges(connection, schemas)
            how = "LOAD DATA" if load_data_lines.loads(connection) else f"INSERT ({load_data_lines.FASTER})"
        return f"{self.account.login.user} may copy into {where}, by {how}"

    def admits(self, entrance: Entrance, wish: CopyWish) -> Entrance | None:
        login = replace(entrance, user=entrance.user or self.account.login.user)
        if not entrance.user:
            login = replace(login, password=self.account.login.password())
        try:
            with connect(clone_options(login)) as connection:
                if not sees_all(connection, {name.schema for name in wish.tables}):
                    return None
                for name in wish.tables:
                    if not name.is_schema:
                        # A view may call a routine of the clone's: it is prepared, and not run.
                        readable = f"SELECT 1 FROM {quoted_name(name)} LIMIT 0"
                        connection.execute("PREPARE zbackup_reads FROM %s", (readable,))
                    elif not tables.in_schema(connection, name.schema):
                        return None
        except (LoginRefused, PrivilegeMissing):
            return None
        return login

    @contextmanager
    def session(self, entrance: Entrance, wish: CopyWish, progress: Progress) -> Iterator["MysqlCopy"]:
        with ExitStack() as open_ones:
            loads = not (wish.changed or wish.where)
            production, loaders = sessions(open_ones, self.account.login, progress, loads=loads)
            rows_of_production = loaders[0]
            into_clone = clone_options(entrance)
            clone = open_ones.enter_context(when_allowed(lambda: connect(into_clone)))
            rows_of_clone = open_ones.enter_context(when_allowed(lambda: connect_rows(into_clone)))
            for connection in (production, clone, rows_of_clone, *loaders):
                connection.execute(PATIENCE)
                connection.execute(SETTINGS)
            for connection in (rows_of_clone, *loaders):
                connection.execute(load_data_lines.SETTING)
                if not wish.where:  # it is the user's text, and means what it says in any session
                    connection.execute(load_data_lines.AS_BYTES)
            rows_of_clone.execute(ONE_VIEW_FOR_ALL)
            watch = None
            if wish.replace:
                watch = open_ones.enter_context(connect(self.account.usual))
                watch.execute(PATIENCE)
            sides = Sides(
                clone,
                production,
                rows_of_clone,
                rows_of_production,
                watch,
                ours=frozenset({self.account.usual.user, self.account.login.user}),
                given=wish.given,
            )
            _require_other_server(clone, production)
            ends = Ends(
                clone=rows_of_clone,
                production=rows_of_production,
                loaders=loaders,
                throttle=self.account.throttle(production, progress),
                progress=progress,
            )
            try:
                yield MysqlCopy(sides=sides, ends=ends, wish=wish, progress=progress)
            except PrivilegeMissing as missing:
                if "at least one of" in str(missing):  # what only a definer's account needs, and is named
                    raise
                account = str(production.one("SELECT CURRENT_USER() AS account")["account"])
                wanted = " ".join(grants(account, schema) for schema in wish.schemas)
                raise PrivilegeMissing(
                    f"{str(missing).partition(': GRANT')[0]}; copies need: {wanted}"
                ) from None


@dataclass(slots=True, kw_only=True)
class MysqlCopy:
    sides: Sides
    ends: Ends
    wish: CopyWish
    progress: Progress
    _jobs: dict[TableName, TableJob] = field(default_factory=dict)
    _marker: TableName | None = None
    _remembered: dict[TableName, LackingNumbers] = field(default_factory=dict)
    _new_schemas: dict[str, str] = field(default_factory=dict)
    """The statements that make them."""

    def plan(self) -> CopyPlan:
        names, notes = self._names()
        wish = replace(self.wish, tables=tuple(names))
        if wish.into and not wish.into.is_schema and len(names) > 1:
            raise UsageError(f"--into {wish.into} is one table, and {len(names)} are copied: name a schema")
        earlier = None if wish.rows else find_marker(self.sides.production, self.wish, wish.schemas[0])
        if earlier:
            self._marker = earlier[0]
            rest = {name: plan_rest(self.sides, wish, name, earlier[1]) for name in names}
            self._jobs = {name: job for name, job in rest.items() if job}
        else:
            self._jobs = together({name: plan_table(self.sides, wish, name) for name in names})
        _require_own_names(list(self._jobs.values()))
        ordered = in_turn(parents_first(self._jobs))
        return CopyPlan(steps=(*self._schemas(ordered), *(job.step for job in ordered)), notes=tuple(notes))

    def compare(self, step: CopyStep) -> Difference:
        self.progress.phase("comparing", str(step.into))
        self._one_view()
        others = sum(known.size for known in self._remembered.values() if known.is_whole)
        remembered = self._remembered[step.source] = LackingNumbers(MOST_REMEMBERED - others)
        return difference(self.ends, self._jobs[step.source], self.wish, remembered)

    def act(self, plan: CopyPlan) -> tuple[CopiedTable, ...]:
        """See ports.CopySession.

        New tables are all filled before the first gets its name, and get their names in one statement: so
        the same command finds what an earlier run began until everything is there.
        """
        filled: list[tuple[TableJob, int]] = []
        for step in plan.steps:
            if step.source.is_schema:
                self.sides.production.execute(self._new_schemas[step.into.schema])
                continue
            job = self._jobs[step.source]
            if step.action not in ("rows", "view") and not job.named:
                filled.append((job, self._filled(job)))
        jobs = [self._jobs[step.source] for step in plan.steps if not step.source.is_schema]
        done = self._put_back([job for job in jobs if job.step.action == "rows"])
        self._name([job for job, _ in filled], jobs)
        done += [_copied(job.step, inserted=written, verified=True) for job, written in filled]
        done += self._rest(jobs)
        return tuple(done)

    def _name(self, filled: Sequence[TableJob], jobs: Sequence[TableJob]) -> None:
        """Give tables that are filled what they have beside rows, and their names."""
        self.progress.phase("naming", ", ".join(str(job.step.into) for job in filled))
        for job in filled:
            add_extras(self.sides, job)
        for job in filled:
            with self._removed_if_refused(job):
                require_whole(self.sides, job)
        marker = None
        if filled and any(job.step.kept or job.view for job in jobs):
            marker = set_marker(self.sides.production, self.wish, self.wish.schemas[0])
            self._marker = marker_named(marker)
        exchange(self.sides, filled, marker, self.progress)

    def _rest(self, jobs: Sequence[TableJob]) -> list[CopiedTable]:
        """Do what is left when the tables have their names: the next run does it, if this one is cut
        short."""
        named = [job for job in jobs if job.named]
        for job in named:
            if job.step.kept:
                release(self.sides.production, job.step.into, job.step.kept)
        done = [_copied(job.step) for job in named]
        done += make_views(self.sides, [job for job in jobs if job.view])
        if self._marker and any(each.refused for each in done):
            self.progress.note(
                f"the same command makes the views that are missing; to give up instead, drop {self._marker}"
            )
        elif self._marker:
            remove_marker(self.sides.production, self._marker)
        return done

    def _filled(self, job: TableJob) -> int:
        """Fill the working table, and prove it; how many rows this run wrote."""
        step = job.step
        self.progress.phase("copying", str(step.source))
        self._use(step.into.schema)
        if not step.resumed:
            encryption.make(self.sides.production, job.table, job.create)
        with self._removed_if_refused(job):
            require_shape(self.sides, job)
        self._one_view()
        # Triggers are made when every row is there and proven: any further one would run them.
        there = tables.read_table(self.sides.production, job.work) if step.resumed else None
        all_there = bool(there and there.triggers)
        filled = Filled(0, [(None, None)]) if all_there else fill(self.ends, job, self.wish.where)
        add_keys(self.sides.production, job, self.ends.throttle)
        self.progress.phase("proving", str(step.source))
        try:
            prove(self.ends, job, self.wish.where, filled.unproven)
        except VerificationFailed:
            # Nobody can go on with it: the next run begins anew.
            self.sides.production.execute(f"DROP TABLE {quoted_name(job.work)}")
            raise
        return filled.written

    @contextmanager
    def _removed_if_refused(self, job: TableJob) -> Iterator[None]:
        """Drop a working table of this run that is not what it was meant to be; name an earlier run's."""
        try:
            yield
        except Refused as refused:
            drop = f"DROP TABLE {quoted_name(job.work)}"
            if job.step.resumed:
                raise Refused(f"{refused}; an earlier run has made it, which {drop} removes") from None
            self.sides.production.execute(drop)
            raise

    def _put_back(self, jobs: Sequence[TableJob]) -> list[CopiedTable]:
        """Rows into all these tables, again while that brings rows whose parents were not there before."""
        found: dict[TableName, CopyTally] = {}
        left = list(jobs)
        while left:
            before = sum(tally.inserted for tally in found.values())
            for job in left:
                tally = self._rows(job)
                if earlier := found.get(job.step.source):
                    tally.inserted += earlier.inserted
                    tally.updated += earlier.updated
                found[job.step.source] = tally
            left = [job for job in left if found[job.step.source].orphans]
            if sum(tally.inserted for tally in found.values()) == before:
                break
        return [_tallied(job.step, found[job.step.source]) for job in jobs]

    def _rows(self, job: TableJob) -> CopyTally:
        self.progress.phase("putting rows back", str(job.step.into))
        self._use(job.step.into.schema)
        self._one_view()
        # What was shown is put back; where that is not known, or tried again, it is looked for.
        known = self._remembered.pop(job.step.source, None)
        shown = known.keys() if known and known.is_whole else None
        if not job.as_lines:
            return put_back(self.ends, job, self.wish, shown)
        return load_lacking(self.ends, job, shown or lacking(self.ends, job, self.wish.where))

    def _use(self, schema: str) -> None:
        """Statements of a log that holds statements are filtered by the default schema on replicas."""
        for connection in (self.sides.production, *self.ends.loaders):
            connection.execute(f"USE {identifier(schema)}")

    def _one_view(self) -> None:
        self.ends.clone.write(ONE_VIEW)

    def _names(self) -> tuple[list[TableName], list[str]]:
        names: list[TableName] = []
        notes = []
        for wanted in self.wish.tables:
            if not wanted.is_schema:
                names.append(wanted)
                continue
            found = tables.in_schema(self.sides.clone, wanted.schema)
            if not found:
                raise NotFound(f"the clone has no schema {wanted.schema}, or nothing is in it")
            if self.wish.rows:
                views = tables.in_schema(self.sides.clone, wanted.schema, "VIEW")
                found = [name for name in found if name not in views]
                notes += [f"{len(views)} views of {wanted.schema} have no rows of their own"] if views else []
            names += found
            notes += _left_out(self.sides, wanted.schema)
        return list(dict.fromkeys(names)), notes

    def _schemas(self, jobs: list[TableJob]) -> list[CopyStep]:
        """Schemas that production lacks."""
        steps = {}
        for job in jobs:
            schema = job.step.into.schema
            there = self.sides.production.one(
                "SELECT 1 AS one FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = %s", (schema,)
            )
            if not there and schema not in steps:
                row = self.sides.clone.one(f"SHOW CREATE DATABASE {identifier(job.step.source.schema)}")
                made = self._new_schemas[schema] = schema_named(str(row["Create Database"]), schema)
                steps[schema] = CopyStep(
                    source=TableName(job.step.source.schema, "*"),
                    into=TableName(schema, "*"),
                    action="new",
                    statements=(made + ";",),
                )
        return list(steps.values())


def _require_own_names(jobs: Sequence[TableJob]) -> None:
    """Raise UsageError when two of them would get one name."""
    given: dict[TableName, TableName] = {}
    for job in jobs:
        step = job.step
        if step.into in given:
            raise UsageError(
                f"{given[step.into]} and {step.source} would both be {step.into}: copy one after the other, "
                "each with an --into of its own"
            )
        given[step.into] = step.source


def _tallied(step: CopyStep, tally: CopyTally) -> CopiedTable:
    return replace(
        _copied(step, inserted=tally.inserted),
        updated=tally.updated,
        refused=tally.refused,
        conflicts=tuple(tally.conflicts),
    )


def _copied(step: CopyStep, *, inserted: int = 0, verified: bool = False) -> CopiedTable:
    return CopiedTable(
        source=step.source,
        into=step.into,
        action=step.action,
        inserted=inserted,
        kept=step.kept,
        verified=verified,
        notes=step.notes,
    )


def _require_other_server(clone: Connection, production: Connection) -> None:
    """Raise Refused when both are one, or production takes no writes."""
    where = [
        c.one("SELECT @@datadir AS d, @@socket AS s, @@port AS p, @@hostname AS h")
        for c in (clone, production)
    ]
    if where[0]["s"] == where[1]["s"] and where[0]["h"] == where[1]["h"]:
        raise Refused("the instance's own connection leads to the clone, and not to production")
    if int(production.one("SELECT @@global.read_only AS r")["r"]):
        raise Refused("the instance's server is read-only (a replica?): copy into the one that takes writes")


def _left_out(sides: Sides, schema: str) -> list[str]:
    counts = sides.clone.one(
        "SELECT (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = %s) AS r, "
        "(SELECT COUNT(*) FROM information_schema.EVENTS WHERE EVENT_SCHEMA = %s) AS e",
        (schema, schema),
    )
    left = int(counts["r"]) + int(counts["e"])
    return [f"{left} routines and events of {schema} are not copied"] if left else []
