"""Shipped through the gate of a second host, and brought back from there when the first has lost all.

A MariaDB whose data is encrypted and whose log is not: one set that is sent raw in part.
"""

import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.lab.pool import Pool, run
from tests.lab.repeats import some
from tests.lab.two_hosts import TwoHosts, hosts
from tests.lab.variants import Variant
from tests.platform.shipping import Skewed
from tests.system.archive_story import EARLIER, LATEST, archiving, lose_host, require_all_back
from tests.system.come_back import Offsite, offsite_of, told
from tests.system.conftest import end_clones
from tests.system.daemon_story import logged_daemon
from tests.system.forked import forks
from tests.system.house import House, build, next_second, now, utc, wait_until
from tests.system.program import Result
from tests.unit.docs.typed import shell, typed
from zbackup import app
from zbackup.config.load import load
from zbackup.jobs.cleanup.cleanup import reconcile
from zbackup.jobs.context import Context
from zbackup.jobs.restore.at_destination import at_destination, clone_at_destination
from zbackup.jobs.restore.destination_source import DestinationSource
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.jobs.ship.verify_at import verify_at
from zbackup.model.moment import parse_moment
from zbackup.model.progress import Silent

__all__ = ["hosts"]


@pytest.fixture(scope="module")
def key(pool: Pool) -> Path:
    file = pool.home / "key"
    file.write_text("not a secret")
    return file


