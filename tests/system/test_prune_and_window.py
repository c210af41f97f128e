"""A server that purges its log while backups are pruned: the promise is kept, and what is lost is said.

Between the backups the server begins new log files and purges old ones, so that only some of the backups hold
the log that others need. Whatever the window said could be restored is restored, and compared.
"""

import json
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.lab.private_mounts import private_mounts_once_mounted
from tests.lab.variants import Variant
from tests.platform.contexts import context
from tests.system.house import ZBACKUP, House, next_second, utc
from tests.system.zfs_door import ZfsDoor
from zbackup.jobs.cleanup.cleanup import remove_own_leftovers
from zbackup.model.errors import NotRemoved, Refused
from zbackup.plan.timeline.moment_answer import can_be_restored
from zbackup.web.source import SocketSource

RULES: Mapping[str, object] = {"last": 1, "minimum": 1, "window": "1 hour"}


@dataclass(frozen=True, kw_only=True)
class Story:
    """`moments` are when so many rows were there; `names` the backups; `config` has the policy."""

    config: Path
    moments: dict[int, datetime]
    names: list[str]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


@pytest.fixture(scope="module")
def story(house: House) -> Story:
    """Five backups, a row and a quiet moment after each. Before the fourth the files up to the third's go."""
    config = house.configure("rules", retention=RULES)
    house.server.sql("CREATE TABLE shop.marks (n INT PRIMARY KEY) ENGINE = InnoDB")
    told = Story(config=config, moments={}, names=[])
    for number in range(1, 6):
        house.server.sql("FLUSH BINARY LOGS")
        if number == 4:
            purge(house, keep=2)
        told.names.append(house.snapshot(config)["name"])
        mark(house, told, number)
    return told


def mark(house: House, told: Story, number: int) -> None:
    """One row more, and a moment at which nothing happens."""
    house.server.sql(f"INSERT INTO shop.marks VALUES ({number})")
    told.moments[number] = next_second() + timedelta(seconds=1)
    next_second()
    next_second()


def purge(house: House, keep: int) -> None:
    """All but the newest log files."""
    files = [row[0] for row in house.server.sql("SHOW BINARY LOGS")]
    house.server.sql(f"PURGE BINARY LOGS TO '{files[-keep]}'")


def window(house: House, story: Story) -> dict[str, Any]:
    found: dict[str, Any] = house.zb("window", "--json", config=story.config).data[0]
    return found


def restorable(found: Mapping[str, Any], moment: datetime) -> bool:
    return any(utc(r["after"]) < moment <= utc(r["to"]) for r in found["ranges"])


def rows_at(house: House, moment: datetime) -> int:
    """How many rows a recovered server has."""
    report = house.restore(moment, "look")
    try:
        with house.clone(report) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT COUNT(*), MAX(n) FROM shop.marks")
            count, highest = cursor.fetchone()
            assert count == (highest or 0)
            return int(count)
    finally:
        house.destroy("look")


def test_the_window_has_no_gap_and_reaches_up_to_now(house: House, story: Story) -> None:
    found = window(house, story)
    assert found["gaps"] == [] and found["looked_at_live_log"]
    (only,) = found["ranges"]
    assert only["live"] and only["to"] == found["now"]
    assert not found["promised"]["kept"], "the hour began before the first backup"
    assert "can be restored" in house.zb("list", config=story.config).out
    picture = house.zb("window", config=story.config)
    assert picture.rc == 0 and "restorable" in picture.out and "GAP" not in picture.out


def test_a_drill_replays_from_one_backup_to_the_newest_and_leaves_nothing(house: House, story: Story) -> None:
    before = [backup["name"] for backup in house.backups()]
    planned = house.zb("verify", "--drill", "--dry-run", "--json", config=story.config).data[0]
    assert planned["plan"]["base"]["name"] == story.names[3]
    assert not [backup for backup in house.backups() if backup["drill"]], "a plan wrote a verdict"
    drill = house.zb("verify", "--drill", "--json", config=story.config).data[0]["drill"]
    assert drill["base"]["name"] == story.names[3] and drill["last_applied"]["committed"]
    assert drill["tables"] > 2 and drill["verdict"]["passed"] and drill["verdict"]["transactions"]
    after = house.backups()
    assert [b["drill"] for b in after if b["drill"]] == [drill["verdict"]]
    assert [backup["name"] for backup in after] == before
    assert house.zb("clone", "list", "--json").data == []
    assert "drill ok" in house.zb("list", config=story.config).out
    (only,) = house.zb("status", "--json", config=story.config).data[0]["drills"]
    assert only["destination"] is None and only["last"] == only["passed"] == drill["verdict"]


