"""The binlog reader against files that real servers wrote, judged by the servers' own tools.

python3 -m pytest tests/lab/selftest_binlog.py
"""

import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import servers
from tests.lab.binlog_printed import printed_changes
from tests.lab.binlog_workload import COMMON, MARIADB, MYSQL, MYSQL_GTID, printed, run
from tests.lab.mysql_fixture import DatabaseServer, Settings
from tests.lab.repeats import some
from zbackup.clock import SystemClock
from zbackup.engines.mysql.binlog.errors import DifferentLog
from zbackup.engines.mysql.binlog.files import log_files
from zbackup.engines.mysql.binlog.find_by_name import earlier, find
from zbackup.engines.mysql.binlog.find_stop import find_stop
from zbackup.engines.mysql.binlog.reader import check_events, microseconds, transactions
from zbackup.engines.mysql.binlog.same_log import require_same_log
from zbackup.engines.mysql.binlog.search_by_filter import search
from zbackup.model.log import LogPosition
from zbackup.model.log_entry import LogEntry, LogFilter
from zbackup.model.target import Time
from zbackup.model.transaction_name import Gtid, parse_transaction

STATEMENTS = "--binlog-format=STATEMENT"
NO_CHECKSUMS = "--binlog-checksum=NONE"
COMPRESSED = ("--log-bin-compress=ON", "--log-bin-compress-min-len=10")

SETUPS = {
    "mysql gtid": ("mysql-9.7", True, ()),
    "mysql": ("mysql-9.7", False, ()),
    "mysql bare statements": ("mysql-9.7", False, (NO_CHECKSUMS, STATEMENTS)),
    "10.11": ("mariadb-10.11", True, ()),
    "10.11 bare": ("mariadb-10.11", True, (NO_CHECKSUMS,)),
    "10.11 compressed statements": ("mariadb-10.11", True, (*COMPRESSED, STATEMENTS)),
    "11.8": ("mariadb-11.8", True, ()),
    "11.8 bare compressed": (
        "mariadb-11.8",
        True,
        (NO_CHECKSUMS, *COMPRESSED, "--binlog-alter-two-phase=ON"),
    ),
    "11.8 large": ("mariadb-11.8", True, ("--binlog-large-commit-threshold=10485760",)),
}


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a short name that another user may enter."""
    path = Path(tempfile.mkdtemp(prefix="zb-binlog-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def started(place: Path, flavour: str, gtid: bool, options: tuple[str, ...]) -> DatabaseServer:
    return DatabaseServer(
        Settings(
            flavour=flavour,
            datadir=place / "data",
            run_dir=place,
            gtid=gtid,
            options=("--local-infile=ON", "--max-allowed-packet=64M", *options),
        )
    ).start()


USUAL = ("mysql gtid", "mysql bare statements", "10.11", "11.8 bare compressed", "11.8 large")
FLAVOURS = ["mysql-9.7", "mariadb-10.11", "mariadb-11.8"]


@pytest.fixture(params=some(list(SETUPS), *USUAL))
def server(request: pytest.FixtureRequest, place: Path) -> Iterator[DatabaseServer]:
    server = started(place, *SETUPS[request.param])
    yield server
    server.kill()


@pytest.fixture(params=some(FLAVOURS, FLAVOURS[0], FLAVOURS[2]))
def plain(request: pytest.FixtureRequest, place: Path) -> Iterator[DatabaseServer]:
    server = started(place, request.param, True, ())
    yield server
    server.kill()


def files(server: DatabaseServer) -> list[Path]:
    datadir = server.settings.datadir
    return log_files(datadir / "binlog.index", datadir, "binlog")


def where(server: DatabaseServer) -> LogPosition:
    shown = "SHOW BINARY LOG STATUS" if server.settings.kind == "mysql" else "SHOW MASTER STATUS"
    file, offset = server.sql(shown)[0][:2]
    return LogPosition.of(file, offset)


def compare(server: DatabaseServer) -> int:
    """Boundaries, ids and times of all transactions in all files, as read and as printed; how many."""
    name = "mysqlbinlog" if server.settings.kind == "mysql" else "mariadb-binlog"
    tool = servers.path(server.settings.flavour) / "bin" / name
    count = 0
    for file in files(server):
        read = [(t.start.offset, t.end.offset, t.gtid, microseconds(t.committed)) for t in transactions(file)]
        told = [
            (p.start, p.end, p.gtid, p.micros if p.micros is not None else p.seconds * 1_000_000)
            for p in printed(tool, file)
        ]
        assert read == told, file.name
        assert check_events(file) == file.stat().st_size
        count += len(read)
    assert_found_by_name(files(server))
    assert_same_changes(tool, files(server))
    return count


def assert_same_changes(tool: Path, written: list[Path]) -> None:
    """Which tables each transaction changed, as read and as printed; and by each table alone."""
    entries = [each for each in search(written, LogFilter()) if isinstance(each, LogEntry)]
    read = {e.transaction.start: rows_changed(e) for e in entries if not e.by_text}
    told = {
        f"{file.name}:{start}": changes
        for file in written
        for start, changes in printed_changes(tool, file).items()
        if f"{file.name}:{start}" in read
    }
    assert read == {start: dict(changes) for start, changes in told.items()}
    for name in {table for changes in told.values() for table in changes}:
        alone = search(written, LogFilter(tables=(name,)))
        starts = {each.transaction.start for each in alone if isinstance(each, LogEntry)}
        assert {start for start, changes in told.items() if name in changes} <= starts, name
        assert starts == {e.transaction.start for e in entries if LogFilter(tables=(name,)).admits(e)}, name


def rows_changed(entry: LogEntry) -> dict[str, set[str]]:
    """As mysqlbinlog -v shows it: a definition changes no rows."""
    kinds = {t.name: {str(k) for k in t.kinds} & {"insert", "update", "delete"} for t in entry.tables}
    return {name: done for name, done in kinds.items() if done}


def assert_found_by_name(written: list[Path]) -> None:
    """Every transaction, by its GTID and by a place in it; and each file's head knows those before it."""
    seen: list[Gtid] = []
    for file in written:
        head = earlier(file)
        assert head and all(head.contains(gtid) for gtid in seen), file.name
        for transaction in transactions(file):
            inside = f"{file.name}:{transaction.end.offset - 1}"
            for name in (str(transaction.start), inside, transaction.gtid):
                if name:
                    assert find(parse_transaction(name), written).found == transaction.described()
        here = [parse_transaction(t.gtid) for t in transactions(file) if t.gtid]
        gtids = [gtid for gtid in here if isinstance(gtid, Gtid)]
        assert not any(head.contains(gtid) for gtid in gtids), file.name
        seen += gtids


