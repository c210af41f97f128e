"""The rest of the how-tos on replacing a server: one that is down, and what was set aside."""

import shlex
import subprocess

import pymysql

from tests.lab.mysql_fixture import free_port
from tests.lab.pool import run
from tests.system.house import toml, wait_until
from tests.system.switch_story import Shop
from tests.unit.docs.typed import shell, typed


class SwitchPages:
    """The last of the story: production's old datasets are destroyed in it."""

    def test_a_server_that_is_down_is_replaced_and_the_old_one_deleted(self, shop: Shop) -> None:
        house, sums = shop.house, shop.house.server.checksum()
        restored_while_down(shop)
        words = typed("restore-when-the-server-is-down.md", "zbackup switch shop last --dry-run")
        assert house.zb(*words, "--json", config=shop.config).data["dry_run"]
        words = typed("restore-when-the-server-is-down.md", "zbackup switch shop last --confirm")
        report = house.zb(*words, "--json", "-q", config=shop.config).data
        shop.require(sums)
        ends = [(name, name.rpartition("-before-")) for name in report["aside"]]
        aside = [name for name, (root, _, rest) in ends if root in shop.roots and "/" not in rest]
        assert len(aside) == len(shop.roots)
        for name in aside:
            there = {"tank/mysql-before-20240502T081200Z": shlex.quote(name)}
            run(*shlex.split(shell("replace-production.md", "zfs list -r", there)))
            run(*shlex.split(shell("replace-production.md", "zfs destroy -r", there)))
        words = typed("replace-production.md", "zbackup clone destroy", {"good": "last"})
        house.zb(*words, "--yes", "--json", config=shop.config).data  # noqa: B018  checks the exit status
        shop.require(sums)

    def test_it_is_replaced_by_hand(self, shop: Shop) -> None:
        """With ZFS alone: the log's dataset lies within that of the data, as on the page."""
        house, sums = shop.house, shop.house.server.checksum()
        restored_while_down(shop)
        house.zb(*typed("restore-when-the-server-is-down.md", "zbackup clone stop")).succeeded  # noqa: B018
        clones = {"tank/zbackup": house.clones}
        data, log = map(shlex.quote, shop.parts)
        sh(shell("restore-when-the-server-is-down.md", "zfs snapshot", clones))
        sh(shell("restore-when-the-server-is-down.md", "zfs rename", {"tank/mysql": data}))
        first, second = clones | {"tank/mysql": data}, clones | {"tank/mysql/binlog": log}
        sh(shell("restore-when-the-server-is-down.md", "zfs send tank/zbackup/last/0", first))
        sh(shell("restore-when-the-server-is-down.md", "zfs send tank/zbackup/last/1", second))
        subprocess.run([shop.service.file, "start"], check=True)
        wait_until("it answers", lambda: answers(shop), 60)
        shop.require(sums)
        sh(shell("restore-when-the-server-is-down.md", "zfs destroy -r", clones))
        words = typed("restore-when-the-server-is-down.md", "zbackup clone destroy")
        house.zb(*words, "--yes", "--json").data  # noqa: B018
        words = typed("restore-when-the-server-is-down.md", "zbackup snapshot")
        assert house.zb(*words, "--json", config=shop.config).data[0]["snapshot"]["finished"]

    def test_on_a_host_that_has_nothing_it_is_made_production_again(self, shop: Shop) -> None:
        """Restored without a configuration, and by the one that is printed then put into its place."""
        house, sums, (root,) = shop.house, shop.house.server.checksum(), shop.roots
        vault = f"{shop.vault.name}/again"
        run("zfs", "create", vault)
        config = house.configure("again", ship=[{"name": "again", "to": f"zfs:{vault}", "initial": "allow"}])
        assert house.zb("ship", config=config).rc == 0
        shop.service.stop()
        where = {name: run("zfs", "get", "-Hpo", "value", "mountpoint", name).strip() for name in shop.parts}
        run("zfs", "destroy", "-r", root)
        here = {"otherpool/backups/db1": vault, "tank/recovered": f"{house.pool.name}/recovered"}
        words = typed("disaster-recovery.md", "zbackup restore --from zfs:otherpool", here)
        said = house.bare(*words, "--server", str(house.program), "-q", environment={}).succeeded
        login = {
            "socket": str(house.server.settings.socket),
            "password": {"file": str(house.home / "password")},
        }
        added = "\n".join(["[instance.shop]", *(f"{key} = {toml(value)}" for key, value in login.items())])
        printed = said.partition("production's place:\n\n")[2].replace("[instance.shop]", added, 1)
        service = "\n".join(f"{key} = {toml(value)}" for key, value in shop.service.table().items())
        config.write_text(f"{printed}\n[instance.shop.service]\n{service}\n")
        _, new = house.zb("clone", "list", "--json", config=config).data
        for name, mountpoint in where.items():
            there = {"/var/lib/mysql": shlex.quote(mountpoint), "tank/mysql": shlex.quote(name)}
            sh(shell("disaster-recovery.md", "zfs create -o mountpoint", there))
        named = {"shop-20260503t040011z": new["name"]}
        words = typed("disaster-recovery.md", "zbackup switch shop shop-2026", named)
        house.zb(*words, "--json", "-q", config=config).data  # noqa: B018  checks the exit status
        shop.require(sums)


def restored_while_down(shop: Shop) -> None:
    """To the last transaction, under a port of its own."""
    shop.service.stop()
    port = {"3307": str(free_port())}
    words = typed("restore-when-the-server-is-down.md", "zbackup restore shop --to now", port)
    shop.house.zb(*words, "--json", config=shop.config).data  # noqa: B018  checks the exit status


def answers(shop: Shop) -> bool:
    try:
        return bool(shop.house.server.sql("SELECT 1"))
    except pymysql.MySQLError:
        return False


def sh(line: str) -> None:
    """A line as a shell takes it; PoolError where it fails."""
    run("sh", "-c", f"set -e; {line}")