def test_a_drill_whose_datasets_others_keep_has_passed_and_is_removed_later(
    house: House, story: Story
) -> None:
    """openzfs/zfs#12881: a container that started during the drill has its datasets mounted."""
    clones = f"{house.pool.name}/zbackup"
    with private_mounts_once_mounted(f"{clones}/shop-drill/0") as holder:
        drilled = house.zb("verify", "--drill", "--json", config=story.config)
        assert drilled.rc == NotRemoved.exit_status, drilled
        drill = json.loads(drilled.out)["data"][0]["drill"]
        assert drill["verdict"]["passed"] and f"sleep (pid {holder[0]})" in drill["left"], drill
        assert f"{clones}/shop-drill/0 is mounted at " in drill["left"]
        assert "drill ok" in house.zb("list", config=story.config).out
        again = house.zb("verify", "--drill", config=story.config)
        assert (
            again.rc == 0 and f"{clones}/shop-drill of an earlier run will be removed later" in again.err
        ), again
        assert [c["name"] for c in house.zb("clone", "list", "--json").data] == ["shop-drill"]
        ctx = context(house.pool, house.server.settings, house.datasets)
        (said,) = remove_own_leftovers(ctx)
        assert f"sleep (pid {holder[0]})" in said
    assert remove_own_leftovers(ctx) == ()
    assert house.zb("clone", "list", "--json").data == []


def test_a_prune_keeps_what_leads_to_every_promised_moment(house: House, story: Story) -> None:
    before = window(house, story)
    dry = house.zb("prune", "--dry-run", "--json", config=story.config).data[0]
    report = house.zb("prune", "--json", config=story.config).data[0]
    assert report["destroy"] == dry["destroy"] and report["skipped"] == []
    left = [b["name"] for b in house.backups()]
    assert left == [story.names[0], story.names[2], story.names[4]]
    reasons = {k["name"]: " / ".join(k["reasons"]) for k in report["keep"]}
    assert "oldest base of the 1-hour window" in reasons[story.names[0]]
    assert "log for the window up to" in reasons[story.names[2]]
    after = window(house, story)
    assert after["gaps"] == [] and after["ranges"][0]["after"] == before["ranges"][0]["after"]
    assert report["freed"] > 0


@pytest.mark.parametrize("number", [2, 4])
def test_a_promised_moment_is_restored_after_the_prune(house: House, story: Story, number: int) -> None:
    moment = story.moments[number]
    assert restorable(window(house, story), moment)
    assert rows_at(house, moment) == number


def test_a_file_that_somebody_removes_behind_the_newest_backup_is_critical_to_check_and_status(
    house: House, story: Story
) -> None:
    """kubeblocks#5386: `check` said that the log can be read on, and `status` was critical."""
    ended = Path(house.server.sql("SHOW BINARY LOGS")[-1][0]).name
    house.server.sql("FLUSH BINARY LOGS")
    where = Path(house.server.sql("SELECT @@log_bin_basename")[0][0]).parent
    (where / ended).rename(where / "taken away")
    try:
        said = house.zb("status", "--json", config=story.config).data[0]
        (gap,) = said["window"]["gaps"]
        status = [f["text"] for f in said["findings"] if f["severity"] == "critical"]
        checked = house.zb("check", "--json", config=story.config)
        found = [
            f for f in json.loads(checked.out)["data"][0]["findings"] if f["subject"] in ("log", "window")
        ]
        assert [(f["severity"], f["text"]) for f in found] == [("critical", each) for each in status], found
        assert gap in status[0] and checked.rc == 5, checked
    finally:
        (where / "taken away").rename(where / ended)
    assert "can be read on" in house.zb("check", config=story.config).out


def test_log_that_no_backup_holds_is_a_gap_with_two_ends_and_its_cause(house: House, story: Story) -> None:
    house.server.sql("FLUSH BINARY LOGS")
    mark(house, story, 6)
    house.server.sql("FLUSH BINARY LOGS")
    purge(house, keep=1)
    (gap,) = window(house, story)["gaps"]
    # To read the log for a restore, snapshots were taken: one of them is the last that held it.
    last = house.backups()[-1]["name"]
    assert (gap["cause"], gap["older"], gap["newer"]) == ("purged", last, "")
    story.names.append(house.snapshot(story.config)["name"])
    found = window(house, story)
    (gap,) = found["gaps"]
    assert (gap["cause"], gap["older"], gap["newer"]) == ("purged", last, story.names[-1])
    assert utc(gap["after"]) < story.moments[6] <= utc(gap["to"])
    assert not restorable(found, story.moments[6])
    assert {"after": gap["after"], "to": gap["to"]} in found["promised"]["lacking"]
    refusal = house.zb(*house.restoring(story.moments[6], "look"), config=story.config)
    assert refusal.rc == 5 and "the log has a gap" in refusal.err, str(refusal)
    said = house.zb("list", config=story.config).out
    promised = r"^Any moment after .* and up to .*, except after .* up to .*, can be restored"
    assert re.search(promised, said, re.M), said
    assert "GAP" in house.zb("window", config=story.config).out
    status = house.zb("status", "--json", config=story.config).data[0]
    assert status["health"] == "critical" and status["window"]["gaps"] == [gap["why"]]
    assert status["window"]["lacking_seconds"] > 0


@contextmanager
def reader(config: Path) -> Iterator[Path]:
    """As systemd has it: each connection to the socket is the standard input of a helper of its own."""
    with TemporaryDirectory(prefix="zb") as home, socket.socket(socket.AF_UNIX) as listener:
        path = Path(home, "read")
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    with listener.accept()[0] as line:
                        words = (str(ZBACKUP), "--config", str(config), "helper", "--read")
                        subprocess.run(words, stdin=line, check=False)

        threading.Thread(target=serve, daemon=True).start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)


