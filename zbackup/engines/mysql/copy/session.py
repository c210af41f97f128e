"""Tables back into production: what engines.base.Copier asks of MySQL, Percona Server and MariaDB."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from zbackup.engines.mysql.copy import tables
from zbackup.engines.mysql.copy.account import grants, require_privileges
from zbackup.engines.mysql.copy.brake import Brake, BrakeOptions
from zbackup.engines.mysql.copy.compare import difference, put_back
from zbackup.engines.mysql.copy.fill import Ends, fill, prove
from zbackup.engines.mysql.copy.finish import add_extras, exchange
from zbackup.engines.mysql.copy.plan_table import Sides, TableJob, plan_table, together
from zbackup.engines.mysql.copy.statements import SETTINGS
from zbackup.engines.mysql.copy.tables import quoted, quoted_name
from zbackup.engines.mysql.options import ConnectOptions
from zbackup.engines.mysql.server.connection import (
    Connection,
    LoginRefused,
    PrivilegeMissing,
    connect,
    connect_rows,
)
from zbackup.model.copying import CopiedTable, CopyPlan, CopyStep, CopyWish, Difference, Entrance, TableName
from zbackup.model.errors import NotFound, Refused, UsageError, VerificationFailed
from zbackup.model.progress import Progress

# A copy that waits must not lose its sessions.
PATIENCE = "SET SESSION wait_timeout = 86400, net_write_timeout = 86400, net_read_timeout = 86400"
ONE_VIEW = b"START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlCopier:
    """See engines.base.Copier. `account` None: none is configured."""

    instance: str
    account: ConnectOptions | None
    brake: BrakeOptions

    @property
    def configured(self) -> bool:
        """See engines.base.Copier."""
        return self.account is not None

    def require_account(self, schemas: Sequence[str] = ()) -> str:
        """See engines.base.Copier."""
        with connect(self._account) as connection:
            return f"{self._account.user} may copy into {require_privileges(connection, schemas)}"

    def admits(self, entrance: Entrance, wish: CopyWish) -> Entrance | None:
        """See engines.base.Copier."""
        login = replace(entrance, user=entrance.user or self._account.user)
        if not entrance.user:
            login = replace(login, password=self._account.password())
        try:
            with connect(_options(login)) as connection:
                for name in wish.tables:
                    if not name.is_schema:
                        connection.rows(f"SELECT 1 FROM {quoted_name(name)} LIMIT 0")
                    elif not tables.in_schema(connection, name.schema):
                        return None
        except (LoginRefused, PrivilegeMissing):
            return None
        return login

    @contextmanager
    def session(self, entrance: Entrance, wish: CopyWish, progress: Progress) -> Iterator["MysqlCopy"]:
        """See engines.base.Copier."""
        with ExitStack() as open_ones:
            production = open_ones.enter_context(connect(self._account))
            clone = open_ones.enter_context(connect(_options(entrance)))
            rows_of_clone = open_ones.enter_context(connect_rows(_options(entrance)))
            rows_of_production = open_ones.enter_context(connect_rows(self._account))
            for connection in (production, clone, rows_of_clone, rows_of_production):
                connection.execute(PATIENCE)
                connection.execute(SETTINGS)
            _require_other_server(clone, production)
            ends = Ends(
                clone=rows_of_clone,
                production=rows_of_production,
                brake=Brake(production, self.brake, progress),
                progress=progress,
            )
            try:
                yield MysqlCopy(sides=Sides(clone, production), ends=ends, wish=wish, progress=progress)
            except PrivilegeMissing as missing:
                if "at least one of" in str(missing):  # what only a definer's account needs, and is named
                    raise
                account = str(production.one("SELECT CURRENT_USER() AS account")["account"])
                wanted = " ".join(grants(account, schema) for schema in wish.schemas)
                raise PrivilegeMissing(
                    f"{str(missing).partition(': GRANT')[0]}; copies need: {wanted}"
                ) from None

    @property
    def _account(self) -> ConnectOptions:
        if self.account is None:
            raise Refused(
                "copying into production needs an account of its own there: set user and password in "
                f"[instance.{self.instance}.copy_back], and "
                "CREATE USER zbackup_copy@localhost IDENTIFIED BY '...'; "
                f"{grants('zbackup_copy@localhost', 'SCHEMA')}"
            )
        return self.account


@dataclass(slots=True, kw_only=True)
class MysqlCopy:
    """See engines.base.CopySession."""

    sides: Sides
    ends: Ends
    wish: CopyWish
    progress: Progress
    _jobs: dict[TableName, TableJob] = field(default_factory=dict)

    def plan(self) -> CopyPlan:
        """See engines.base.CopySession."""
        names, notes = self._names()
        wish = replace(self.wish, tables=tuple(names))
        if wish.into and not wish.into.is_schema and len(names) > 1:
            raise UsageError(f"--into {wish.into} is one table, and {len(names)} are copied: name a schema")
        self._jobs = together({name: plan_table(self.sides, wish, name) for name in names})
        ordered = sorted(self._jobs.values(), key=lambda job: job.step.action == "view")
        return CopyPlan(steps=(*self._schemas(ordered), *(job.step for job in ordered)), notes=tuple(notes))

    def compare(self, step: CopyStep) -> Difference:
        """See engines.base.CopySession."""
        self.progress.phase("comparing", str(step.into))
        self._one_view()
        return difference(self.ends, self._jobs[step.source], self.wish)

    def act(self, plan: CopyPlan) -> tuple[CopiedTable, ...]:
        """See engines.base.CopySession.

        New tables are all filled before the first gets its name, and get their names in one statement: so
        the same command finds what an earlier run began until everything is there.
        """
        done: list[CopiedTable] = []
        filled: list[tuple[TableJob, int]] = []
        for step in plan.steps:
            if step.source.is_schema:
                self.sides.production.execute(step.statements[0].rstrip(";"))
            elif step.action == "rows":
                done.append(self._rows(self._jobs[step.source]))
            elif step.action != "view":
                job = self._jobs[step.source]
                filled.append((job, self._filled(job)))
        self.progress.phase("naming", ", ".join(str(job.step.into) for job, _ in filled))
        for job, _ in filled:
            add_extras(self.sides, job)
        exchange(self.sides, [job for job, _ in filled], self.progress)
        done += [_copied(job.step, inserted=written, verified=True) for job, written in filled]
        for step in plan.steps:
            if step.action == "view":
                self._use(step.into.schema)
                self.sides.production.execute(self._jobs[step.source].create)
                done.append(_copied(step))
        return tuple(done)

    def _filled(self, job: TableJob) -> int:
        """Fill the working table, and prove it; how many rows this run wrote."""
        step = job.step
        self.progress.phase("copying", str(step.source))
        self._use(step.into.schema)
        if not step.resumed:
            self.sides.production.execute(job.create)
        self._one_view()
        written = fill(self.ends, job, self.wish.where)
        self.progress.phase("proving", str(step.source))
        try:
            prove(self.ends, job, self.wish.where)
        except VerificationFailed:
            # Nobody can go on with it: the next run begins anew.
            self.sides.production.execute(f"DROP TABLE {quoted_name(job.work)}")
            raise
        return written

    def _rows(self, job: TableJob) -> CopiedTable:
        self.progress.phase("putting rows back", str(job.step.into))
        self._use(job.step.into.schema)
        self._one_view()
        tally = put_back(self.ends, job, self.wish)
        return replace(
            _copied(job.step, inserted=tally.inserted),
            updated=tally.updated,
            refused=tally.refused,
            conflicts=tuple(tally.conflicts),
        )

    def _use(self, schema: str) -> None:
        """Statements of a log that holds statements are filtered by the default schema on replicas."""
        for connection in (self.sides.production, self.ends.production):
            connection.execute(f"USE {quoted(schema)}")

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
                row = self.sides.clone.one(f"SHOW CREATE DATABASE {quoted(job.step.source.schema)}")
                made = str(row["Create Database"]).replace(quoted(job.step.source.schema), quoted(schema), 1)
                steps[schema] = CopyStep(
                    source=TableName(job.step.source.schema, "*"),
                    into=TableName(schema, "*"),
                    action="new",
                    statements=(made + ";",),
                )
        return list(steps.values())


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


def _options(entrance: Entrance) -> ConnectOptions:
    return ConnectOptions(socket=entrance.socket, user=entrance.user, password=lambda: entrance.password)


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
