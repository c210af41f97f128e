"""What befalls an odd server, its datasets and its backups, and what zbackup says then. See sql_levels."""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import pymysql

from tests.lab.pool import PoolError, run
from tests.lab.private_mounts import private_mounts, private_mounts_once_mounted
from tests.odd.outcome import Outcome
from tests.system.house import now, utc, wait_until
from tests.system.program import Result, spoken
from zbackup.model.errors import NotRemoved

WINDOW = timedelta(seconds=62)
"""A little more than the shortest that a policy takes."""
CEILING_S = 60.0
"""Seconds in which a snapshot ends, whatever its server waits for: more than `lock.wait` and `lock.hold`."""
HEAL = "Move them back first: "
_COMMITS_WAIT = "SELECT ID FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for semi-sync ACK%'"

CONFLICTS = 17
"""The exit status of an undo that leaves rows alone which others have changed since, or refer to."""
_KEYS = (
    "CREATE DATABASE undone",
    "CREATE TABLE undone.tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES undone.tree (id)"
    " ON DELETE CASCADE) ENGINE=InnoDB",
    "CREATE TABLE undone.parent (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
    "CREATE TABLE undone.child (id INT PRIMARY KEY, p INT, q INT, FOREIGN KEY (p) REFERENCES undone.parent"
    " (id) ON UPDATE CASCADE, FOREIGN KEY (q) REFERENCES undone.parent (id) ON UPDATE SET NULL)"
    " ENGINE=InnoDB",
    "INSERT INTO undone.parent VALUES (1, 1), (2, 2), (3, 3)",
    "INSERT INTO undone.child VALUES (1, 1, NULL)",
)
_MAY_COPY = "GRANT SELECT, INSERT, UPDATE, DELETE ON undone.* TO zcopy@localhost"
_MISTAKES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("INSERT INTO undone.tree VALUES (1, NULL)", ("INSERT INTO undone.tree VALUES (2, 1)",)),
    ("UPDATE undone.parent SET id = 30 WHERE id = 3", ("INSERT INTO undone.child VALUES (3, 2, 30)",)),
    ("UPDATE undone.parent SET id = 10 WHERE id = 1", ()),
)
"""What is to be undone, and what others do before that."""

Act = Callable[[Any, Outcome], None]


def refused(outcome: Outcome, result: Result, what: str, *words: str) -> None:
    """It must have been refused, once, and say this."""
    lines = [line for line in spoken(result.err) if line.startswith("zbackup: ")]
    if not result.rc or len(lines) != 1 or not all(word in result.err for word in words):
        outcome.problems.append(f"{what} must be refused and say {words}: {result}")


def critical(outcome: Outcome, house: Any, word: str) -> None:
    """What `check` must say."""
    checked = house.zb("check", "--json")
    found = json.loads(checked.out)["data"][0]["findings"]
    if not checked.rc or not any(f["severity"] == "critical" and word in f["text"] for f in found):
        outcome.problems.append(f"check must say {word}: {checked}")


def no_room(house: Any, outcome: Outcome) -> None:
    """A refreservation leaves room for the server, and none for a snapshot of what it has written."""
    first = house.datasets[0]
    run("zpool", "sync", house.pool.name)
    asked = run("zfs", "get", "-Hpo", "value", "available,written", first).split()
    available, written = map(int, asked)
    run("zfs", "set", f"refreservation={available + written // 2}", first)
    try:
        critical(outcome, house, "refreservation")
        refused(outcome, house.zb("snapshot"), "the snapshot without room", "refreservation")
    finally:
        run("zfs", "set", "refreservation=none", first)


