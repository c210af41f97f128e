"""A second host that backups are shipped to through its gate, and a third that has lost everything."""

import contextlib
import shlex
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from tests.lab.pool import Pool, create_pool, run
from tests.lab.two_hosts import TwoHosts
from tests.system.house import ZBACKUP, Zbackup
from tests.system.program import Result
from tests.unit.docs.typed import shell, typed
from zbackup.model.shipping import COMMITTED


class Offsite:
    """zbackup with the second host as its destination: sending by one key, coming back by another."""

    def __init__(self, house: Zbackup, hosts: TwoHosts, new: Pool) -> None:
        self.house, self.hosts, self.new = house, hosts, new
        # A root of its own below that of the keys: instances of one name must not meet.
        self.place = new.name.replace(".", "-")
        here = {"tank/backups/db1": f"{hosts.root}/{self.place}"}
        made = shell(
            "append-only-backup-host.md", "zfs create -o canmount=off -o mountpoint=none -o quota", here
        )
        run(*shlex.split(made))
        self.sending = house.configure("sending", ship=[self.ship("append-only")])
        # A host that has nothing of the instance: another pool, and no dataset of that name.
        self.burnt = house.configure(
            "burnt",
            datasets=[f"{new.name}/gone"],
            ship=[self.ship("read-only")],
            recovery={"clones": f"{new.name}/back", "mountpoint": str(new.home / "back")},
        )

    def ship(self, key: str) -> Mapping[str, object]:
        """The destination in a configuration."""
        ssh = {"identity": str(self.hosts.identity(key)), "known_hosts": str(self.hosts.known_hosts)}
        return {"name": "offsite", "to": f"{self.hosts.url}/{self.place}", "initial": "allow", "ssh": ssh}

    def send(self, *words: str, config: Path | None = None) -> Result:
        """Run zbackup where the database is."""
        return self.house.zb(*words, config=config or self.sending, environment=self.hosts.environment)

    def back(self, *words: str) -> Result:
        """Run zbackup where nothing is."""
        return self.house.zb(*words, config=self.burnt, environment=self.hosts.environment)

    def make_log(self) -> None:
        """Make the dataset of the log archive, which the receiving user cannot mount: see the how-to."""
        make_log(f"{self.hosts.root}/{self.place}")

    def restoring(self, to: str, name: str) -> tuple[str, ...]:
        """The words of a restore from there."""
        return ("restore", "--from", "offsite", "--to", to, "--name", name, "--json")

    def restoring_there(self, moment: datetime) -> tuple[str, ...]:
        """The words of a restore that runs where the copies lie."""
        then = {"2026-03-01 10:02": moment.isoformat()}
        return typed("disaster-recovery.md", "zbackup restore shop --from here", then)

    def alone(self, way: str) -> tuple[tuple[str, ...], tuple[str, ...], str, str]:
        """Of a host without a configuration: the options of the address, over ssh or on the copies' own pool,
        the words of a restore from there as the page has them, where that comes to, and the copy whose key is
        needed."""
        if way == "ssh":
            identity, below = str(self.hosts.identity("read-only")), f"{self.new.name}/alone"
            known = ("--known-hosts", str(self.hosts.known_hosts))
            here = {
                "ssh://zrecv@backuphost/tank/backups/db1": self.hosts.url,
                "/root/read-only.key": shlex.quote(identity),
                "tank/recovered": below,
            }
            page = (*typed("disaster-recovery.md", "zbackup restore --from ssh", here), *known)
            address = ("--from", self.hosts.url, "--identity", identity, *known)
            return address, page, below, f"{below}/alone.copy/0"
        copies, below = f"{self.hosts.root}/{self.place}", f"{self.hosts.pool.name}/alone"
        here = {"zfs:tank/backups/db1": f"zfs:{copies}", "tank/recovered": below}
        page = typed("disaster-recovery.md", "zbackup restore --from zfs:tank", here)
        return ("--from", f"zfs:{copies}"), page, below, self.copies[0]

    def in_place(self) -> Mapping[str, object]:
        """The destination as the second host itself names it, which lies in the same kernel."""
        return {"name": "here", "to": f"zfs:{self.hosts.root}/{self.place}"}

    @property
    def copies(self) -> list[str]:
        """The datasets that hold the copies."""
        return [f"{self.hosts.root}/{self.place}/shop/{name}" for name in self.house.datasets]

    def committed(self) -> set[str]:
        """Names of the backups that are committed there."""
        columns = ("-Hrt", "snapshot", "-d", "1", "-o", f"name,{COMMITTED}")
        rows = [[r.split("\t") for r in run("zfs", "list", *columns, c).splitlines()] for c in self.copies]
        return set.intersection(*({n.partition("@")[2] for n, when in each if when != "-"} for each in rows))

    def left(self) -> list[str]:
        """All there is on the new pool, without the pool."""
        return run("zfs", "list", "-Hrt", "all", "-o", "name", self.new.name).split("\n")[1:-1]


def make_log(root: str) -> None:
    """Make the dataset of the log archive below a destination's root, unless it is there."""
    name = f"{root}/shop/log"
    if name in run("zfs", "list", "-Hro", "name", root).splitlines():
        return
    here = {"zbackup ": f"{ZBACKUP} ", "tank/backups/db1/shop/log": name}
    run(*shlex.split(shell("append-only-backup-host.md", "zbackup mount tank/backups/db1/shop/log", here)))


@contextlib.contextmanager
def offsite_of(house: Zbackup, hosts: TwoHosts) -> Iterator[Offsite]:
    """With a pool for what comes back, which goes afterwards."""
    new = create_pool()
    try:
        yield Offsite(house, hosts, new)
    finally:
        new.destroy()


def told(offsite: Offsite, socket: str) -> list[int]:
    """The numbers in a recovered MariaDB, by its socket."""
    with offsite.house.clone({"socket": socket}) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT n FROM story.told ORDER BY n")
        return [row[0] for row in cursor.fetchall()]
