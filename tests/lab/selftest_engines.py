"""The promises of every engine to the jobs: engines.base.Engine and DatabaseLock on real servers.

What only one of them has is in selftest_lock and selftest_mongo_lock. Needs no ZFS; run with pytest by name.
"""

import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pymysql
import pytest
from pymongo.errors import PyMongoError

from tests.lab import lock_holder, mongo_lock_holder, servers
from tests.lab.mongo_fixture import MongoSettings, start_single
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.repeats import some
from zbackup.config.lock import Lock
from zbackup.engines.base import Engine
from zbackup.engines.mongodb.engine import MongoEngine
from zbackup.engines.mongodb.options import ConnectOptions as MongoConnect
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.options import ConnectOptions as MysqlConnect
from zbackup.model.errors import DatabaseError, LockNotTaken, Refused
from zbackup.model.record import LockKind, Record, from_properties, to_properties

HOLD_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A running server of a kind: its locks, those of others, and how to write to it and to back it up."""

    flavor: str
    data: Path
    stopping: tuple[LockKind, ...]
    gentle: tuple[LockKind, ...]
    foreign: LockKind
    write: Callable[[], None]
    engine: Callable[[LockKind, float], Engine]
    stranger: Engine

    @property
    def kinds(self) -> tuple[LockKind, ...]:
        return (*self.stopping, *self.gentle)


FLAVOURS = ["mysql-9.7", "mariadb-11.8", "mongodb-6.0", "mongodb-6.0.27"]


@pytest.fixture(scope="module", params=some(FLAVOURS, *FLAVOURS[:3]))
def subject(request: pytest.FixtureRequest) -> Iterator[Subject]:
    servers.ensure([request.param])
    home = Path(tempfile.mkdtemp(prefix="ze", dir="/tmp"))
    home.chmod(0o755)
    try:
        yield from (_mongod if request.param.startswith("mongodb") else _sql)(request.param, home)
    finally:
        shutil.rmtree(home)


def _sql(flavour: str, home: Path) -> Iterator[Subject]:
    with DatabaseServer(Settings(flavour=flavour, datadir=home / "data", run_dir=home / "run")) as server:
        server.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB")
        settings = server.settings
        mysql = settings.kind == "mysql"

        def engine(kind: LockKind, hold_s: float) -> Engine:
            lock = Lock.model_construct(kind=kind, wait=5, hold=hold_s)
            return lock_holder.engine(settings.socket, settings.run_dir, lock)

        def write() -> None:
            server.sql("INSERT INTO shop.work VALUES (NULL)")

        stranger = MysqlEngine(
            instance="lab",
            connect=MysqlConnect(socket=str(settings.socket), user="zbackup", password=lambda: "hunter2"),
            lock=Lock(),
            run_dir=settings.run_dir,
        )
        yield Subject(
            flavor=settings.kind,
            data=settings.datadir,
            stopping=("ftwrl",) if mysql else ("ftwrl", "backup-stage"),
            gentle=("backup-lock", "none") if mysql else ("none",),
            foreign="fsync",
            write=write,
            engine=engine,
            stranger=stranger,
        )


def _mongod(flavour: str, home: Path) -> Iterator[Subject]:
    settings = MongoSettings(flavour=flavour, datadir=home / "data", run_dir=home / "run", replica_set="rs0")
    with start_single(settings) as server, server.client() as client:

        def engine(kind: LockKind, hold_s: float) -> Engine:
            lock = Lock.model_construct(kind=kind, wait=5, hold=hold_s)
            return mongo_lock_holder.engine(settings.socket, settings.run_dir, lock)

        def write() -> None:
            client.shop.work.insert_one({})

        stranger = MongoEngine(
            instance="lab",
            connect=MongoConnect(socket=str(settings.socket), user="zbackup", password=lambda: "hunter2"),
            lock=Lock(),
            run_dir=settings.run_dir,
        )
        yield Subject(
            flavor="mongodb",
            data=settings.datadir,
            stopping=("fsync",),
            gentle=("none",),
            foreign="ftwrl",
            write=write,
            engine=engine,
            stranger=stranger,
        )


class Writer:
    """Writes on and on, and counts."""

    def __init__(self, subject: Subject) -> None:
        self._write, self._end, self.count = subject.write, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with suppress(PyMongoError, pymysql.MySQLError):
            while not self._end.is_set():
                self._write()
                self.count += 1

    def __enter__(self) -> "Writer":
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(30)
        assert not self._thread.is_alive(), "the writer hangs"

    def goes_on(self, within: float = 20) -> None:
        deadline, had = time.monotonic() + within, self.count
        while self.count < had + 3:
            assert time.monotonic() < deadline, f"no writes for {within} s"
            time.sleep(0.02)

    def stands_still(self) -> bool:
        time.sleep(0.5)
        had = self.count
        time.sleep(0.5)
        return self.count == had


def test_a_look_says_all_that_a_record_needs(subject: Subject) -> None:
    zbackup = subject.engine("none", HOLD_S)
    facts = zbackup.inspect()
    assert (facts.flavor, facts.role, facts.blockers) == (subject.flavor, "primary", ())
    assert facts.data_paths[0].path == str(subject.data.resolve())
    assert facts.position and facts.server_uuid and facts.version[0].isdigit()
    assert all(isinstance(value, str) for value in facts.server.values())
    assert "zb-secret" not in json.dumps(facts.server)
    record = Record(
        backup="b", instance="i", engine=facts.flavor, members=(("t/a", "/a"),), taken=datetime.now(UTC),
        lock="none", server_uuid=facts.server_uuid, server_version=facts.version, role=facts.role,
        position=facts.position, gtid=facts.gtid, server=dict(facts.server),
    )  # fmt: skip
    assert from_properties(to_properties(record)) == record


def test_every_lock_is_held_confirmed_and_gone(subject: Subject) -> None:
    for kind in subject.kinds:
        zbackup = subject.engine(kind, HOLD_S)
        facts = zbackup.inspect()
        assert zbackup.choose_lock(facts).kind == kind
        zbackup.require_privileges(facts, kind)
        with Writer(subject) as writer:
            with zbackup.consistent(facts, kind) as held:
                assert held.position and held.lock_wait_ms >= 0
                assert held.seconds_left() > 0 and (kind == "none" or held.seconds_left() < HOLD_S)
                if kind in subject.stopping:
                    assert writer.stands_still(), kind
                else:
                    writer.goes_on()
                held.confirm()
            writer.goes_on()
        assert all(isinstance(value, str) for value in held.facts.values())
        assert held.held_ms > 0 or kind == "none"


def test_whatever_happens_under_a_lock_it_is_gone_afterwards(subject: Subject) -> None:
    for kind in subject.kinds:
        zbackup = subject.engine(kind, HOLD_S)
        facts = zbackup.inspect()
        with Writer(subject) as writer:
            for trouble in (KeyboardInterrupt, RuntimeError, DatabaseError):
                with pytest.raises(trouble), zbackup.consistent(facts, kind):
                    raise trouble
                writer.goes_on()


def test_a_lock_ends_at_its_ceiling_and_is_then_not_confirmed(subject: Subject) -> None:
    for kind in subject.stopping:
        zbackup = subject.engine(kind, 1)
        facts = zbackup.inspect()
        with (
            Writer(subject) as writer,
            pytest.raises(LockNotTaken),
            zbackup.consistent(facts, kind) as held,
        ):
            writer.goes_on()
            time.sleep(1)
            held.confirm()


def test_auto_takes_a_lock_of_its_own_and_others_locks_are_refused(subject: Subject) -> None:
    facts = subject.engine("none", HOLD_S).inspect()
    choice = subject.engine("auto", HOLD_S).choose_lock(facts)  # type: ignore[arg-type]
    assert choice.kind in subject.kinds and choice.reason
    with pytest.raises(Refused):
        subject.engine(subject.foreign, HOLD_S).choose_lock(facts)


def test_there_is_nothing_to_heal_on_a_sound_server(subject: Subject) -> None:
    subject.engine("none", HOLD_S).heal()
    subject.write()


def test_a_refused_login_is_one_line_without_the_password(subject: Subject) -> None:
    with pytest.raises(DatabaseError) as refused:
        subject.stranger.inspect()
    said = str(refused.value)
    assert "refused the login of" in said and "\n" not in said and "hunter2" not in said