def promoted(house: Any, outcome: Outcome) -> None:
    """A clone is promoted by hand, and what zbackup says then brings the backups back."""
    name = house.backups()[-1]["name"]
    house.zb("restore", "--to-backup", name, "--name", "promoted", "--json").data  # noqa: B018  exit status
    listed = run("zfs", "list", "-Hro", "name,origin", f"{house.clones}/promoted").splitlines()
    for part, origin in (line.split("\t") for line in listed):
        # ZFS promotes none out of its encryption root: that of one below another stays.
        if origin != "-":
            with suppress(PoolError):
                run("zfs", "promote", part)
    critical(outcome, house, "promoted by hand")
    destroyed = house.zb("clone", "destroy", "promoted", "--yes")
    refused(outcome, destroyed, "to destroy what was promoted", "promoted by hand", HEAL)
    subprocess.run(["sh", "-ec", spoken(destroyed.err)[-1].partition(HEAL)[2]], check=True)
    house.destroy("promoted")
    if [b["name"] for b in house.backups()][-1:] != [name]:
        outcome.problems.append(f"{name} did not come back from the promoted clone")


def leaked_clone(house: Any, outcome: Outcome) -> None:
    """A container that shows all of / keeps each clone that is there."""
    for clone in house.zb("clone", "list", "--json").data:
        if clone["name"].endswith(".copy"):
            continue  # it has a clone, which goes first
        with private_mounts() as pid:
            destroyed = house.zb("clone", "destroy", clone["name"], "--yes")
            refused(outcome, destroyed, "to destroy a clone with a leaked mount", f"(pid {pid})")


def leaked_drill(house: Any, outcome: Outcome) -> None:
    """A container that began during a drill keeps its datasets: the verdict counts all the same."""
    dataset = f"{house.clones}/shop-drill/0"
    with private_mounts_once_mounted(dataset) as holder:
        drilled = house.zb("verify", "--drill", "--json")
        drill = json.loads(drilled.out)["data"][0]["drill"] if drilled.out.startswith("{") else {}
        left = drill.get("left") or ""
        if not (holder and drilled.rc == NotRemoved.exit_status and drill["verdict"]["passed"]):
            outcome.problems.append(f"the drill with a leaked mount: {drilled}")
        elif f"(pid {holder[0]})" not in left or f"{dataset} is mounted at " not in left:
            outcome.problems.append(f"who holds what a drill left is not said: {drilled}")
    house.destroy("shop-drill")


def mounted_by_hand(house: Any, outcome: Outcome) -> None:
    """Of the oldest backup somebody has the last part mounted: a prune leaves all of it."""
    name = house.backups()[0]["name"]
    dataset = house.datasets[-1]
    newest = utc(house.backups()[-1]["taken"])
    wait_until("the window is behind the newest backup", lambda: now() - newest > WINDOW, 120)
    where = house.home / "mounted by hand"
    where.mkdir()
    pruning = house.configure("pruning", retention={"last": 1, "minimum": 1, "window": "1 minute"})
    before = sorted(s for s in house.snapshots() if s.endswith(f"@{name}"))
    run("mount", "-t", "zfs", f"{dataset}@{name}", str(where))
    try:
        pruned = house.zb("prune", "--json", config=pruning)
        why = {s["name"]: s["why"] for s in json.loads(pruned.out)["data"][0]["skipped"]}.get(name, "")
        if f"{dataset}@{name} is also mounted at {where}" not in why:
            outcome.problems.append(f"what is mounted by hand is not said: {pruned}")
        if sorted(s for s in house.snapshots() if s.endswith(f"@{name}")) != before:
            outcome.problems.append(f"a part of {name} went, while another is mounted")
    finally:
        run("umount", str(where))
    pruned = house.zb("prune", "--json", config=pruning).data[0]
    if any(b["name"] == name for b in house.backups()):
        outcome.problems.append(f"{name} stays when nobody has it mounted: {pruned}")


