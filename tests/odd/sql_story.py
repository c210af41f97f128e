"""The life of an odd MySQL or MariaDB server: checked, backed up under load, restored and compared.

The law: what `check` calls ready restores exactly. What does not restore, `check` has refused or named
before, and the refusal is one clear line.
"""

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.lab import binlog_workload, servers
from tests.lab.load import Load, LoadFailed, verify
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.pool import Pool, run
from tests.lab.server_user import SERVER_UID
from tests.lab.servers.templates import DAEMON
from tests.odd.base import ODD_CLOCKS, Story
from tests.odd.incidents import END, FIRST, SECOND, another_root, critical
from tests.odd.outcome import Moment, differing
from tests.odd.sql_levels import LEVELS
from tests.odd.sql_server import Builder, Odd, account_statements, keyring_files
from tests.odd.sql_telling import SqlTelling, picture
from tests.odd.sql_worlds import SQL_WORLDS
from tests.odd.worlds import named
from tests.system.conftest import end_clones
from tests.system.house import House, after_writing, checksums, local, next_second, utc, wait_until
from zbackup.model.errors import NotRecoverable

UNARCHIVED = ("my bin",)
"""Names of logs that no archive takes."""
THREADS, RATE = 2, 60.0
BURST = 25
PATIENCE_S = 120.0
"""Until the load writes: on a busy machine programs start slowly, and holes are punched slowly."""
AHEAD_S = 1800
NEAR_NS = 50_000
CLEAR_S = 5.0
ROOM = 2 << 20
"""Bytes: less than what a replay writes."""

CUT = 30
"""Bytes that are there of an event that a crash cut short."""


class OddHouse(House):
    """zbackup for an odd server."""

    def __init__(self, pool: Pool, home: Path, odd: Odd) -> None:
        super().__init__(pool, home, odd.server, tuple(odd.datasets))
        self._instance |= odd.instance
        self.default = self.configure("default")
        settings = odd.server.settings
        assert str(servers.path(settings.flavour) / "bin" / DAEMON[settings.kind]) == str(self.program)