@pytest.fixture(scope="module")
def house(pool: Pool, key: Path) -> Iterator[House]:
    encrypted = {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{key}"}
    data, log = pool.dataset("locked", encrypted), pool.dataset("log")
    with build(pool, pool.home, Variant(flavour="mariadb-10.11"), data, log) as server:
        house = House(pool, pool.home, server, (data.name, log.name))
        with forks(house.home) as house.forks:
            yield house
        end_clones(house)


@pytest.fixture(scope="module")
def moments() -> dict[int, datetime]:
    """Before the second row of each backup."""
    return {}


@pytest.fixture(scope="module")
def offsite(house: House, hosts: TwoHosts, moments: dict[int, datetime]) -> Iterator[Offsite]:
    """Two backups of a growing table, all shipped by the append-only key."""
    with offsite_of(house, hosts) as made:
        house.server.sql("CREATE DATABASE story")
        house.server.sql("CREATE TABLE story.told (n INT PRIMARY KEY)")
        for number in range(2):
            house.server.sql("INSERT INTO story.told VALUES (%s)", (number * 2,))
            moments[number] = next_second()
            house.server.sql(f"CREATE TABLE story.brief{number} (n INT)")
            house.server.sql(f"DROP TABLE story.brief{number}")
            house.server.sql("INSERT INTO story.told VALUES (%s)", (number * 2 + 1,))
            house.snapshot()
            assert made.send("ship").rc == 0
        yield made


def test_the_real_sender_passes_the_real_gate(offsite: Offsite) -> None:
    listed = offsite.send(*typed("disaster-recovery.md", "zbackup list shop"), "--json").data[0]["backups"]
    reach = offsite.send(*typed("disaster-recovery.md", "zbackup window shop"), "--json").data[0]
    assert len(reach["ranges"]) == 1, reach
    assert [b["name"] for b in listed] == [b["name"] for b in offsite.house.backups()]
    assert all(b["complete"] and b["finished"] for b in listed)
    assert offsite.send("ship", "--json").data[0]["committed"] == []
    (said,) = offsite.house.zb("status", "--json", config=offsite.sending).data[0]["shipped"]
    assert (said["destination"], said["newest"]) == ("offsite", listed[-1]["name"])


def test_a_restore_is_cut_off_while_it_fetches_and_goes_on(
    offsite: Offsite, moments: dict[int, datetime], key: Path
) -> None:
    """To a moment between two backups, on a host that has nothing of the instance, its key neither."""
    dry = typed("disaster-recovery.md", "zbackup restore shop --from offsite --to latest --dry-run")
    planned = offsite.back(*dry, "--json").data
    assert planned["fetch"] > 1_000_000 and offsite.left() == [], "a dry run fetches nothing"
    back = {"latest": moments[1].isoformat(), "--name shop": "--name back"}
    page = typed("disaster-recovery.md", "zbackup restore shop --from offsite --to latest --name", back)
    words = (*page, "--json")
    link = offsite.hosts.link
    link.cut_after(3_000_000, back=True)
    cut = offsite.back(*words)
    assert cut.rc != 0 and "the same command continues" in cut.err, cut
    assert link.is_cut
    link.mend()
    locked = offsite.back(*words)
    part = f"{offsite.new.name}/back/back.copy/0"
    assert locked.rc == 9 and f"zfs load-key {part}" in locked.err, locked
    assert "continuing with what was fetched" in locked.err
    here = {"load-key": f"load-key -L file://{key}", "newpool/zbackup/shop.copy/0": part}
    run(*shlex.split(shell("disaster-recovery.md", "zfs load-key", here)))
    report = offsite.back(*words)
    assert "continuing with what was fetched" in report.err, report
    assert told(offsite, report.data["socket"]) == [0, 1, 2]


def test_a_moment_after_the_last_backup_is_not_promised(offsite: Offsite) -> None:
    refused = offsite.back("restore", "--from", "offsite", "--to", "now", "-q").refused(5)
    assert "do not reach that moment" in refused and "--to latest" in refused


def test_the_clone_goes_and_what_was_fetched_with_it(offsite: Offsite) -> None:
    names = {c["name"] for c in offsite.back("clone", "list", "--json").data}
    assert names == {"back", "back.copy"}
    refused = offsite.back("clone", "destroy", "back.copy", "--yes").refused(9)
    assert "has children: destroy back first" in refused
    assert offsite.back("clone", "destroy", "back", "--yes").rc == 0
    assert offsite.left() == [f"{offsite.new.name}/back"]


def test_a_drill_that_cannot_open_what_it_fetched_goes_on_when_it_can(offsite: Offsite, key: Path) -> None:
    """The key of encrypted copies is loaded by hand. The verdict stays on this host."""
    words = (*typed("append-only-backup-host.md", "zbackup verify shop"), "--read", "none", "--drill")
    part = f"{offsite.new.name}/back/shop-drill.copy/0"
    assert f"zfs load-key {part}" in offsite.back(*words, "-q").refused(9)
    first, second = offsite.back("list", "--at", "offsite", "--json").data[0]["backups"]
    assert second["drill"] is None and first["drill"]["passed"] is False
    assert "zfs load-key" in first["drill"]["why"]
    assert "drill FAILED" in offsite.back("list", "--at", "offsite").out
    run("zfs", "load-key", "-L", f"file://{key}", part)
    drill = offsite.back(*words, "--json").data[0]["drill"]
    assert drill["gtid"] == second["gtid"] and drill["tables"] > 2
    assert offsite.left() == [f"{offsite.new.name}/back"]
    first, second = offsite.back("list", "--at", "offsite", "--json").data[0]["backups"]
    assert second["drill"] is None and first["drill"] == drill["verdict"] and first["drill"]["passed"]


def test_it_runs_where_the_copies_lie_and_nothing_is_copied(
    offsite: Offsite, moments: dict[int, datetime], key: Path
) -> None:
    """From a host that has the instance, and the copies on another pool."""
    refused = offsite.send("restore", "--from", "offsite", "--run-at-destination", "--to", "latest", "-q")
    assert "not on this host" in refused.refused(9)
    config = offsite.house.configure("two pools", ship=[offsite.in_place()])
    words = offsite.restoring_there(moments[1])
    refused = offsite.house.zb(*words, "--name", "there", "-q", config=config)
    assert f"zfs load-key {offsite.copies[0]}" in refused.refused(9)
    run("zfs", "load-key", "-L", f"file://{key}", offsite.copies[0])
    report = offsite.house.zb(*words, "--name", "there", "--json", config=config).data
    assert told(offsite, report["socket"]) == [0, 1, 2]
    place = f"{offsite.hosts.pool.name}/zbackup-clones"
    origins = run("zfs", "list", "-Hro", "origin", f"{place}/there.copy").split()
    assert origins[0] == "-" and {o.partition("@")[0] for o in origins[1:]} == set(offsite.copies)
    # A restore here takes no name that is taken there.
    taken = offsite.house.zb("restore", "--to", "now", "--name", "there", "-q", config=config)
    assert f"{place}/there exists" in taken.refused(10)
    # Nor can it take production's place from another pool.
    before = offsite.house.state()
    bound = offsite.house.zb("switch", "shop", "there", "--confirm", "shop", "-q", config=config).refused(9)
    assert "cannot leave them: fetch them (zbackup restore shop --from here --to 2" in bound
    assert offsite.house.state() == before
    assert offsite.house.zb("clone", "destroy", "there", "--yes", config=config).rc == 0
    assert run("zfs", "list", "-Hro", "name", place).split() == [place]


def test_a_drill_where_the_copies_lie_replays_from_one_to_the_next(offsite: Offsite) -> None:
    config, place = offsite.house.home / "two pools.toml", f"{offsite.hosts.pool.name}/zbackup-clones"
    words = ("verify", "--at", "here", "--read", "none", "--drill", "--json")
    drill = offsite.house.zb(*words, config=config).data[0]["drill"]
    first, second = offsite.house.zb("list", "--at", "here", "--json", config=config).data[0]["backups"]
    assert drill["base"]["name"] == first["name"] and drill["gtid"] == second["gtid"]
    assert first["drill"] == drill["verdict"] and drill["verdict"]["transactions"] > 0 and drill["tables"] > 2
    assert second["drill"] is None and [b["drill"] for b in offsite.house.backups()] == [None, None]
    assert run("zfs", "list", "-Hro", "name", place).split() == [place]


def test_everything_before_one_transaction_comes_back_from_there(offsite: Offsite) -> None:
    """Of which only the name is known before its log is at hand."""
    config = offsite.house.home / "two pools.toml"
    last_row = offsite.house.backups()[-1]["gtid"]
    words = ("restore", "--from", "here", "--run-at-destination", "--json", "--before")
    plan = offsite.house.zb(*words[:-1], "--before-drop", "story.brief1", "--dry-run", config=config).data
    assert plan["before"] == offsite.house.log("--table", "story.brief1", "--kind", "drop")[0][0]["gtid"]
    plan = offsite.house.zb(*words, last_row, "--dry-run", config=config).data
    assert [plan[key]["name"] for key in ("base", "log")] == [b["name"] for b in offsite.house.backups()]
    report = offsite.house.zb(*words, last_row, "--name", "exact", config=config).data
    assert told(offsite, report["socket"]) == [0, 1, 2]
    skipped = report["recovered"]["first_skipped"]
    assert report["before"] == skipped["gtid"] == last_row and report["target"]["at"] == skipped["committed"]
    assert offsite.house.zb("clone", "destroy", "exact", "--yes", config=config).rc == 0
    refused = offsite.house.zb(*words, "0-999-999999", "-q", config=config).refused(5)
    assert "no backup there holds 0-999-999999: the newest ends at binlog." in refused


def test_what_a_killed_restore_cloned_of_the_copies_goes(offsite: Offsite) -> None:
    settings = load(offsite.house.home / "two pools.toml")
    ctx = app.context(settings, settings.instance["shop"], Silent())
    at = at_destination(ctx, ctx.destinations[0])
    with ctx.destinations[0].adapter.connect() as session:
        base, source = session.copies().backups
    assert clone_at_destination(at, "left", base, source).backups[0].complete
    assert reconcile(ctx).healed == ("removed the unfinished clone left.copy",)
    assert run("zfs", "list", "-Hro", "name", at.clones).split() == [at.clones]


def test_on_the_receiving_host_whose_clock_is_a_day_off(
    offsite: Offsite, moments: dict[int, datetime]
) -> None:
    """It has a configuration of its own, and none of the instance's datasets."""
    settings = load(
        offsite.house.configure(
            "receiver", datasets=[f"{offsite.hosts.pool.name}/gone"], ship=[offsite.in_place()]
        )
    )
    wrong = replace(app.context(settings, settings.instance["shop"], Silent()), clock=Skewed())
    (destination,) = wrong.destinations
    at = parse_moment(moments[1].isoformat(), wrong.zone, moments[1])
    source = DestinationSource(destination, run_at_destination=True)
    for moment, rows in ((at, [0, 1, 2]), (source.latest(wrong, RestoreOptions()), [0, 1, 2, 3])):
        report = restore(wrong, moment, RestoreOptions(name=f"there{len(rows)}"), source)
        assert told(offsite, report.socket) == rows
    config = offsite.house.home / "receiver.toml"
    for name in ("there3", "there4"):
        assert offsite.house.zb("clone", "destroy", name, "--yes", config=config).rc == 0
    assert _verified(offsite) == ()


@pytest.mark.parametrize("way", some(["ssh", "zfs"], "ssh"))
def test_a_host_without_a_configuration_restores_from_the_address_alone(
    offsite: Offsite, key: Path, way: str
) -> None:
    """Over ssh the address is above where each host has its copies; on their own pool nothing is copied."""
    house, hosts = offsite.house, offsite.hosts
    address, page, below, part = offsite.alone(way)
    (there,) = house.bare("list", *address, "--json", environment=hosts.environment).data
    assert [b["name"] for b in there["backups"]] == [b["name"] for b in house.backups()]
    (reach,) = house.bare("window", *address, "--json", environment=hosts.environment).data
    assert (reach["ranges"][0]["after"], reach["promised"]) == (there["window"]["after"], None), reach
    words = (*page, "--server", str(house.program), "--name", "alone", "--json")
    back = house.bare(*words, environment=hosts.environment)
    if back.rc:  # a test before may have opened the copies
        assert back.rc == 9 and f"zfs load-key {part}" in back.err, back
        run("zfs", "load-key", "-L", f"file://{key}", part)
        back = house.bare(*words, environment=hosts.environment)
    assert told(offsite, back.data["socket"]) == [0, 1, 2, 3]
    config = house.home / "printed.toml"
    config.write_text(back.data["configuration"])
    destroyed = house.zb("clone", "destroy", "alone", "--yes", config=config, environment=hosts.environment)
    assert destroyed.rc == 0, destroyed
    assert run("zfs", "list", "-Hro", "name", below).split() == [below]
    run("zfs", "destroy", below)


def _verified(offsite: Offsite) -> tuple[str, ...]:
    """By a host that has both, with a wrong clock, too."""
    settings = load(offsite.house.home / "two pools.toml")
    wrong: Context = replace(app.context(settings, settings.instance["shop"], Silent()), clock=Skewed())
    report = verify_at(wrong, wrong.destinations[0], most=0)
    assert len(report.compared) == 2 and [r.same for r in report.read] == [True, True]
    return report.problems


def test_only_a_trusted_key_prunes_there(offsite: Offsite) -> None:
    """By the destination's rules, and what is sent goes on from the newest."""
    rules = {"keep": [], "last": 1, "minimum": 1, "window": "1 minute"}
    backups = offsite.house.backups()
    names, newest = [b["name"] for b in backups], utc(backups[-1]["as_of"])
    wait_until("none is needed for the promised minute", lambda: now() - newest > timedelta(minutes=1), 90)
    for trust, status, left in (("append-only", 3, names), ("trusted", 0, names[-1:])):
        config = offsite.house.configure(
            f"pruning {trust}", ship=[{**offsite.ship(trust), "retention": rules, "grace": "0s"}]
        )
        here = {"--at here": "--at offsite"}
        page = typed("append-only-backup-host.md", "zbackup prune shop --at here --dry-run", here)
        planned = offsite.send(*page, "--json", config=config).data[0]
        assert [b["name"] for b in planned["destroy"]] == names[:-1], planned
        page = typed("append-only-backup-host.md", "zbackup prune shop --at here", here)
        pruned = offsite.send(*page, "--json", config=config)
        assert pruned.rc == status and (not status or "refused by the gate" in pruned.out), pruned
        assert offsite.committed() == set(left), pruned
    offsite.house.snapshot()
    assert len(offsite.send("ship", "--json").data[0]["committed"]) == 1


def test_a_key_that_was_changed_at_the_source_has_to_be_loaded_again_over_there(
    offsite: Offsite, key: Path
) -> None:
    """What was loaded there opens the copies no more since the newest stream."""
    data, config = offsite.house.datasets[0], offsite.house.home / "two pools.toml"
    if run("zfs", "get", "-Ho", "value", "keystatus", offsite.copies[0]).strip() != "available":
        run("zfs", "load-key", "-L", f"file://{key}", offsite.copies[0])
    key.write_text("a newer secret")
    run("zfs", "change-key", "-o", f"keylocation=file://{key}", data)
    offsite.house.snapshot()
    assert offsite.send("ship").rc == 0
    words = ("restore", "--from", "here", "--run-at-destination", "--to", "latest", "--name", "newer")
    verify = ("verify", "--at", "here", "--read", "64KiB")
    shut = f"the loaded key of {offsite.copies[0]} does not open"
    refused = offsite.house.zb(*words, "-q", config=config).refused(9)
    verified = offsite.house.zb(*verify, config=config)
    assert shut in refused and verified.rc == 11
    assert shut in " ".join((verified.out + verified.err).split())
    order = refused[refused.index("zfs unload-key") :]
    subprocess.run(["sh", "-ec", order], input="a newer secret\n", text=True, check=True)
    assert offsite.house.zb(*verify, config=config).rc == 0
    report = offsite.house.zb(*words, "--json", config=config).data
    assert told(offsite, report["socket"]) == [0, 1, 2, 3]
    assert offsite.house.zb("clone", "destroy", "newer", "--yes", config=config).rc == 0


def test_the_daemon_ships_on_schedule_and_goes_on_after_it_was_killed(offsite: Offsite) -> None:
    schedule = {"snapshot": "6s", "ship": "3s"}
    config = offsite.house.configure("daily", ship=[offsite.ship("append-only")], schedule=schedule)
    before, environment = offsite.committed(), offsite.hosts.environment
    for wanted in (1, 2):
        daemon = offsite.house.begin("daemon", config=config, environment=environment, forked=True)
        try:
            wait_until("one more is there", lambda n=wanted: len(offsite.committed() - before) >= n, 150)
        finally:
            daemon.signal_group(signal.SIGKILL)
            print(daemon.end())
    # What received the stream that was cut may be there for a moment yet.
    wait_until("the next ship goes on", lambda: offsite.send("ship", "--json").rc == 0, 60)
    assert [b["name"] for b in offsite.house.backups() if b["finished"]][-1] in offsite.committed()


def test_what_is_never_shipped_is_archived_through_the_gate(offsite: Offsite) -> None:
    """Appended by a key that may add and do nothing else. It comes back when the host is lost, below."""
    house = offsite.house
    archive = {"to": ["offsite"], "every": "1s"}
    config = house.configure("archiving", ship=[offsite.ship("append-only")], archive=archive)

    def archived() -> dict[str, Any]:
        found: dict[str, Any] = offsite.send("archive", "--once", "--json", config=config).data[0]
        return found

    # The gate's user cannot mount: what root has to do there is said, and is all that is lacking.
    refused = offsite.send("archive", "--once", "-q", config=config).refused(9)
    orders = refused.partition("as root, ")[2].partition(" (on ")[0]
    for order in orders.split("; "):
        run(*shlex.split(order))
    house.server.sql("INSERT INTO story.told VALUES (100)")
    first = archived()
    assert first["appended"] > 0 and first["gap"] is None and first["epoch"] == 0
    assert archived()["appended"] == 0
    house.server.sql("FLUSH BINARY LOGS")
    house.server.sql("INSERT INTO story.told VALUES (101)")
    second = archived()
    assert 0 < second["appended"] < first["appended"] + 10_000 and second["end"] != first["end"]
    # The dataset of the archive is nobody's copy.
    assert offsite.send("ship", "--json", config=config).data[0]["committed"] == []
    home = f"{offsite.hosts.root}/{offsite.place}/shop"
    _append_elsewhere_and_remove(offsite, home)
    # In a lane of the daemon's, through a link that breaks, and a daemon that is killed.
    with logged_daemon(config, house.home / "archiving.log", offsite.hosts.environment) as process:
        house.server.sql("INSERT INTO story.told VALUES (102)")
        before = _end_there(offsite, home)
        house.server.sql("INSERT INTO story.told VALUES (103)")
        wait_until("the daemon has archived it", lambda: _end_there(offsite, home) != before, 120)
        process.kill()
    house.server.sql("INSERT INTO story.told VALUES (104)")
    archived()
    said = offsite.send("archive", "status", "--json", config=config).data[0]
    assert said["exposed_s"] < 600 and said["error"] is None and said["end"] == archived()["end"]


def _append_elsewhere_and_remove(offsite: Offsite, home: str) -> None:
    """Whoever has the key appends at the end, and nowhere else."""
    server, name, _, _, last = _end_there(offsite, home).split(" ")
    begin = f"{0:016}-{last[17:]}"
    for words in (("append", home, server, name, begin), ("remove", home, server, name)):
        attack = offsite.hosts.ssh("zbackup-log", *words, key="append-only")
        assert attack.returncode != 0, attack


def _end_there(offsite: Offsite, home: str) -> str:
    """The last chunk of the newest archived file."""
    listed = offsite.hosts.ssh("zbackup-log", "list", home, key="append-only")
    return listed.stdout.decode().split("\n")[-2]


def test_the_host_is_lost_and_what_was_archived_through_the_gate_comes_back(
    offsite: Offsite, key: Path
) -> None:
    """The last, for nothing is left. By the append-only key all is written, and by the other read.

    Also what was written before this, with breaks and a daemon that was killed, and was never shipped.
    """

    def back(*words: str) -> Result:
        """The key of what is fetched is loaded by hand."""
        answer = offsite.back(*words)
        if answer.rc == 9 and (found := re.search(r"zfs load-key (\S+)", answer.err)):
            run("zfs", "load-key", "-L", f"file://{key}", found[1])
            answer = offsite.back(*words)
        return answer

    def require_rows(report: dict[str, Any]) -> None:
        assert told(offsite, report["socket"]) == [0, 1, 2, 3, 100, 101, 102, 103, 104]

    offsite.make_log()
    config = offsite.house.configure("archiving", **archiving(offsite.ship("append-only")))
    loss = lose_host(offsite.house, config, offsite.hosts.environment)
    moments = some([LATEST, EARLIER], LATEST)
    require_all_back(offsite.house, loss, "offsite", back, moments, require_more=require_rows)