def replica_gone(house: Any, outcome: Outcome) -> None:
    """A commit waits for a semi-sync replica that is gone: a snapshot ends all the same."""
    server = house.server
    word = "source" if server.settings.kind == "mysql" else "master"

    def commit() -> None:
        with suppress(pymysql.MySQLError), server.connect() as session, session.cursor() as cursor:
            cursor.execute("SET SESSION wait_timeout = 28800")
            if word == "master":
                cursor.execute("SET SESSION max_statement_time = 0")
            cursor.execute("UPDATE shop.special SET v = CONCAT(v, 'w') WHERE id % 7 = 6")

    server.sql(f"SET GLOBAL rpl_semi_sync_{word}_timeout = 3600000")
    # One that has given up on a replica waits again when it is turned on.
    for on in (0, 1):
        server.sql(f"SET GLOBAL rpl_semi_sync_{word}_enabled = {on}")
    waiting = threading.Thread(target=commit)
    waiting.start()
    try:
        wait_until("the commit waits", lambda: bool(server.sql(_COMMITS_WAIT)), 20)
        checked = house.zb("check")
        if checked.rc or "semi-sync replication: 0 of 1 replicas are connected" not in checked.out:
            outcome.problems.append(f"check with a replica that is gone: {checked}")
        began = time.monotonic()
        taken = house.zb("snapshot")
        seconds = time.monotonic() - began
        if seconds > CEILING_S:
            outcome.problems.append(f"the snapshot took {seconds:.0f} s while a commit waited: {taken}")
        if taken.rc:
            refused(outcome, taken, "the snapshot while a commit waits", "semi-sync")
        wait_until("zbackup's sessions are gone", lambda: house.sessions() == [], 10)
        if not waiting.is_alive():
            outcome.problems.append("the commit did not wait for the replica")
    finally:
        server.sql(f"SET GLOBAL rpl_semi_sync_{word}_enabled = 0")
        waiting.join(60)


def undone(house: Any, outcome: Outcome) -> None:
    """Who takes back a transaction whose rows others refer to by now harms none of these."""
    server = house.server
    for statement in (*_KEYS, "CREATE USER zcopy@localhost IDENTIFIED BY 'copies'", _MAY_COPY):
        server.sql(statement)
    password = house.home / "password of copies"
    password.write_text("copies")
    password.chmod(0o600)
    account = {"user": "zcopy", "password": {"file": str(password)}}
    config = house.configure("undoing", copy_back=account)
    end = "SHOW BINARY LOG STATUS" if server.settings.kind == "mysql" else "SHOW MASTER STATUS"
    for mistake, since in _MISTAKES:
        before = _referring(server)
        name = ":".join(map(str, server.sql(end)[0][:2]))
        server.sql(mistake)
        for statement in since:
            server.sql(statement)
        wrong = _referring(server)
        dry = house.zb("undo", name, "--dry-run", "--json", config=config)
        done = house.zb("undo", name, "--yes", "--json", config=config)
        found = _referring(server)
        if dry.rc != done.rc or found != (wrong if done.rc or since else before):
            outcome.problems.append(f"{mistake}; {since}: {wrong}, and undone {found}: {dry}{done}")
        for result in (dry, done):
            if result.rc in (0, CONFLICTS):
                json.loads(result.out)  # one document
            else:
                refused(outcome, result, f"to undo {mistake}")


def _referring(server: Any) -> list[Any]:
    return [
        sorted(server.sql(f"SELECT * FROM undone.{table}"), key=repr) for table in ("parent", "child", "tree")
    ]


def another_root(house: Any, outcome: Outcome, target: str, key: str) -> None:
    """Somebody over there changes the key of raw copies: nothing is sent until that is undone."""
    listed = run("zfs", "list", "-Hro", "name,encryptionroot", target).splitlines()
    copies = [name for name, root in (line.split("\t") for line in listed) if name == root != target]
    for copy in copies:
        run("zfs", "load-key", "-L", key, copy)
        run("zfs", "change-key", "-i", copy)
    refused(outcome, house.zb("ship"), "to send to a copy with another key", f"the root is now {target}")
    for copy in copies:
        run("zfs", "change-key", "-o", "keyformat=passphrase", "-o", f"keylocation={key}", copy)


FIRST, SECOND, CLONE, END = "before the first backup", "behind the first backup", "a clone", "the end"

INCIDENTS: Final[Mapping[str, Mapping[str, Act]]] = {
    "no room": {FIRST: no_room},
    "promoted": {SECOND: promoted},
    "replica gone": {SECOND: replica_gone},
    "undone": {SECOND: undone},
    "leaked mount": {CLONE: leaked_clone, END: leaked_drill},
    "mounted by hand": {END: mounted_by_hand},
}
"""What is done when, by the level of the factor "incident"."""
