"""The machine in memory with a binary log in files, so that the real code reads the log and follows it.

The log's dataset holds `log`, the files of the log as (name, content), and the data's dataset `rows` and how
many GTIDs were executed. What was true at each moment is in a journal.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.fast.server import DATA, LOG, FakeEngine, FakeRecovery
from tests.fast.world import World
from tests.unit.engines.binlog.builder import SERVER, Builder
from tests.unit.engines.mysql.archived import IN_USE_AT, Archive
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.engines.mysql.binlog.events import GTID_LIST, PREVIOUS_GTIDS, TABLE_MAP
from zbackup.engines.mysql.binlog.reader import opened
from zbackup.engines.mysql.recovery.added_log import add_log
from zbackup.engines.mysql.recovery.covered_log import covered_files
from zbackup.engines.mysql.recovery.log_reader import MysqlLogReader
from zbackup.model.added_log import AddedFile
from zbackup.model.anchors import Anchor
from zbackup.model.archive import ArchivedFile
from zbackup.model.backup import Backup, BackupFiles
from zbackup.model.log import LogDamage, LogPosition, LogSpan
from zbackup.model.progress import Progress
from zbackup.model.record import Record
from zbackup.model.recovery import Reach, ReplayRange
from zbackup.model.relocation import Relocation
from zbackup.model.server import ServerFacts
from zbackup.model.silence import Silence
from zbackup.model.target import Stop
from zbackup.model.unreplayable import Unreplayable
from zbackup.model.written_log import LogBytes, WrittenFile

SECOND = timedelta(seconds=1)
ROW = struct.Struct("<Q")
LogFiles = tuple[tuple[str, bytes], ...]


class RowBuilder(Builder):
    """A builder whose transactions hold the number of a row."""

    row = 0

    def rows(self, count: int, size: int) -> None:
        for _ in range(count):
            self.event(TABLE_MAP, b"\x11" * 30)
            self.event(30, ROW.pack(self.row))


@dataclass(frozen=True)
class Entry:
    """The rows from `since` on. Some of them, `lost`, were acknowledged and went in a crash at `until`."""

    since: datetime
    rows: tuple[int, ...]


@dataclass
class Journal:
    """What was true when."""

    entries: list[Entry] = field(default_factory=list)
    lost: dict[int, datetime] = field(default_factory=dict)
    """Rows that a crash took, acknowledged and not durable, and when."""

    def right(self, moment: datetime) -> list[tuple[int, ...]]:
        """What a restore to the moment may give: all that was there, or what outlived the next crash."""
        rows = next(e.rows for e in reversed(self.entries) if e.since < moment)
        durable = tuple(n for n in rows if n not in self.lost or self.lost[n] < moment)
        return [rows, durable]

    def moments(self) -> list[datetime]:
        """One between every two things that happened, and one behind the last."""
        return [entry.since + SECOND for entry in self.entries]


class LogWorld(World):
    """Production of MySQL or `mariadb`."""

    def __init__(self, home: Path, *, mariadb: bool = False) -> None:
        self.mariadb, self.journal, self.backups = mariadb, Journal(), 0
        self.archive_session: Callable[[], Any] = Archive
        super().__init__(home)
        self.writing = False

    def build(self) -> None:
        """Production on two datasets, and another pool."""
        super().build()
        self.dataset_at(DATA).files.update(rows=(), executed=0)
        self.dataset_at(LOG).files["log"] = ()
        self.begin_file()
        self.commit()

    # the server

    @property
    def log(self) -> LogFiles:
        found: LogFiles = self.dataset_at(LOG).files["log"]
        return found

    def commit(self) -> None:
        """One row more; a second on each side of it, for logs that know whole seconds."""
        if not hasattr(self, "journal") or "log" not in self.dataset_at(LOG).files or not self._began():
            return
        self.state.elapsed += SECOND
        data = self.dataset_at(DATA)
        row, self.server.next = self.server.next, self.server.next + 1
        number = data.files["executed"] + 1
        name, content = self.log[-1]
        builder = self._builder(content, row)
        if self.mariadb:
            builder.maria(self._micros() // 1_000_000, number, size=8)
        else:
            builder.mysql(self._micros(), number, size=8)
        self._set_log((*self.log[:-1], (name, bytes(builder.data))))
        data.files.update(rows=(*data.files["rows"], row), executed=number)
        self.server.times[row] = self.now
        self._note()
        self.state.elapsed += 2 * SECOND

    def rotate(self) -> None:
        """The server closes its file, and begins the next one."""
        name, content = self.log[-1]
        number = LogPosition.parse(f"{name}:4").sequence
        builder = self._builder(content)
        builder.rotate(f"binlog.{number + 1:06}")
        self._set_log((*self.log[:-1], (name, _in_use(bytes(builder.data), on=False))))
        self.begin_file(number + 1)

    def crash(self, lost: int) -> None:
        """The server ends with its last transactions not durable, and starts again."""
        data = self.dataset_at(DATA)
        name, content = self.log[-1]
        builder = self._builder(content)
        with _spans(self.home, content) as spans:
            starts = [start for start, _, _ in spans]
        lost = min(lost, len(starts), len(data.files["rows"]) - 1)
        self.state.elapsed += SECOND
        if lost:
            del builder.data[starts[-lost] :]
            gone = data.files["rows"][-lost:]
            self.journal.lost |= dict.fromkeys(gone, self.now)
            data.files.update(rows=data.files["rows"][:-lost], executed=data.files["executed"] - lost)
            self._set_log((*self.log[:-1], (name, bytes(builder.data))))
        self._note()
        self.begin_file(LogPosition.parse(f"{name}:4").sequence + 1)
        self.state.elapsed += 2 * SECOND

    def reset(self) -> None:
        """The log is removed, and begins anew."""
        self._set_log(())
        self.dataset_at(DATA).files["executed"] = 0
        self.begin_file()
        self.state.elapsed += SECOND

    def purge(self) -> None:
        """All files but the newest go."""
        self._set_log(self.log[-1:])

    def roll_back(self, backup: int, what: str) -> None:
        """`zfs rollback -r` to a backup, by its number among those that can be, and a start."""
        log, data = self.pools.datasets["tank/db/log"], self.pools.datasets["tank/db"]
        datasets = {"both": [data, log], "data": [data], "log": [log]}[what]
        names = [n for n in datasets[0].snapshots if all(n in d.snapshots for d in datasets)]
        names = [n for n in names if n.startswith("zbackup-") and not n.startswith("zbackup-2020")]
        if what != "both":
            # Behind the newest nothing shows it: no snapshot goes with it, and the log is not silent.
            names = names[:-1]
        if not names:
            return
        name = names[backup % len(names)]
        self.state.elapsed += SECOND
        for dataset in datasets:
            kept = list(dataset.snapshots)
            for later in kept[kept.index(name) + 1 :]:
                dataset.snapshots[later].holds.clear()
                self.pools.destroy_snapshot(f"{dataset.name}@{later}")
            dataset.files.clear()
            dataset.files.update(dataset.snapshots[name].files)
        self._note()
        self.begin_file(LogPosition.parse(f"{self.log[-1][0]}:4").sequence + 1)
        self.state.elapsed += 2 * SECOND

    def begin_file(self, number: int = 1) -> None:
        builder = RowBuilder(mariadb=self.mariadb, began=self._micros() // 1_000_000)
        executed = self.dataset_at(DATA).files["executed"]
        if self.mariadb:
            body = (1 if executed else 0).to_bytes(4, "little")
            body += struct.pack("<IIQ", 0, 1, executed) if executed else b""
            builder.event(GTID_LIST, body)
        else:
            body = struct.pack("<Q", 1 if executed else 0)
            if executed:
                body += SERVER.bytes + struct.pack("<QQQ", 1, 1, executed + 1)
            builder.event(PREVIOUS_GTIDS, body)
        self._set_log((*self.log, (f"binlog.{number:06}", _in_use(bytes(builder.data), on=True))))

    def _began(self) -> bool:
        return bool(self.log)

    def _micros(self) -> int:
        return int(self.now.timestamp()) * 1_000_000

    def _note(self) -> None:
        self.journal.entries.append(Entry(self.now, self.dataset_at(DATA).files["rows"]))

    def _builder(self, content: bytes, row: int = 0) -> RowBuilder:
        builder = RowBuilder(mariadb=self.mariadb)
        builder.data, builder.row = bytearray(content), row
        return builder

    def _set_log(self, files: LogFiles) -> None:
        self.dataset_at(LOG).files["log"] = files

    # what reads it

    def placed(self, files: BackupFiles) -> BackupFiles:
        """The same backup with its log in real files."""
        return BackupFiles(files.record, self.relocated(files.where))

    def relocated(self, where: Relocation) -> Relocation:
        path = str(where.path(LOG))
        try:
            files: LogFiles = self.content(path)["log"]
        except (FileNotFoundError, AssertionError):
            files = ()
        name = "live" if path == LOG else hashlib.sha256(repr(files).encode()).hexdigest()[:20]
        directory = self.home / "logs" / name
        if name == "live" or not directory.exists():
            _write(directory, files)
        return Relocation(((LOG, str(directory)),))

    def rows_of(self, backup: Backup) -> tuple[int, ...]:
        """The rows in its data."""
        guids = {s.guid for s in backup.snapshots}
        found = next(s for s in self.pools.all_snapshots() if s.guid in guids and "rows" in s.files)
        rows: tuple[int, ...] = found.files["rows"]
        return rows

    def replayed(self, base: Backup, log: BackupFiles, replay: ReplayRange) -> tuple[int, ...]:
        """The rows of the base, and those of the log behind it, up to where a replay stops."""
        rows = list(self.rows_of(base))
        position = LogPosition.parse(base.record.log_to)
        stop = LogPosition.parse(replay.first_skipped.start) if replay.first_skipped else None
        if replay.transactions == 0:
            return tuple(rows)
        for path in covered_files(*self.placed(log)):
            content = path.read_bytes()
            with opened(path) as scanner:
                for start, end, _ in scanner.spans():
                    at = LogPosition.of(path.name, start)
                    if at >= position and (stop is None or at < stop):
                        rows.append(_row_in(content[start:end]))
        return tuple(rows)


class FileEngine(FakeEngine):
    """An engine whose server has its log in files."""

    world: LogWorld

    def inspect(self) -> ServerFacts:
        facts = super().inspect()
        flavor = "mariadb" if self.world.mariadb else "mysql"
        server = {
            **facts.server,
            "log_bin_basename": f"{LOG}/binlog",
            "log_bin_index": f"{LOG}/binlog.index",
        }
        return replace(facts, flavor=flavor, server=server)

    def _position(self) -> str:
        name, content = self.world.log[-1]
        return f"{name}:{len(content)}"


class FileRecovery(FakeRecovery):
    """Reads logs as zbackup does."""

    world: LogWorld

    def __init__(self, world: LogWorld) -> None:
        super().__init__(world)
        self.real = MysqlLogReader(flavor="mariadb" if world.mariadb else "mysql")

    def reach(
        self, record: Record, where: Relocation, created: datetime, since: Record | None = None
    ) -> Reach:
        return self.real.reach(record, self.world.relocated(where), created, since)

    def log_span(self, record: Record, where: Relocation, since: Record | None = None) -> LogSpan | None:
        return self.real.log_span(record, self.world.relocated(where), since)

    def unreplayable(
        self, subject: BackupFiles, after: str, *, live: bool = False, base: Record | None = None
    ) -> tuple[Unreplayable, ...]:
        return self.real.unreplayable(self.world.placed(subject), after, live=live, base=base)

    def silence(self, end: Record, log: BackupFiles) -> Silence | None:
        return self.real.silence(end, self.world.placed(log))

    def live_log(self, newest: BackupFiles, live: Relocation) -> LogSpan | None:
        return self.real.live_log(self.world.placed(newest), self.world.relocated(live))

    def live_log_damage(
        self, newest: BackupFiles, live: Relocation, most: int | None = None
    ) -> tuple[LogDamage, ...]:
        return self.real.live_log_damage(self.world.placed(newest), self.world.relocated(live), most)

    def is_same_log(self, older: BackupFiles, newer: BackupFiles) -> bool:
        return self.real.is_same_log(self.world.placed(older), self.world.placed(newer))

    def effective_target(self, target: datetime) -> datetime:
        return self.real.effective_target(target)

    def examine(
        self, base: BackupFiles, log: BackupFiles, stop: Stop, anchors: Sequence[Anchor] = ()
    ) -> ReplayRange | None:
        return self.real.examine(self.world.placed(base), self.world.placed(log), stop, anchors)

    def add_log(self, files: BackupFiles, added: Sequence[AddedFile], progress: Progress) -> LogSpan:
        place = self.world.placed(files)
        copy = Path(str(place.where.path(LOG))).with_name(
            f"added-{len(list((self.world.home / 'logs').iterdir()))}"
        )
        there = self.world.dataset_at(self._place(files.where, LOG))
        _write(copy, there.files["log"])
        span = add_log(BackupFiles(files.record, Relocation(((LOG, str(copy)),))), added, progress)
        there.files["log"] = tuple((p.name, p.read_bytes()) for p in sorted(copy.glob("binlog.0*")))
        return span


@dataclass
class WorldFollower:
    """Follows the log of a world."""

    world: LogWorld
    real: MysqlLogFollower = field(default_factory=MysqlLogFollower)

    def scan(
        self,
        live: BackupFiles,
        older: Callable[[], Sequence[BackupFiles]],
        archived: Sequence[ArchivedFile],
        since: str,
        now: Callable[[], datetime],
    ) -> tuple[WrittenFile, ...]:
        def placed() -> list[BackupFiles]:
            return [self.world.placed(each) for each in older()]

        return self.real.scan(self.world.placed(live), placed, archived, since, now)

    def read(self, file: WrittenFile, begin: int, end: int) -> LogBytes:
        return self.real.read(file, begin, end)

    def forget(self) -> None:
        self.real.forget()


def _row_in(data: bytes) -> int:
    at = data.index(b"\x11" * 30)
    # Behind the table map's checksum comes the header of the rows' event.
    (row,) = ROW.unpack_from(data, at + 30 + 4 + 19)
    return int(row)


def _in_use(data: bytes, *, on: bool) -> bytes:
    flag = (data[IN_USE_AT] & ~1) | on
    return data[:IN_USE_AT] + bytes((flag,)) + data[IN_USE_AT + 1 :]


@contextmanager
def _spans(home: Path, content: bytes) -> Iterator[Any]:
    path = home / "one.000001"
    path.write_bytes(content)
    with opened(path) as scanner:
        yield scanner.spans()


def _write(directory: Path, files: LogFiles) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    wanted: Mapping[str, bytes] = dict(files)
    for path in directory.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, content in wanted.items():
        path = directory / name
        # The same file as long as it only grows, as a server's is.
        there = path.read_bytes() if path.exists() else b""
        if there != content:
            if not content.startswith(there[:IN_USE_AT]) or len(content) < len(there):
                path.unlink(missing_ok=True)
            path.write_bytes(content)
    (directory / "binlog.index").write_text("".join(f"{LOG}/{n}\n" for n in sorted(wanted)))
