"""The second half of the story of dev clones: masked, with children, reset, leased, and following."""

import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from tests.lab.pool import run
from tests.lab.servers.accounts import APP_PASSWORD, APP_USER, REPLICATION_PASSWORD, REPLICATION_USER
from tests.platform.contexts import context
from tests.system.clone_story import asked, create, entered, production
from tests.system.house import House, checksums, wait_until
from tests.unit.docs.typed import typed
from zbackup.jobs.dev_clones.lease import Reaped, reap
from zbackup.proc.detached import Process

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "mask.sql"
PEOPLE = (
    "UPDATE shop.customers SET name = CONCAT('Real ', id)",
    "CREATE TABLE shop.cards (id INT PRIMARY KEY AUTO_INCREMENT, customer_id INT NOT NULL,"
    " holder VARCHAR(60) NOT NULL, number CHAR(16) NOT NULL) ENGINE=InnoDB",
    "INSERT INTO shop.cards (customer_id, holder, number) "
    "SELECT id, name, CONCAT('4111111111', LPAD(id, 6, '0')) FROM shop.customers",
)
REAL = ("email LIKE '%@example.com'", "email LIKE 'later%'", "name LIKE 'Real%'")
REAL_CARDS = "number LIKE '4111%' OR holder LIKE 'Real%'"
WATCH = """
import os, socket, stat, sys
from pathlib import Path
run = Path(os.environ["ZBACKUP_SOCKET"]).parent
assert stat.S_IMODE(run.stat().st_mode) == 0o700, "others may enter"
for port in range(23100, 23110):
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0, "somebody listens"
Path(sys.argv[1]).write_text(os.environ["ZBACKUP_CLONE"])
"""


@dataclass(frozen=True)
class Later:
    """A clock that is ahead."""

    ahead: timedelta

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def monotonic(self) -> float:
        return 0.0


def reaped(house: House, ahead: timedelta, **rules: Any) -> Reaped:
    """Leases are looked at, so much later than now."""
    ctx = context(house.pool, house.server.settings, house.datasets)
    return reap(replace(ctx, clock=Later(ahead), cloning=replace(ctx.cloning, **rules)))


def real_people(clone: Any) -> int:
    """How many rows show somebody real."""
    ((people,),) = asked(clone, f"SELECT COUNT(*) FROM shop.customers WHERE {' OR '.join(REAL)}")
    ((cards,),) = asked(clone, f"SELECT COUNT(*) FROM shop.cards WHERE {REAL_CARDS}")
    return int(people + cards)


class MaskStory:
    """The tests, in the order of the story."""

    def test_masked_before_anybody_comes_in(self, house: House, history: dict[str, Any]) -> None:
        for statement in PEOPLE:
            house.server.sql(statement)
        house.snapshot()
        before = house.server.checksum()
        watcher, seen = house.home / "watch.py", house.home / "seen"
        watcher.write_text(WATCH)
        steps = [{"sql": str(EXAMPLE)}, {"run": [sys.executable, str(watcher), str(seen)]}]
        config = house.configure("masking", clones={"mask": steps})
        words = typed("dev-clones.md", "zbackup clone create shop --name dev-base", {"dev-base": "base"})
        (made,) = create(house, *words[2:], config=config)
        assert made["masked"] and seen.read_text() == "base"
        with entered(house, "base") as clone:
            assert real_people(clone) == 0
            assert asked(clone, "SELECT COUNT(*) FROM shop.cards") == ((1000,),)
        logs = [log.read_bytes() for log in (house.home / "clones" / "base").rglob("binlog.0*")]
        assert not any(b"example.com" in log or b"Real " in log for log in logs), "the log still tells"
        assert house.server.checksum() == before

    def test_children_of_a_masked_one_are_masked(self, house: House, history: dict[str, Any]) -> None:
        words = typed("dev-clones.md", "zbackup clone snapshot", {"dev-base": "base"})
        taken = house.zb(*words, "--json").data["snapshot"]
        with entered(house, "base") as parent:
            asked(parent, "DELETE FROM shop.cards")
        secret = Path(house.zb("clone", "show", "base", "--json").data["password_file"]).read_text()
        one = {"dev-base --name dev --count 5": "base --name child"}
        words = typed("dev-clones.md", "zbackup clone create shop --from-clone", one)
        (child,) = create(house, *words[2:])
        assert (child["parent"], child["masked"], child["snapshot"]) == ("base", True, taken)
        assert Path(child["password_file"]).read_text() != secret
        with entered(house, "child") as clone:
            assert real_people(clone) == 0
            assert asked(clone, "SELECT COUNT(*) FROM shop.cards") == ((1000,),)
        assert "has children" in house.zb("clone", "destroy", "base", "--yes", "-q").refused(9)
        house.destroy("child", "base")


