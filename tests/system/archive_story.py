"""The story of a host that is lost while it writes: all that is left is at a destination.

A server under write load is archived every second. It is killed together with the archiver, its datasets are
destroyed, and what the destination has is restored and judged by the journal of what was acknowledged.
"""

import base64
import contextlib
import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from tests.lab.load import Load, verify
from tests.lab.pool import PoolError, create_pool, run
from tests.lab.s3_server import ACCESS, SECRET, client, s3_server
from tests.system.house import House, after_writing, checksums, local, next_second, now, utc, wait_until
from tests.system.program import Result
from tests.unit.docs.typed import typed

THREADS, RATE = 3, 80.0
EVERY = "1s"
STATUS = typed("archive-the-log.md", "zbackup archive status")
ONCE = typed("archive-the-log.md", "zbackup archive shop --once")
LATEST, EARLIER = "phoenix", "earlier"
"""The servers that come back: with all that was archived, and as of a moment that is in the archive alone."""
TABLES = ["workload.progress", "workload.ledger", "workload.balance"]


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What somebody knows who watched: all that was acknowledged before `archived` was at the destination
    when the host went, which was before `gone`. At `moment` it was under load, and it is in the archive
    alone."""

    journal: Path
    moment: datetime
    archived: datetime
    gone: datetime


def archiving(ship: Mapping[str, object]) -> dict[str, object]:
    """The instance's table for a host that archives its log at this destination."""
    return {"ship": [ship], "archive": {"to": [ship["name"]], "every": EVERY}}


def lose_host(
    house: House,
    config: Path,
    environment: Mapping[str, str] | None = None,
    pause: Callable[[], object] = lambda: None,
    *,
    from_files: bool = True,
) -> Loss:
    """Write, archive, and lose it all, after a `pause` under load; the newest backup at the destination is
    older than that. `from_files`: the log is read from the server's own."""

    def start(journal: Path) -> Load:
        return Load.start(house.server, THREADS, RATE, journal)

    def write(journal: Path) -> tuple[datetime, datetime]:
        after_writing(journal, 100)
        house.server.sql("FLUSH BINARY LOGS")
        after_writing(journal, 100)
        moment = next_second()
        after_writing(journal, 100)
        house.server.sql("FLUSH BINARY LOGS")
        # It takes no replica, and no connection that is one to the server: files are read.
        assert not from_files or not [
            row for row in house.server.sql("SHOW PROCESSLIST") if "Dump" in str(row[4])
        ]
        return moment, after_writing(journal, 100)

    return archive_under_load(house, config, start, write, pause, environment)


def archive_under_load(
    house: Any,
    config: Path,
    start: Callable[[Path], Load],
    write: Callable[[Path], tuple[datetime, datetime]],
    pause: Callable[[], object],
    environment: Mapping[str, str] | None = None,
) -> Loss:
    """Archive while what was `start`ed writes to a journal, until what `write` waits for is archived; then
    kill server and archiver, and destroy the datasets. `write` returns a moment under load, and its end.
    """
    journal = house.home / "last journal"

    def archived() -> datetime | None:
        said = house.zb(*STATUS, "--json", config=config, environment=environment).data
        text = said[0]["archived_to"]
        return utc(text) if text else None

    archiver = house.begin("archive", "shop", config=config, environment=environment, forked=True)
    said = ""
    try:
        with start(journal):
            moment, written = write(journal)
            try:
                wait_until(
                    "that is archived", lambda: (found := archived()) is not None and found > written, 300
                )
            except AssertionError:
                archiver.signal_group(signal.SIGKILL)
                said = f"{house.zb(*STATUS, config=config, environment=environment)} {archiver.end()}"
                raise AssertionError(said) from None
            pause()
            reached = archived()
            archiver.signal_group(signal.SIGKILL)
            house.server.kill()
            gone = now()
    finally:
        with contextlib.suppress(ProcessLookupError):
            archiver.signal_group(signal.SIGKILL)
        archiver.end()
    assert reached is not None
    _destroy(house)
    return Loss(journal=journal, moment=moment, archived=reached, gone=gone)


def _destroy(house: Any) -> None:
    """The server's datasets, with all that is below them but clones."""
    for name in house.datasets:
        with contextlib.suppress(PoolError):  # it lies below another one, and went with that
            run("zfs", "unmount", "-f", name)
            run("zfs", "destroy", "-r", name)


