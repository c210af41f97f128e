"""Collections back into production: what ports.Copier asks of MongoDB."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from zbackup.engines.mongodb.production import collections
from zbackup.engines.mongodb.production.account import (
    MongoAccount,
    clone_options,
    require_primary,
    require_privileges,
)
from zbackup.engines.mongodb.production.writer import Writer
from zbackup.engines.mongodb.server.connection import Connection, LoginRefused, PrivilegeMissing, connect
from zbackup.features.copyback.copying import CopiedTable, CopyPlan, CopyStep, CopyWish, Difference
from zbackup.features.copyback.mongodb.compare import condition, difference, put_back
from zbackup.features.copyback.mongodb.fill import complete, fill, filled, give_name, prove
from zbackup.features.copyback.mongodb.plan_collection import (
    WORK,
    CollectionJob,
    Sides,
    action_of,
    in_order,
    plan_collection,
    work_name,
)
from zbackup.model.errors import NotFound, UsageError
from zbackup.model.progress import Progress
from zbackup.model.recovery import Entrance
from zbackup.model.table_name import TableName

Note = Mapping[str, Any]


def notes_name(wish: CopyWish, schema: str) -> TableName:
    """Name the collection that a copy keeps its notes in; the same for the same copy alone."""
    parts = (wish.clone, str(wish.into), wish.where, *map(str, wish.tables))
    return TableName(schema, WORK + "done_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16])


def read_finished(production: Connection, wish: CopyWish) -> dict[TableName, Note]:
    """Read what earlier runs of this copy finished, or were about to."""
    found: dict[TableName, Note] = {}
    for schema in {} if wish.rows else wish.schemas:
        notes = notes_name(wish, schema)
        for row in production.find((schema, notes.table), {}, most=0):
            found[TableName(*row["source"])] = row
    return found


def note_finished(writer: Writer, wish: CopyWish, job: CollectionJob) -> None:
    """Note it just before it gets its name."""
    into = job.step.into
    made = None if job.step.action == "view" else collections.read_collection(writer.production, filled(job))
    source = job.step.source
    note = {
        "_id": str(source),
        "source": [source.schema, source.table],
        "into": [into.schema, into.table],
        "uuid": made and made.uuid,
    }
    notes = notes_name(wish, into.schema)
    updates = [{"q": {"_id": note["_id"]}, "u": note, "upsert": True}]
    writer.run(notes, {"update": notes.table, "updates": updates})


def forget_finished(production: Connection, wish: CopyWish) -> None:
    """The copy is through: the next of the same wish is another."""
    for schema in wish.schemas:
        notes = notes_name(wish, schema)
        if collections.read_collection(production, notes):
            production.run(schema, {"drop": notes.table})


def finished_job(sides: Sides, wish: CopyWish, name: TableName, note: Note | None) -> CollectionJob | None:
    """A job with nothing left to do; None unless production has what an earlier run made."""
    found = collections.read_collection(sides.clone, name) if note else None
    if not note or not found:
        return None
    into = TableName(*note["into"])
    there = collections.read_collection(sides.production, into)
    if there is None or there.type != found.type:
        return None
    if (there.options != found.options) if found.type == "view" else (there.uuid != note["uuid"]):
        return None
    step = CopyStep(
        source=name,
        into=into,
        action=action_of(found, into),
        statements=(),
        resumed=True,
        notes=("an earlier run of this copy finished it",),
    )
    return CollectionJob(step=step, collection=found, work=work_name(wish, name, into), finished=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MongoCopier:
    account: MongoAccount

    @property
    def configured(self) -> bool:
        return self.account.rules is not None

    def require_account(self, schemas: Sequence[str] = ()) -> str:
        with connect(self.account.login) as connection:
            return f"{self.account.login.user} may copy into {require_privileges(connection, schemas)}"

    def admits(self, entrance: Entrance, wish: CopyWish) -> Entrance | None:
        account = self.account.login
        own = replace(entrance, user=account.user, password=account.password() if account.password else "")
        for login in dict.fromkeys((entrance, entrance if entrance.user else own)):
            try:
                with connect(clone_options(login)) as connection:
                    for name in wish.tables:
                        collections.in_database(connection, name.schema)
                        connection.find((name.schema, name.table), {})
                return login
            except (LoginRefused, PrivilegeMissing):
                continue
        return None

    @contextmanager
    def session(self, entrance: Entrance, wish: CopyWish, progress: Progress) -> Iterator["MongoCopy"]:
        with ExitStack() as open_ones:
            production = open_ones.enter_context(connect(self.account.login))
            clone = open_ones.enter_context(connect(clone_options(entrance)))
            require_primary(production)
            writer = self.account.writer(production, progress, keep=clone.keep_cursors)
            yield MongoCopy(sides=Sides(clone, production), writer=writer, wish=wish, progress=progress)


@dataclass(slots=True, kw_only=True)
class MongoCopy:
    sides: Sides
    writer: Writer
    wish: CopyWish
    progress: Progress
    _jobs: dict[TableName, CollectionJob] = field(default_factory=dict)

    def plan(self) -> CopyPlan:
        try:
            condition(self.wish.where)
        except (ValueError, TypeError) as wrong:
            raise UsageError(f"--where is no MongoDB filter in JSON: {wrong}") from wrong
        names: list[TableName] = []
        for wanted in self.wish.tables:
            found = collections.in_database(self.sides.clone, wanted.schema) if wanted.is_schema else [wanted]
            if not found:
                raise NotFound(f"the clone has no database {wanted.schema}, or nothing is in it")
            names += found
        done = read_finished(self.sides.production, self.wish)
        jobs = [
            finished_job(self.sides, self.wish, name, done.get(name))
            or plan_collection(self.sides, self.wish, name)
            for name in dict.fromkeys(names)
        ]
        self._jobs = {job.step.source: job for job in in_order(jobs)}
        return CopyPlan(steps=tuple(job.step for job in self._jobs.values()))

    def compare(self, step: CopyStep) -> Difference:
        self.progress.phase("comparing", str(step.into))
        return difference(self.sides, self._jobs[step.source], self.wish, self.writer)

    def act(self, plan: CopyPlan) -> tuple[CopiedTable, ...]:
        copied = tuple(self._step(self._jobs[step.source]) for step in plan.steps)
        if not self.wish.rows:
            forget_finished(self.sides.production, self.wish)
        return copied

    def _step(self, job: CollectionJob) -> CopiedTable:
        step = job.step
        self.progress.phase("copying", str(step.source))
        if job.finished:
            if job.collection.type == "timeseries":
                give_name(self.sides, job)
            return replace(_copied(step), verified=step.action != "view")
        if step.action == "view":
            note_finished(self.writer, self.wish, job)
            options = dict(job.collection.options)
            self.writer.run(step.into, {"create": step.into.table, **options})
            return _copied(step)
        if step.action == "rows":
            tally = put_back(self.sides, self.writer, job, self.wish)
            return replace(
                _copied(step),
                inserted=tally.inserted,
                updated=tally.updated,
                refused=tally.refused,
                conflicts=tuple(tally.conflicts),
            )
        where = condition(self.wish.where)
        written = fill(self.sides, self.writer, job, where)
        self.progress.phase("proving", str(filled(job)))
        prove(self.sides, job, where, self.progress)
        self.progress.phase("building indexes", str(step.into))
        complete(self.writer, job)
        note_finished(self.writer, self.wish, job)
        give_name(self.sides, job)
        return replace(_copied(step), inserted=written, verified=True)


def _copied(step: CopyStep) -> CopiedTable:
    return CopiedTable(source=step.source, into=step.into, action=step.action, notes=step.notes)