class MaskingFails:
    """Told once: it is the same for all kinds of server."""

    def test_what_cannot_be_masked_is_gone_or_nobodys(self, house: House, history: dict[str, Any]) -> None:
        bad = house.home / "bad.sql"
        bad.write_text("UPDATE shop.customers SET name = 'x';\nUPDATE shop.nothing SET a = 1;\n")
        config = house.configure("bad", clones={"mask": [{"sql": str(bad)}]})
        before = house.names()
        said = house.zb("clone", "create", "--name", "m1", "-q", config=config).refused(14)
        assert str(bad) in said and "statement 2" in said
        assert house.names() == before
        assert house.zb("clone", "create", "--name", "m1", "--keep", "-q", config=config).rc == 14
        (kept,) = house.zb("clone", "list", "--json").data
        assert (kept["name"], kept["state"], kept["running"]) == ("m1", "failed", False)
        assert "never finished" in house.zb("clone", "start", "m1", "-q").refused(9)
        house.destroy("m1")
        assert house.names() == before


class CloneCareStory:
    """The tests, in the order of the story."""

    def test_two_processes_give_no_name_or_port_twice(self, house: House, history: dict[str, Any]) -> None:
        """One of them, made with production's accounts, has those and no password of its own."""
        sums = production(house)
        boot = self.boot(house)
        words = ("clone", "create", "--lease", "never", "--json")
        both = [house.begin(*words, *more, config=boot, forked=True) for more in ((), ("--keep-accounts",))]
        made = [c for each in both for c in json.loads(each.end(300).out)["data"]["clones"]]
        assert {c["name"] for c in made} == {"shop-dev1", "shop-dev2"}
        assert len({c["port"] for c in made}) == 2
        listed = house.zb("clone", "list", "--json").data
        assert {(c["name"], c["port"], c["running"]) for c in listed} == {
            (c["name"], c["port"], True) for c in made
        }
        (kept,) = (c for c in made if c["user"] is None)
        assert kept["password_file"] is None
        with entered(house, kept["name"], APP_USER, APP_PASSWORD) as clone:
            assert checksums(clone, ["shop.orders"]) == {"shop.orders": sums["shop.orders"]}
        assert production(house) == sums

    def test_the_daemon_brings_a_clone_back_and_ends_it_when_its_lease_is_over(self, house: House) -> None:
        """As after a reboot: no server runs, no clone is mounted, and the run directory is empty."""
        left, back = "shop-dev1", "shop-dev2"
        house.zb("clone", "stop", left, "--json").data  # noqa: B018  somebody's wish
        server = Process.parse((house.home / "run" / f"{back}.process").read_text())
        server.kill(60)
        shutil.rmtree(house.home / "run")
        for dataset in reversed(run("zfs", "list", "-Hro", "name", house.clones).splitlines()[1:]):
            run("zfs", "unmount", dataset)
        daemon = house.begin("daemon", "--log-format", "json", config=self.boot(house), forked=True)
        try:
            wait_until("it is started", (house.home / "run" / f"{back}.process").exists, 60)
            wait_until("it runs again", lambda: self.running(house) == {back: True, left: False}, 60)
            extend = ("clone", "extend", back, "--lease", "1s")
            wait_until("nobody works on it any more", lambda: house.zb(*extend).rc == 0, 60)
            wait_until("its directory is gone", lambda: not (house.home / "clones" / back).exists(), 120)
            wait_until("the clone is gone", lambda: self.running(house) == {left: False}, 60)
        finally:
            daemon.signal_group(signal.SIGTERM)
            assert daemon.end().rc == 0
        house.destroy(left)

    def boot(self, house: House) -> Path:
        return house.configure("boot", clones={"start": "boot"}, schedule={"snapshot": "180d"})

    def running(self, house: House) -> dict[str, bool]:
        return {c["name"]: c["running"] for c in house.zb("clone", "list", "--json").data}

    def test_reset_gives_the_data_anew_and_keeps_the_rest(
        self, house: House, history: dict[str, Any]
    ) -> None:
        (made,) = create(house, "--name", "dev1", "--snapshot", history["first"]["name"])
        password = Path(made["password_file"]).read_text()
        with entered(house, "dev1") as clone:
            asked(clone, "DROP TABLE shop.orders")
        back = house.zb(*typed("dev-clones.md", "zbackup clone reset dev1"), "--json").data
        assert (back["port"], back["snapshot"], back["running"]) == (made["port"], made["snapshot"], True)
        with entered(house, "dev1") as clone:
            assert checksums(clone, list(history["then"])) == history["then"]
        words = typed("dev-clones.md", "zbackup clone reset dev1 --to latest")
        newest = house.zb(*words, "--json").data
        assert newest["snapshot"] == house.backups()[-1]["name"]
        assert Path(newest["password_file"]).read_text() == password
        with entered(house, "dev1") as clone:
            assert checksums(clone, list(history["now"])) == history["now"]

    def test_a_copy_depends_on_no_backup(self, house: House, history: dict[str, Any]) -> None:
        """Production keeps its snapshots, and the clone what was written to it."""
        with entered(house, "dev1") as clone:
            asked(clone, "DELETE FROM shop.orders WHERE id > 7")
            sums = checksums(clone, list(history["then"]))
        self.assert_no_room_is_told_before_the_server_is_stopped(house)
        newest = house.backups()[-1]["backup"]
        made = house.zb("clone", "show", "dev1", "--json").data
        assert self.why(house, newest) == ["origin of clone dev1"]
        before = house.snapshots()
        copied = house.zb("clone", "promote", "dev1", "--json").data
        assert (copied["copied"], copied["port"], copied["running"]) == (True, made["port"], True)
        assert house.snapshots() == before
        assert self.why(house, newest) == []
        with entered(house, "dev1") as clone:
            assert checksums(clone, list(history["then"])) == sums
        assert "depends on no snapshot" in house.zb("clone", "promote", "dev1", "-q").refused(9)

    def assert_no_room_is_told_before_the_server_is_stopped(self, house: House) -> None:
        dataset = house.zb("clone", "show", "dev1", "--json").data["dataset"]
        used = int(run("zfs", "get", "-Hpo", "value", "used", dataset))
        run("zfs", "set", f"quota={used + (4 << 20)}", dataset)
        assert "are available to" in house.zb("clone", "promote", "dev1", "-q").refused(3)
        assert self.running(house) == {"dev1": True}
        assert not [s for s in house.snapshots() if s.startswith(dataset)]
        run("zfs", "set", "quota=none", dataset)

    def why(self, house: House, backup: str) -> list[str]:
        """Why a clone keeps a backup, by the plan of a prune."""
        rows = house.zb("prune", "--dry-run", "--json").data[0]["keep"]
        (reasons,) = (row["reasons"] for row in rows if row["backup"] == backup)
        return [reason for reason in reasons if reason.startswith("origin")]

    def test_a_lease_is_announced_held_up_and_ended(self, house: House, history: dict[str, Any]) -> None:
        told = house.home / "told"
        hook = ("/bin/sh", "-c", f'echo "$ZBACKUP_CLONE $ZBACKUP_LEASE_ENDS" >> {told}')
        made = house.zb(*typed("dev-clones.md", "zbackup clone extend"), "--json").data
        create(house, "--name", "free", "--lease", "never")
        nothing = Reaped(destroyed=(), warned=(), left=())
        assert reaped(house, timedelta(hours=7)) == nothing
        soon = timedelta(hours=7, minutes=50)
        assert reaped(house, soon, on_warning=hook).warned == ("dev1",)
        assert reaped(house, soon, on_warning=hook) == nothing, "announced twice"
        assert told.read_text().split()[0] == "dev1" and len(told.read_text().splitlines()) == 1
        longer = house.zb("clone", "extend", "dev1", "--lease", "10h", "--json").data
        assert longer["lease_ends"] > made["lease_ends"]
        assert reaped(house, timedelta(hours=9)) == nothing
        words = typed("dev-clones.md", "zbackup clone protect", {"2024-05-03 18:00": "+1d"})
        house.zb(*words, "--json").data  # noqa: B018
        assert reaped(house, timedelta(hours=11)) == nothing
        assert "is protected" in house.zb("clone", "destroy", "dev1", "--yes", "-q").refused(9)
        with entered(house, "dev1") as clone:
            assert asked(clone, "SELECT 1") == ((1,),)
        assert reaped(house, timedelta(hours=25)).destroyed == ("dev1",)
        assert [c["name"] for c in house.zb("clone", "list", "--json").data] == ["free"]

    def test_one_that_is_busy_is_left_whole_and_tried_again(
        self, house: House, history: dict[str, Any]
    ) -> None:
        house.zb("clone", "extend", "free", "--lease", "1h", "--json").data  # noqa: B018
        later = timedelta(hours=2)
        with (house.home / "clones" / "free" / "record.json").open():
            (left,) = reaped(house, later).left
            assert left.startswith("free: ") and "is in use by" in left and f"(pid {os.getpid()})" in left
            (shown,) = house.zb("clone", "list", "--json").data
            assert (shown["name"], shown["state"], shown["running"]) == ("free", "ready", True), (
                "nothing is half done"
            )
        assert reaped(house, later).destroyed == ("free",)
        assert house.zb("clone", "list", "--json").data == []


