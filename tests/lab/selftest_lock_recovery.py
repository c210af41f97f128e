"""Files that were cut off under a lock, and what their server makes of them. Run with pytest by name."""

import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.lab.lock_rig import SERVERS, Writers, engine_of, room, start
from tests.lab.mysql_fixture import DatabaseServer
from tests.lab.repeats import some
from zbackup.engines.mysql.lock.lock import STOPS_COMMITS
from zbackup.model.errors import DatabaseError, LockNotTaken
from zbackup.model.log import LogPosition
from zbackup.model.record import LockKind

__all__ = ["room"]


CUT: list[tuple[str, LockKind, int]] = [
    ("mysql-9.7-gtid", "ftwrl", 0),
    ("mysql-9.7-gtid", "backup-lock", 2),
    ("mysql-9.7-plain", "none", 1),
    ("mariadb-10.11", "backup-stage", 2),
    ("mariadb-11.8", "ftwrl", 0),
    ("mariadb-11.8", "none", 2),
]


@pytest.mark.parametrize(("named", "kind", "flush"), some(CUT, CUT[1], CUT[2], CUT[3]))
def test_files_cut_off_under_a_lock_recover_to_what_their_binlog_names(
    room: Path, named: str, kind: LockKind, flush: int
) -> None:
    """A killed server leaves its files as they were at one instant, as an atomic snapshot has them.

    Not on tmpfs: there MariaDB maps its redo log into memory, where nothing is ever behind.
    """
    flavour, gtid = SERVERS[named]
    home = room / f"cut-{named}-{kind}"
    with start(home, flavour, gtid, f"--innodb-flush-log-at-trx-commit={flush}", "--sync-binlog=0") as cut:
        cut.sql("CREATE TABLE shop.work (id BIGINT AUTO_INCREMENT PRIMARY KEY, t DOUBLE) ENGINE=InnoDB")
        zbackup = engine_of(cut, kind=kind, hold=20)
        with Writers(cut, pause=0) as writers:
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