def require_all_back(
    house: House,
    loss: Loss,
    at: str,
    back: Callable[..., Result],
    moments: Sequence[str] = (LATEST, EARLIER),
    *,
    require_more: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Restore from the destination alone, on a host that has nothing else; returns the last report.

    `require_more` is given that of the server with all that was archived, while it runs.
    """
    window = back("window", "--at", at, "--json").data[0]
    assert utc(window["ranges"][-1]["to"]) >= loss.archived
    found: dict[str, Any] = {}
    for name in moments:
        to = "latest" if name == LATEST else local(loss.moment)
        here = {"offsite": at, "latest": shlex.quote(to), "--name back": f"--name {name}"}
        words = typed("archive-the-log.md", "zbackup restore shop --from offsite", here)
        found = back(*words, "--json").data
        with house.clone(found) as connection:
            if name == LATEST:
                verdict = verify(connection, loss.journal, loss.archived, loss.gone)
                assert verdict.present > 0 and verdict.required > 0
                assert all(checksums(connection, TABLES).values())
                require_more(found)
            else:
                verify(connection, loss.journal, loss.moment)
        assert back("clone", "destroy", name, "--yes").rc == 0
    shown = back("log", "shop", "--at", at, "--table", "workload.progress", "--since", local(loss.moment))
    assert shown.rc == 0 and "workload.progress" in shown.out, shown
    return found


@contextlib.contextmanager
def on_another_pool(house: House) -> Iterator[tuple[Path, Callable[..., Result]]]:
    """A destination on a pool of its own, and a host that has nothing but a third pool."""
    there, new = create_pool(), create_pool()
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", f"{there.name}/copies")
    ship = {"name": "here", "to": f"zfs:{there.name}/copies", "initial": "allow"}
    burnt = house.configure(
        "burnt",
        datasets=[f"{new.name}/gone"],
        ship=[ship],
        recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
    )
    try:
        yield house.configure("archiving", **archiving(ship)), lambda *w: house.zb(*w, config=burnt)
    finally:
        new.destroy()
        there.destroy()


@contextlib.contextmanager
def in_a_bucket(house: House) -> Iterator[tuple[Path, Callable[..., Result]]]:
    """The same with a destination in a bucket, encrypted."""
    new = create_pool()
    files = {"secret": SECRET, "key": base64.b64encode(os.urandom(32)).decode()}
    for name, text in files.items():
        (house.home / name).write_text(text)
        (house.home / name).chmod(0o600)
    with s3_server() as server:
        client(server).create_bucket(Bucket="lost")
        s3 = {
            "endpoint": server.endpoint,
            "region": "us-east-1",
            "access_key": ACCESS,
            "secret_key": {"file": str(house.home / "secret")},
            "path_style": True,
            "key": {"file": str(house.home / "key")},
        }
        ship = {"name": "here", "to": "s3://lost/host", "initial": "allow", "s3": s3}
        burnt = house.configure(
            "burnt",
            datasets=[f"{new.name}/gone"],
            ship=[ship],
            recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
        )
        try:
            yield house.configure("archiving", **archiving(ship)), lambda *w: house.zb(*w, config=burnt)
        finally:
            new.destroy()


Elsewhere = Callable[[House], contextlib.AbstractContextManager[tuple[Path, Callable[..., Result]]]]


def purge_and_reset(house: House, config: Path) -> None:
    """What is purged before it was archived comes from a snapshot; behind a RESET there is a new epoch."""

    def archived() -> dict[str, Any]:
        found: dict[str, Any] = house.zb(*ONCE, "--json", config=config).data[0]
        return found

    server = house.server
    server.sql("CREATE TABLE shop.purged (id INT PRIMARY KEY)")
    assert archived()["appended"] > 0
    server.sql("INSERT INTO shop.purged VALUES (1)")
    server.sql("FLUSH BINARY LOGS")
    server.sql("INSERT INTO shop.purged VALUES (2)")
    server.sql("FLUSH BINARY LOGS")
    house.snapshot(config)
    newest = str(server.sql("SHOW BINARY LOGS")[-1][0])

    def purged() -> bool:
        server.sql(f"PURGE BINARY LOGS TO '{newest}'")
        return [str(row[0]) for row in server.sql("SHOW BINARY LOGS")] == [newest]

    wait_until("nobody reads what is purged", purged, 60)
    found = archived()
    assert found["appended"] > 0 and found["gap"] is None and found["new_epoch"] is None, found
    mariadb = server.settings.kind == "mariadb"
    server.sql("RESET MASTER" if mariadb else "RESET BINARY LOGS AND GTIDS")
    server.sql("INSERT INTO shop.purged VALUES (3)")
    found = archived()
    assert found["epoch"] == 1 and found["new_epoch"], found
    # As on a machine that was cloned: the one that the archive is of goes by another name.
    run("zfs", "set", f"zbackup:archiver={'0' * 32}", house.datasets[0])
    assert "--take-over" in house.zb(*ONCE, "-q", config=config).refused(10)
    done = house.zb(*typed("archive-the-log.md", "zbackup archive shop --take-over"), config=config)
    assert "a new epoch began: the log archived before is from another host" in done.succeeded
    # No backup from before leads on from here.
    house.snapshot(config)
    assert house.zb("ship", config=config).rc == 0


def lose_and_get_back(
    house: House, *, from_files: bool = True, elsewhere: Elsewhere = on_another_pool
) -> None:
    """The whole story of a house, with a destination on another pool, or where it is said."""
    with elsewhere(house) as (config, back):
        house.snapshot(config)
        assert house.zb("ship", config=config).rc == 0
        purge_and_reset(house, config)
        loss = lose_host(house, config, from_files=from_files)
        require_all_back(house, loss, "here", back)
        checked = back("verify", "--at", "here", "--read", "all", "--json").data[0]
        assert checked["problems"] == [] and checked["archived_log"]["read"] > 0