class ReplicaStory:
    """Production has been told of an account for replication."""

    count = 1

    def test_replicas_follow_production(self, house: House, history: dict[str, Any]) -> None:
        secret = house.home / "replication"
        secret.touch(mode=0o600)
        secret.write_text(REPLICATION_PASSWORD)
        ((port,),) = house.server.sql("SELECT @@port")
        account = {"port": port, "user": REPLICATION_USER, "password": {"file": str(secret)}}
        config = house.configure("replica", clones={"replica": account, "memory": "32MiB"})
        refused = house.zb("clone", "create", "--as-replica-of", "production", "-q").refused(2)
        assert "clones.replica" in refused
        house.snapshot()
        house.server.sql("UPDATE shop.customers SET name = 'between' WHERE id = 1")
        few = {"--count 5": f"--count {self.count}", "reporting": "rep"}
        words = typed("dev-clones.md", "zbackup clone create shop --as-replica-of", few)[2:]
        names = [made["name"] for made in create(house, *words, config=config)]
        assert len(names) == self.count
        house.server.sql("UPDATE shop.customers SET name = 'after' WHERE id = 2")
        self.await_names(house, names, ["between", "after"])
        house.zb("clone", "stop", names[0], "--json").data  # noqa: B018
        house.server.sql("UPDATE shop.customers SET name = 'again' WHERE id = 2")
        house.zb("clone", "start", names[0], "--json").data  # noqa: B018
        self.await_names(house, names, ["between", "again"])
        sums = house.server.checksum()
        for name in names:
            with entered(house, name) as clone:
                assert checksums(clone, list(sums)) == sums, name
        house.destroy(*names)

    def await_names(self, house: House, replicas: list[str], names: list[str]) -> None:
        def there(replica: str) -> bool:
            with entered(house, replica) as clone:
                found = asked(clone, "SELECT name FROM shop.customers WHERE id IN (1, 2) ORDER BY id")
            return [name for (name,) in found] == names

        for replica in replicas:
            wait_until(f"{replica} has {names}", partial(there, replica), 120)