class SqlStory(Story):
    """See Story."""

    levels = LEVELS
    worlds = SQL_WORLDS

    def tell(self, forks: Any = None) -> None:
        """See Story."""
        self._home.mkdir()
        with self._keyring(), contextlib.ExitStack() as ended:
            ended.callback(self._remove)
            with self._timed("build"):
                builder = Builder(self._flavour, self._row, self._pool, self._home, self._name)
                ended.callback(builder.datasets.unmount)
                odd = builder.build()
                odd.server.start()
            ended.callback(odd.server.kill)
            house = OddHouse(self._pool, self._home, odd)
            house.settle(lock=self._row["lock"])
            house.forks = forks
            ended.callback(end_clones, house)
            self._telling = SqlTelling(odd.server, named(self._row), builder.outside())
            ended.callback(self._telling.end)
            self._live(house, odd)

    def contents(self, house: House) -> dict[str, Any]:
        """See Story."""
        return _sums(house.server)

    @property
    def _kind(self) -> str:
        return self._flavour.partition("-")[0]

    # the life

    def _live(self, house: House, odd: Odd) -> None:
        server = house.server
        with self._timed("content"):
            self._content(server, odd)
            self._telling.stage(0)
        if self._refused(house):
            return
        with self._timed("life"):
            moments = self._history(house)
        if not self.outcome.problems:
            self._restores(house, moments)

    def _content(self, server: DatabaseServer, odd: Odd) -> None:
        """Accounts, and tables as the row has them."""
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            for statement in account_statements(self._row, self._kind):
                cursor.execute(statement)
            cursor.execute("SET sql_log_bin = 1")
            if self._row["options"] == "persisted":
                cursor.execute("SET PERSIST sort_buffer_size = 300000")
                cursor.execute("SET PERSIST_ONLY binlog_cache_size = 65536")
            for statement in self._tables(odd):
                cursor.execute(statement)

    def _tables(self, odd: Odd) -> Iterator[str]:
        yield "CREATE DATABASE `o'dd € b-1`"
        yield "CREATE TABLE `o'dd € b-1`.`t \"x ü` (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB"
        yield "INSERT INTO `o'dd € b-1`.`t \"x ü` SELECT id, name FROM shop.customers WHERE id < 200"
        more = ""
        row = self._row
        if row["files"] == "row compressed" and self._flavour:
            more = "ROW_FORMAT=COMPRESSED KEY_BLOCK_SIZE=8"
        if row["files"] == "page compressed" and self._kind == "mysql":
            more = "COMPRESSION='zlib'"
        if row["plugin"] == "keys":
            more += " ENCRYPTION='Y'" if self._kind == "mysql" else " ENCRYPTED=YES"
        if row["part"] == "data directory":
            more += f" DATA DIRECTORY='{odd.elsewhere}'"
        if row["part"] == "tablespace":
            yield f"CREATE TABLESPACE apart ADD DATAFILE '{odd.elsewhere}/apart.ibd'"
            yield "CREATE TABLE shop.spaced (id INT PRIMARY KEY, v VARCHAR(100)) TABLESPACE apart"
            yield "INSERT INTO shop.spaced SELECT id, name FROM shop.customers"
        yield f"CREATE TABLE shop.special (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB {more}"
        yield "INSERT INTO shop.special SELECT id, email FROM shop.customers"
        if row["plugin"] == "myisam":
            yield "CREATE TABLE shop.old (id INT PRIMARY KEY, v VARCHAR(100)) ENGINE=MyISAM"
            yield "INSERT INTO shop.old SELECT id, email FROM shop.customers"

    def _history(self, house: House) -> list[Moment]:
        """A backup in a quiet moment, one under load, and more after it."""
        server, journal = house.server, self._home / "journal"
        time.sleep(1.0)
        self._befalls(FIRST, house)
        with self._bounded(house):
            house.snapshot()
        first = next_second()
        moments = [
            Moment(name="at a backup", to=local(first), sums=_sums(server), worlds=self._telling.picture())
        ]
        self._send(house)
        self._befalls(SECOND, house)
        if self._row["past"] != "kept":
            self._roll_back(house)
        self._special(server, 1)
        if self._row["tail"] == "torn before":
            self._torn(server)
            server.start()
        with self._loaded(server, journal):
            after_writing(journal, BURST, PATIENCE_S)
            self._telling.stage(1)
            worlds = self._telling.picture()
            self._odd_times(server)
            if self._row["clock"] in ODD_CLOCKS:
                # What says another time than it was committed at is placed by its neighbours, to two seconds.
                time.sleep(CLEAR_S)
            if worlds:
                next_second()  # a log of whole seconds has of the moment's own one nothing
            busy = after_writing(journal, BURST, PATIENCE_S)
            moments.append(Moment(name="between backups", to=local(busy), at=busy, worlds=worlds))
            after_writing(journal, BURST, PATIENCE_S)
            self._telling.stage(2)
            house.snapshot()
            after_writing(journal, BURST, PATIENCE_S)
        self._special(server, 2)
        if self._row["incident"] == "log purged":
            moments.append(self._purged(house))
        gone = self._newest_after_flush(server) if self._row["incident"] == "log file gone" else None
        if self._row["work"] == "everything":
            self._everything(server)
        self._odd_times(server)
        self._special(server, 3)
        self._telling.stage(3)
        if gone:
            self._newest_after_flush(server)
            gone.unlink()
        sums, worlds = _sums(server), self._telling.picture()
        quiet = next_second()
        if self._row["tail"] in ("whole", "torn before"):
            moments.append(Moment(name="after the last", to=local(quiet), sums=sums, worlds=worlds))
            self._special(server, 4)
            self._telling.stage(4)
            return moments
        # The server is down when this is restored, so that it is checked before.
        moments.append(Moment(name="after the last, down", to="now", sums=sums, worlds=worlds))
        return moments

    def _newest_after_flush(self, server: DatabaseServer) -> Path:
        server.sql("FLUSH BINARY LOGS")
        return self._newest_log(server)

    def _purged(self, house: House) -> Moment:
        """Somebody purges log that no backup has. Returns a moment that goes with it."""
        server = house.server
        lost = next_second()
        self._special(server, 5)
        server.sql("FLUSH BINARY LOGS")

        def gone() -> bool:
            server.sql(f"PURGE BINARY LOGS TO '{server.sql('SHOW BINARY LOGS')[-1][0]}'")
            return len(server.sql("SHOW BINARY LOGS")) == 1

        wait_until("nobody reads what is purged", gone, 60)
        house.snapshot()
        return Moment(name="purged", to=local(lost), lost=True)

    @contextlib.contextmanager
    def _loaded(self, server: DatabaseServer, journal: Path) -> Iterator[None]:
        """While others write, too."""
        try:
            load = Load.start(server, THREADS, RATE, journal, PATIENCE_S)
        except LoadFailed:
            self.outcome.notes += [str(row) for row in server.sql("SHOW FULL PROCESSLIST")]
            raise
        with load:
            yield

    def _special(self, server: DatabaseServer, number: int) -> None:
        server.sql(f"UPDATE shop.special SET v = CONCAT(v, {number}) WHERE id % 7 = {number}")
        server.sql(f"DELETE FROM `o'dd € b-1`.`t \"x ü` WHERE id % 9 = {number}")
        if self._row["plugin"] == "myisam":
            server.sql(f"UPDATE shop.old SET v = CONCAT(v, {number}) WHERE id % 7 = {number}")
        if self._row["part"] == "tablespace":
            server.sql(f"UPDATE shop.spaced SET v = CONCAT(v, {number}) WHERE id % 7 = {number}")

    def _everything(self, server: DatabaseServer) -> None:
        csv = self._home / "some.csv"
        csv.write_text("from a file\nand another\n")
        server.sql("SET GLOBAL local_infile = ON")
        more = binlog_workload.MARIADB if self._kind == "mariadb" else binlog_workload.MYSQL
        with server.connect(local_infile=True) as connection:
            binlog_workload.run(connection, (*binlog_workload.COMMON, *more), csv=str(csv))

    def _odd_times(self, server: DatabaseServer) -> None:
        """Transactions whose times are not when they were committed."""
        shift = {"past": -AHEAD_S, "future": AHEAD_S}.get(self._row["clock"])
        statement = "UPDATE shop.special SET v = CONCAT(v, '!') WHERE id < 10"
        if shift:
            with server.connect() as connection, connection.cursor() as cursor:
                cursor.execute(f"SET timestamp = FLOOR(UNIX_TIMESTAMP()) + {shift}")
                cursor.execute(statement)
        elif self._row["clock"] == "ahead" and os.environ.get("LAB_INSIDE") == "guest":
            right = time.time_ns() - time.monotonic_ns()
            _set_clock(right + AHEAD_S * 1_000_000_000)
            try:
                server.sql(statement)
            finally:
                _set_clock(right)

    def _torn(self, server: DatabaseServer) -> None:
        """Kill the server, and leave its log as a write that was cut short does."""
        newest = self._newest_log(server)
        server.kill()
        size = newest.stat().st_size
        kind = 33 if self._kind == "mysql" else 162  # what begins a transaction
        header = struct.pack("<IBIIIH", int(time.time()), kind, 1, 80, size + 80, 0)
        with newest.open("ab") as file:
            file.write(header.ljust(CUT, b"\1"))

    def _newest_log(self, server: DatabaseServer) -> Path:
        name = str(server.sql("SHOW BINARY LOGS")[-1][0])
        directory = server.settings.binlog_dir
        assert directory is not None
        return directory / Path(name).name

    # restores

    def _restores(self, house: House, moments: list[Moment]) -> None:
        findings = self._ready(house)
        server = house.server
        self._from_there(house, moments, findings)
        if self._row["tail"] == "killed":
            server.kill()
        elif self._row["tail"] == "torn":
            self._torn(server)
        for number, moment in enumerate(moments):
            self._restore(house, moment, findings, f"r{number}")
        self._befalls(END, house)

    @property
    def _target(self) -> str:
        return f"{self._pool.name}/{self._name}-copies"

    def _send(self, house: House) -> None:
        """Make a destination, which is encrypted or not, and send the first backup there."""
        if self._row["sent"] == "nowhere":
            return
        key = self._home / "key of copies"
        key.write_text("another long passphrase\n")
        options = ["encryption=aes-256-gcm", "keyformat=passphrase", f"keylocation=file://{key}"]
        words = [] if self._row["sent"] == "plain" else options
        target = self._target
        run("zfs", "create", *(word for option in words for word in ("-o", option)), target)
        ship = {"name": "copies", "to": f"zfs:{target}", "initial": "allow"}
        house.settle(ship=[ship], archive={"to": ["copies"], "every": "1s"})
        self._done(house, "ship")
        if self._row["log name"] in UNARCHIVED:
            critical(self.outcome, house, "cannot be archived")
            house.settle(archive=None)
        elif self._row["incident"] == "log purged":
            self._done(house, "archive", "shop", "--once")

    def _from_there(self, house: House, moments: list[Moment], findings: list[dict[str, Any]]) -> None:
        """A moment from the destination, by its backups or by archived log."""
        if self._row["sent"] == "nowhere":
            return
        with self._timed("send"):
            if self._row["sent"] == "another root":
                another_root(house, self.outcome, self._target, f"file://{self._home / 'key'}")
            self._done(house, "ship")
            self._archive(house)
        for moment in moments:
            if moment.at is not None or moment.lost:
                self._restore(house, moment, findings, "sent", "--from", "copies")

    def _archive(self, house: House) -> None:
        """Archive what there is; where some of it is gone, the gap is said, and only a backup leads on."""
        if self._row["log name"] in UNARCHIVED:
            return
        once = house.zb("archive", "shop", "--once")
        if self._row["incident"] in ("log purged", "log file gone"):
            if once.rc != NotRecoverable.exit_status and "no backup there leads to it" not in once.out:
                self.outcome.problems.append(f"no gap is said to be archived: {once}")
            if self._row["incident"] == "log file gone":
                return
            once = house.zb("archive", "shop", "--once")
        if once.rc:
            self.outcome.problems.append(f"archive: {once}")

    def _done(self, house: House, *words: str) -> None:
        done = house.zb(*words)
        if done.rc:
            self.outcome.problems.append(f"{words} ends with {done.rc}: {done.err}")

    def _roll_back(self, house: House) -> None:
        """To the backup that was just taken, with something committed since: all, or the data alone."""
        house.server.sql("UPDATE shop.special SET v = 'of a history that is gone' WHERE id % 2 = 0")
        house.server.stop()
        backup = house.backups()[-1]["name"]
        found = [d for each in house.datasets for d in run("zfs", "list", "-Hro", "name", each).splitlines()]
        for dataset in found[:1] if self._row["past"] == "data rolled back" else found:
            run("zfs", "rollback", "-r", f"{dataset}@{backup}")
        self._unbound(house)
        house.server.start()

    @contextlib.contextmanager
    def _bounded(self, house: House) -> Iterator[None]:
        """While a backup is taken the owner of the files may not have much more."""
        if self._row["limit"] != "of the owner":
            yield
            return
        name = f"@{SERVER_UID}"
        for dataset in house.datasets:
            run("zpool", "sync", self._pool.name)
            used = int(run("zfs", "get", "-Hpo", "value", f"userused{name}", dataset).strip() or 0)
            run("zfs", "set", f"userquota{name}={used + ROOM}", dataset)
        yield
        self._unbound(house)

    def _unbound(self, house: House) -> None:
        """A quota of an owner's lies in the dataset, comes back with it, and stops the server."""
        if self._row["limit"] == "of the owner":
            for dataset in house.datasets:
                run("zfs", "set", f"userquota@{SERVER_UID}=none", dataset)

    def compare(self, clone: Any, moment: Moment, report: dict[str, Any]) -> None:
        """See Story."""
        if moment.sums is not None:
            found = checksums(clone, list(moment.sums))
            assert found == moment.sums, f"checksums {_differing(moment.sums, found)}"
        if moment.worlds is not None:
            lines = differing(dict(moment.worlds), picture(clone, named(self._row), self._kind))
            assert not lines, "\n".join(lines)
        if moment.at is not None:
            verify(clone, self._home / "journal", utc(report["replay"]["effective_target"]))

    @contextlib.contextmanager
    def _keyring(self) -> Iterator[None]:
        uses = self._row["plugin"] == "keys" or self._row["format"] == "encrypted"
        try:
            yield
        finally:
            if uses and self._kind == "mysql":
                for file in keyring_files(self._flavour, self._home / "keys"):
                    file.unlink(missing_ok=True)


def _sums(server: DatabaseServer) -> dict[str, int | None]:
    """Of all tables but those of the worlds, of which there is a picture."""
    return server.checksum(name for name in server.tables() if not name.startswith("w_"))


def _set_clock(offset: int) -> None:
    """Nanoseconds ahead of the monotonic one, as nearly as can be: the journal goes by that one."""
    for _ in range(100):
        time.clock_settime_ns(time.CLOCK_REALTIME, time.monotonic_ns() + offset)
        if abs(time.time_ns() - time.monotonic_ns() - offset) < NEAR_NS:
            return


def _differing(wanted: dict[str, int | None], found: dict[str, int | None]) -> dict[str, tuple[Any, Any]]:
    keys = wanted.keys() | found.keys()
    return {k: (wanted.get(k), found.get(k)) for k in sorted(keys) if wanted.get(k) != found.get(k)}