def test_a_browser_is_told_the_same(house: House, story: Story) -> None:
    """Of the gap and its cause, of a moment that can be restored, and what the log says of its tables."""
    found = window(house, story)
    gap = next(gap for gap in found["gaps"] if gap["cause"] == "purged")
    before = house.state()
    with reader(story.config) as path:
        source = SocketSource(path, path.with_name("no cloner"))
        seen = source.overview().instances[0]
        assert seen.problem == ""
        assert [(g.after, g.to, g.why) for g in seen.gaps if g.cause == "purged"] == [
            (utc(gap["after"]), utc(gap["to"]), gap["why"])
        ]
        assert [(r.after, r.to) for r in seen.ranges[:-1]] == [
            (utc(r["after"]), utc(r["to"])) for r in found["ranges"][:-1]
        ]
        assert {b.name for b in seen.backups} == {b["name"] for b in house.backups()}
        moment = story.moments[4]
        assert can_be_restored(seen, moment).verdict == "yes"
        plan = house.zb(
            "restore", "--to", moment.isoformat(), "--dry-run", "--json", config=story.config
        ).data
        told = source.moment("shop", moment)
        assert (told.base, told.transactions) == (plan["base"]["name"], plan["replay"]["transactions"])
        with pytest.raises(Refused, match="recovery window"):
            source.moment("shop", utc(gap["after"]) - timedelta(days=1))
        house.server.sql("CREATE TABLE shop.gone (n INT) ENGINE = InnoDB")
        house.server.sql("DROP TABLE shop.gone")
        marks = source.marks(
            "shop", seen.looked - timedelta(seconds=1), seen.looked + timedelta(hours=1)
        ).marks
        assert ("drop", ("shop.gone",)) in [(m.kind, m.tables) for m in marks]
        with pytest.raises(Refused, match="no such instance"):
            source.moment("other", moment)
    assert house.state() == before


def test_what_can_be_restored_before_the_gap_outlives_another_prune(house: House, story: Story) -> None:
    before = window(house, story)
    house.zb("prune", "--json", config=story.config).data  # noqa: B018  checks the exit status
    after = window(house, story)
    assert [(r["after"], r["live"]) for r in after["ranges"]] == [
        (r["after"], r["live"]) for r in before["ranges"]
    ]
    assert after["gaps"] == before["gaps"]


def test_a_labelled_backup_outlives_prunes_and_is_restored_by_its_label(house: House, story: Story) -> None:
    rows = int(house.server.sql("SELECT COUNT(*) FROM shop.marks")[0][0])
    words = ("snapshot", "--label", "before-deploy", "--keep", "30d", "--json")
    taken = house.zb(*words, config=story.config).data[0]["snapshot"]
    assert taken["label"] == "before-deploy" and utc(taken["keep_until"]) > utc(taken["taken"])
    house.server.sql(f"INSERT INTO shop.marks VALUES ({rows + 1})")
    for _ in range(2):
        house.snapshot(story.config)
    only_last = house.configure("only last", retention={"last": 1, "minimum": 1, "window": "1 minute"})
    kept = house.zb("prune", "--dry-run", "--json", config=only_last).data[0]["keep"]
    (mine,) = (each for each in kept if each["name"] == taken["name"])
    assert any("label before-deploy" in reason for reason in mine["reasons"])
    assert utc(mine["stays_until"]) == utc(taken["keep_until"])
    house.zb("prune", "--json", config=story.config).data  # noqa: B018  checks the exit status
    assert "label before-deploy, kept until" in house.zb("list", config=story.config).out.replace(";", ",")
    report = house.zb("restore", "--to-label", "before-deploy", "--name", "label", "--json").data
    assert report["base"]["name"] == taken["name"]
    with house.clone(report) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM shop.marks")
        assert cursor.fetchone()[0] == rows
    house.destroy("label")
    assert house.zb("restore", "--to-label", "nobody").rc == 4


@pytest.mark.parametrize(("before", "after"), [(0, 2)])
def test_a_prune_that_is_killed_is_finished_by_the_next(
    house: House, story: Story, door: ZfsDoor, before: int, after: int
) -> None:
    config = house.configure("last", retention={"last": 1, "minimum": 1, "window": "1 minute"})
    for _ in range(2):
        house.snapshot(config)
    wanted = house.zb("prune", "--dry-run", "--json", config=config).data[0]
    door.kill(before=before, after=after)
    killed = house.zb("prune", config=config, environment=door.environment)
    assert killed.rc == -9, str(killed)
    for backup in house.backups():
        assert backup["complete"] or backup["name"] in [b["name"] for b in wanted["destroy"]]
    house.zb("prune", "--json", config=config).data  # noqa: B018  checks the exit status
    kept = {k["name"] for k in wanted["keep"]}
    assert {b["name"] for b in house.backups()} <= kept
    assert all(b["complete"] and b["finished"] for b in house.backups())
