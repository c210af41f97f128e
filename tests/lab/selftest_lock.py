"""Looking at real servers and holding them still. Needs no ZFS; run with pytest by name."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pymysql
import pytest

from tests.lab.lock_holder import engine
from tests.lab.mysql_fixture import DatabaseServer, Settings, free_port
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER, ZBACKUP_GRANTS, ZBACKUP_USER
from zbackup.engines.mysql.binlog.position import LogPosition
from zbackup.engines.mysql.connection import PrivilegeMissing
from zbackup.engines.mysql.engine import MysqlEngine
from zbackup.engines.mysql.lock import STOPS_COMMITS
from zbackup.engines.mysql.options import LockOptions
from zbackup.model.errors import DatabaseError, LockNotTaken, Refused
from zbackup.model.record import LockKind

VARIANTS = {
    "mysql-9.7-gtid": ("mysql-9.7", True),
    "mysql-9.7-plain": ("mysql-9.7", False),
    "mariadb-10.11": ("mariadb-10.11", True),
    "mariadb-11.8": ("mariadb-11.8", True),
}
KINDS: dict[str, tuple[LockKind, ...]] = {
    "mysql": ("ftwrl", "backup-lock", "none"),
    "mariadb": ("ftwrl", "backup-stage", "none"),
}


@pytest.fixture(scope="module")
def room() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="zl", dir="/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="module", params=VARIANTS)
def server(request: pytest.FixtureRequest, room: Path) -> Iterator[DatabaseServer]:
    with _start(room / request.param, *VARIANTS[request.param]) as running:
        running.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        yield running


@pytest.fixture(scope="module", params=["mysql-9.7-gtid", "mysql-9.7-plain", "mariadb-10.11"])
def pair(request: pytest.FixtureRequest, room: Path) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    flavour, gtid = VARIANTS[request.param]
    home = room / f"pair-{request.param}"
    with _start(home / "s", flavour, gtid) as source, _start(home / "r", flavour, gtid) as replica:
        replica.make_replica_of(source)
        source.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        replica.catch_up(source)
        yield source, replica


def _start(home: Path, flavour: str, gtid: bool, *options: str) -> DatabaseServer:
    return DatabaseServer(
        Settings(
            flavour=flavour,
            datadir=home / "data",
            run_dir=home / "run",
            port=free_port(),
            gtid=gtid,
            options=options,
        )
    ).start()


def _engine(server: DatabaseServer, **lock: object) -> MysqlEngine:
    limits: dict[str, object] = {"wait_s": 3, "hold_s": 5, "long_query_s": 1, "applier_stop_s": 5}
    return engine(
        server.settings.socket,
        server.settings.run_dir,
        LockOptions(**(limits | lock)),  # type: ignore[arg-type]
    )


class Writers:
    """Commits as fast as it can on a few connections; knows when it last got an answer."""

    def __init__(self, server: DatabaseServer) -> None:
        self._end = threading.Event()
        self.last = time.monotonic()
        self.count = 0
        self._threads = [threading.Thread(target=self._write, args=(server,)) for _ in range(3)]

    def _write(self, server: DatabaseServer) -> None:
        connection = server.connect()
        with connection.cursor() as cursor, suppress(pymysql.MySQLError):
            while not self._end.is_set():
                cursor.execute("INSERT INTO shop.work (t) VALUES (RAND())")
                self.last = time.monotonic()
                self.count += 1
        connection.close()

    def __enter__(self) -> "Writers":
        for thread in self._threads:
            thread.start()
        self.more()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive(), "a writer hangs"

    def more(self, within: float = 5) -> float:
        """Wait until more has been committed; how many seconds that took."""
        began, had = time.monotonic(), self.count
        while self.count < had + 20:
            assert time.monotonic() - began < within, f"writers stand still for more than {within} s"
            time.sleep(0.01)
        return time.monotonic() - began

    def stand_still(self) -> bool:
        time.sleep(0.3)
        had = self.count
        time.sleep(0.5)
        return self.count == had


@contextmanager
def _holder(server: DatabaseServer, kind: str, hold: float = 600) -> Iterator["subprocess.Popen[str]"]:
    argv = [sys.executable, "-m", "tests.lab.lock_holder", str(server.settings.socket), kind, str(hold)]
    process = subprocess.Popen(
        [*argv, str(server.settings.run_dir)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout
        assert "held" in "".join(iter(process.stdout.readline, "held\n")) + "held"
        yield process
    finally:
        process.kill()
        process.wait()


def _sessions(server: DatabaseServer) -> list[int]:
    rows = server.sql("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = %s", (ZBACKUP_USER,))
    return [int(row[0]) for row in rows]


def _applier_runs(server: DatabaseServer) -> bool:
    if server.settings.kind == "mysql":
        rows = server.sql("SELECT SERVICE_STATE FROM performance_schema.replication_applier_status")
    else:
        rows = server.sql(
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS"
            " WHERE VARIABLE_NAME = 'SLAVE_RUNNING'"
        )
    return str(rows[0][0]) == "ON"


def _await(what: str, condition: object, within: float) -> None:
    deadline = time.monotonic() + within
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, f"not within {within} s: {what}"
        time.sleep(0.05)


def test_every_lock_holds_the_position_and_is_gone_afterwards(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind]:
        zbackup = _engine(server, kind=kind)
        facts = zbackup.inspect()
        assert zbackup.choose_lock(facts).kind == kind
        with Writers(server) as writers:
            for _ in range(5):
                with zbackup.consistent(facts, kind) as held:
                    assert held.position
                    assert held.gtid or not server.settings.gtid
                    assert held.seconds_left() > 1
                    if kind in STOPS_COMMITS:
                        assert writers.stand_still()
                    else:
                        writers.more()
                    held.confirm()
                _await("all sessions are gone", lambda: _sessions(server) == [], 2)
                assert held.lock_wait_ms < 3000
                assert writers.more() < 2
        assert kind == "none" or held.held_ms > 0


def test_inspection_tells_what_is_there(server: DatabaseServer) -> None:
    facts = _engine(server).inspect()
    assert facts.flavor == server.settings.kind
    assert (facts.role, facts.blockers, facts.non_transactional) == ("primary", (), ())
    assert facts.places[0].path == str(server.settings.datadir)
    assert facts.server["innodb_page_size"] == "16384"
    assert facts.server["uid"] == str(server.settings.datadir.stat().st_uid)
    wanted = "backup-lock" if facts.flavor == "mysql" else "backup-stage"
    assert _engine(server).choose_lock(facts).kind == wanted


def test_tables_without_recovery_rule_gentle_locks_out(server: DatabaseServer) -> None:
    server.sql("CREATE TABLE shop.old (a INT) ENGINE=MyISAM")
    try:
        facts = _engine(server).inspect()
        assert facts.non_transactional == ("shop.old (MyISAM)",)
        with pytest.raises(Refused, match=r"shop\.old \(MyISAM\)"):
            _engine(server, kind="none").choose_lock(facts)
        auto = _engine(server).choose_lock(facts)
        assert auto.kind == ("ftwrl" if facts.flavor == "mysql" else "backup-stage")
    finally:
        server.sql("DROP TABLE shop.old")


def test_a_killed_holder_frees_everybody_at_once(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        with Writers(server) as writers, _holder(server, kind) as holder:
            if kind in STOPS_COMMITS:
                assert writers.stand_still()
            holder.kill()
            assert writers.more() < 2
            _await("the session is gone", lambda: _sessions(server) == [], 2)


def test_a_stopped_holder_loses_the_lock_at_the_ceiling(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        with Writers(server) as writers, _holder(server, kind, hold=3) as holder:
            holder.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            if kind in STOPS_COMMITS:
                assert writers.stand_still()
            _await("the lock is gone", lambda: len(_sessions(server)) <= 1, 5)
            assert writers.more() < 2
            assert time.monotonic() - began < 5.5


def test_a_lock_that_was_lost_is_not_confirmed(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = _engine(server, kind=kind, hold_s=1)
        with zbackup.consistent(zbackup.inspect(), kind) as held:
            time.sleep(2.5)
            with pytest.raises(LockNotTaken, match="did not last"):
                held.confirm()
        _await("all sessions are gone", lambda: _sessions(server) == [], 2)


@contextmanager
def _busy(server: DatabaseServer, statement: str) -> Iterator[threading.Thread]:
    """A long statement of the application's: one of an administrator's could not be killed by zbackup."""
    connection = server.connect(APP_USER, APP_PASSWORD)
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        number = cursor.fetchone()[0]

    def run() -> None:
        with suppress(pymysql.MySQLError), connection.cursor() as cursor:
            cursor.execute(statement)

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(2.2)
    try:
        yield thread
    finally:
        with suppress(pymysql.MySQLError):
            server.sql(f"KILL {number}")
        thread.join()


def test_long_queries_are_waited_for_refused_or_ended(server: DatabaseServer) -> None:
    facts = _engine(server).inspect()
    long = "SELECT /* report */ COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"
    with _busy(server, long) as query, Writers(server) as writers:
        with (
            pytest.raises(LockNotTaken, match=r"of app.*report"),
            _engine(server, on_long_query="wait", wait_s=1).consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert writers.more() < 1
        with (
            pytest.raises(LockNotTaken, match=r"of app.*report"),
            _engine(server, on_long_query="abort").consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert query.is_alive()
        with _engine(server, on_long_query="kill").consistent(facts, "ftwrl") as held:
            held.confirm()
        query.join(2)
        assert not query.is_alive()


def test_only_reading_statements_are_killed_unless_told_otherwise(server: DatabaseServer) -> None:
    facts = _engine(server).inspect()
    with _busy(server, "UPDATE shop.orders SET amount = amount + SLEEP(60) WHERE id = 1") as update:
        with (
            pytest.raises(LockNotTaken, match="UPDATE"),
            _engine(server, on_long_query="kill", wait_s=1).consistent(facts, "ftwrl"),
        ):
            pytest.fail("a lock was granted")
        assert update.is_alive()
        with _engine(server, on_long_query="kill", kill="all").consistent(facts, "ftwrl") as held:
            held.confirm()


def test_waiting_for_a_lock_ends_and_nobody_stays_behind_it(server: DatabaseServer) -> None:
    facts = _engine(server).inspect()
    blocker = server.connect()
    for kind in KINDS[server.settings.kind][:2]:
        take = "LOCK TABLES shop.customers WRITE" if kind != "backup-lock" else "LOCK INSTANCE FOR BACKUP"
        with blocker.cursor() as cursor, Writers(server) as writers:
            if kind == "backup-lock":
                continue
            if kind == "backup-stage":
                take = "BACKUP STAGE START"
            cursor.execute(take)
            began = time.monotonic()
            with (
                pytest.raises(LockNotTaken, match="not granted"),
                _engine(server, wait_s=2).consistent(facts, kind),
            ):
                pytest.fail("a lock was granted")
            assert time.monotonic() - began < 4
            assert writers.more() < 1
            cursor.execute("UNLOCK TABLES" if kind == "ftwrl" else "BACKUP STAGE END")
        _await("all sessions are gone", lambda: _sessions(server) == [], 2)
    blocker.close()


def test_login_and_reach_fail_in_one_clear_line(server: DatabaseServer) -> None:
    wrong = _engine(server)
    bad = replace(wrong, connect=replace(wrong.connect, password=lambda: "no-such-secret"))
    with pytest.raises(DatabaseError, match="check user and password") as refused:
        bad.inspect()
    assert "no-such-secret" not in str(refused.value) + repr(bad)
    away = replace(bad, connect=replace(wrong.connect, socket="/tmp/no/such.sock"))
    with pytest.raises(DatabaseError, match=r"socket /tmp/no/such\.sock.*is it running"):
        away.inspect()
    closed = replace(bad, connect=replace(wrong.connect, socket="", host="127.0.0.1", port=1))
    with pytest.raises(DatabaseError, match=r"127\.0\.0\.1:1.*is it running"):
        closed.inspect()


def _privileges(kind: str) -> list[tuple[str, str]]:
    return [
        (name.strip(), grants.partition(" ON ")[2])
        for grants in ZBACKUP_GRANTS[kind]
        for name in grants.partition(" ON ")[0].split(",")
    ]


def _use_everything(server: DatabaseServer) -> None:
    for kind in KINDS[server.settings.kind][:2]:
        zbackup = _engine(server, on_long_query="kill")
        with zbackup.consistent(zbackup.inspect(), kind) as held:
            held.confirm()


def test_each_missing_privilege_is_named_with_its_grant(server: DatabaseServer) -> None:
    kind = server.settings.kind
    _use_everything(server)
    for privilege, where in _privileges(kind):
        if "SLAVE" in privilege and "ADMIN" in privilege:
            continue  # see test_a_missing_applier_privilege_is_named
        server.sql(f"REVOKE {privilege} ON {where} FROM zbackup@localhost")
        try:
            with (
                _busy(server, "SELECT COUNT(*), SLEEP(60) FROM shop.orders WHERE id < 3"),
                pytest.raises(PrivilegeMissing) as missing,
            ):
                _use_everything(server)
        finally:
            server.sql(f"GRANT {privilege} ON {where} TO zbackup@localhost")
        assert f"GRANT {privilege} ON {where} TO 'zbackup'@'localhost'" in str(missing.value)
        assert "\n" not in str(missing.value)
    _use_everything(server)


def test_the_applier_pauses_and_runs_again(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    source, replica = pair
    kind: LockKind = "ftwrl" if replica.settings.kind == "mysql" else "backup-stage"
    zbackup = _engine(replica)
    facts = zbackup.inspect()
    assert (facts.role, facts.applier_running, facts.blockers) == ("replica", True, ())
    with Writers(source):
        for _ in range(3):
            with zbackup.consistent(facts, kind) as held:
                assert not _applier_runs(replica)
                time.sleep(0.3)
                held.confirm()
            assert _applier_runs(replica)
    replica.catch_up(source)
    assert not list(replica.settings.run_dir.glob("*.applier-stopped"))


def test_the_applier_runs_again_after_a_failure_in_the_body(
    pair: tuple[DatabaseServer, DatabaseServer],
) -> None:
    _, replica = pair
    zbackup = _engine(replica)
    with pytest.raises(ZeroDivisionError), zbackup.consistent(zbackup.inspect(), "ftwrl"):
        raise ZeroDivisionError
    assert _applier_runs(replica)


def test_an_applier_that_was_stopped_stays_stopped(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    _, replica = pair
    word = "REPLICA" if replica.settings.kind == "mysql" else "SLAVE"
    replica.sql(f"STOP {word} SQL_THREAD")
    zbackup = _engine(replica)
    with zbackup.consistent(zbackup.inspect(), "ftwrl") as held:
        held.confirm()
    assert not _applier_runs(replica)
    replica.sql(f"START {word} SQL_THREAD")
    _await("it runs", lambda: _applier_runs(replica), 5)


@pytest.mark.parametrize("group", [False, True], ids=["process", "process-group"])
def test_the_applier_runs_again_after_sigkill(
    pair: tuple[DatabaseServer, DatabaseServer], group: bool
) -> None:
    _, replica = pair
    with _holder(replica, "ftwrl") as holder:
        assert not _applier_runs(replica)
        if group:
            os.killpg(holder.pid, signal.SIGKILL)
        else:
            holder.kill()
        _await("the applier runs", lambda: _applier_runs(replica), 5)
    _await("the note is gone", lambda: not list(replica.settings.run_dir.glob("*.applier-stopped")), 5)


def test_the_next_run_heals_what_a_dead_watchdog_could_not(
    pair: tuple[DatabaseServer, DatabaseServer],
) -> None:
    _, replica = pair
    with _holder(replica, "ftwrl") as holder:
        for watchdog in _children(holder.pid):
            os.kill(watchdog, signal.SIGKILL)
        holder.kill()
        holder.wait()
        time.sleep(0.5)
        assert not _applier_runs(replica)
    _engine(replica).heal()
    assert _applier_runs(replica)
    assert not list(replica.settings.run_dir.glob("*.applier-stopped"))


def _children(pid: int) -> list[int]:
    listed = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=True
    )
    return [int(line) for line in listed.stdout.split()]


def test_an_applier_that_does_not_stop_in_time_runs_on(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    source, replica = pair
    connection = source.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION binlog_format = 'STATEMENT'")
        cursor.execute("INSERT INTO shop.work (t) SELECT SLEEP(8)")
    connection.close()
    time.sleep(1)
    zbackup = _engine(replica, applier_stop_s=2)
    facts = zbackup.inspect()
    began = time.monotonic()
    with pytest.raises(LockNotTaken, match="did not stop"), zbackup.consistent(facts, "ftwrl"):
        pytest.fail("a lock was granted")
    assert time.monotonic() - began < 12
    time.sleep(8)
    _await("the applier runs", lambda: _applier_runs(replica), 10)
    replica.catch_up(source)


def test_a_missing_applier_privilege_is_named(pair: tuple[DatabaseServer, DatabaseServer]) -> None:
    _, replica = pair
    name = "REPLICATION_SLAVE_ADMIN" if replica.settings.kind == "mysql" else "REPLICATION SLAVE ADMIN"
    replica.sql(f"REVOKE {name} ON *.* FROM zbackup@localhost")
    try:
        zbackup = _engine(replica)
        with pytest.raises(PrivilegeMissing, match=name), zbackup.consistent(zbackup.inspect(), "ftwrl"):
            pass
    finally:
        replica.sql(f"GRANT {name} ON *.* TO zbackup@localhost")
    assert _applier_runs(replica)


@pytest.mark.parametrize(
    ("variant", "kind", "flush"),
    [
        ("mysql-9.7-gtid", "ftwrl", 0),
        ("mysql-9.7-gtid", "backup-lock", 2),
        ("mysql-9.7-plain", "none", 1),
        ("mariadb-10.11", "backup-stage", 2),
        ("mariadb-11.8", "ftwrl", 0),
        ("mariadb-11.8", "none", 2),
    ],
)
def test_files_cut_off_under_a_lock_recover_to_what_their_binlog_names(
    room: Path, variant: str, kind: LockKind, flush: int
) -> None:
    """A killed server leaves its files as they were at one instant, as an atomic snapshot has them.

    Not on tmpfs: there MariaDB maps its redo log into memory, where nothing is ever behind.
    """
    flavour, gtid = VARIANTS[variant]
    home = room / f"cut-{variant}-{kind}"
    with _start(home, flavour, gtid, f"--innodb-flush-log-at-trx-commit={flush}", "--sync-binlog=0") as cut:
        cut.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        zbackup = _engine(cut, kind=kind, hold_s=20)
        with Writers(cut) as writers:
            time.sleep(1.5)
            writers.more()
            with suppress(DatabaseError, LockNotTaken), zbackup.consistent(zbackup.inspect(), kind) as held:
                recorded = LogPosition.parse(held.position)
                cut.kill()
        cut.start()
        rows = int(cut.sql("SELECT COUNT(*) FROM shop.work")[0][0])
        logged = _binlog_rows(cut)
        assert rows == logged
        after = _last_commit(cut, recorded)
        assert after == recorded if kind in STOPS_COMMITS else after >= recorded


def _binlog_rows(server: DatabaseServer) -> int:
    """How many of the writers' rows the binlog names; each is a transaction of its own."""
    files = [row[0] for row in server.sql("SHOW BINARY LOGS")]
    events = [event for file in files for event in server.sql(f"SHOW BINLOG EVENTS IN '{file}'")]
    return sum(1 for event in events if str(event[2]).startswith("Write_rows"))


def _last_commit(server: DatabaseServer, recorded: LogPosition) -> LogPosition:
    """Where the last commit ends in the file that was open when the server was cut off."""
    events = server.sql(f"SHOW BINLOG EVENTS IN '{recorded.file}'")
    commits = [event for event in events if str(event[2]).startswith("Xid")]
    return LogPosition.of(recorded.file, int(commits[-1][4]))