def test_agrees_with_the_servers_own_tool(server: DatabaseServer, place: Path) -> None:
    """On files being written, after a crash, and closed."""
    csv = place / "rows.csv"
    # More than the 128 KiB of a block, in few rows: numbers with many zeros in front.
    csv.write_text("".join(f"{number:0100}\n" for number in range(2_600)))
    session = server.connect(local_infile=True)
    run(session, COMMON, csv=str(csv))
    if server.settings.kind == "mariadb":
        run(session, MARIADB)
    else:
        run(session, MYSQL)
        if server.settings.gtid:
            run(session, MYSQL_GTID, uuid=server.sql("SELECT @@server_uuid")[0][0])
    run(session, ("INSERT INTO w.t (a, b) SELECT 70, REPEAT('l', 6000000) FROM w.u LIMIT 2",))
    before = compare(server)
    assert before > 30
    server.kill()
    server.start()
    server.sql("INSERT INTO w.t (a) VALUES (80)")
    assert compare(server) == before + 1
    server.stop()
    assert compare(server) == before + 1


def test_cuts_where_the_server_stood(plain: DatabaseServer) -> None:
    """Between two commits the server names a position; a moment in between must lead there."""
    plain.sql("CREATE DATABASE w")
    plain.sql("CREATE TABLE w.t (a INT)")
    start = where(plain)
    stood = []
    for number in range(3):
        for _ in range(number + 1):
            plain.sql("INSERT INTO w.t VALUES (1)")
        plain.sql("FLUSH BINARY LOGS" if number == 1 else "DO 1")
        time.sleep(1.1)  # MariaDB tells seconds apart and no less
        stood.append((SystemClock().now().replace(microsecond=0), where(plain)))
        time.sleep(1.1)
    for number, (moment, position) in enumerate(stood):
        cut = find_stop(files(plain), start, Time(moment))
        assert cut.transactions == sum(range(number + 2))
        passed = [t for file in files(plain) for t in transactions(file) if t.end <= position]
        assert cut.last_applied == passed[-1]
        assert (cut.first_skipped is None) == (moment == stood[-1][0])
        assert cut.out_of_order == 0


def test_knows_copies_of_one_log(plain: DatabaseServer, place: Path) -> None:
    """A copy of a live log against the same log after a crash and a restart, and after a reset."""
    plain.sql("CREATE DATABASE w")
    plain.sql("CREATE TABLE w.t (a LONGBLOB)")
    plain.sql("INSERT INTO w.t VALUES (REPEAT('x', 200000))")
    first = files(plain)[0]
    copy = place / first.name
    shutil.copy(first, copy)
    upto = copy.stat().st_size
    plain.kill()
    plain.start()
    require_same_log(copy, first, upto)
    plain.sql("RESET BINARY LOGS AND GTIDS" if plain.settings.kind == "mysql" else "RESET MASTER")
    plain.sql("INSERT INTO w.t VALUES (REPEAT('y', 400000))")
    with pytest.raises(DifferentLog, match="was reset or belongs to another server"):
        require_same_log(copy, first, upto)
