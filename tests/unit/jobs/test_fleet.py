"""An address that many hosts ship to: what is read and believed of it, and who comes first."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.unit.fleets import NOW, ROOT, Line, Receiver, many
from tests.unit.samples import PLAIN
from zbackup.destinations.copies import INSTANCE
from zbackup.features.fleet.judgement import judged
from zbackup.features.fleet.look import BACKUP, MOST_TRIED, of_dataset
from zbackup.model.archive import Chunk, LogFileId, head_hash, server_key
from zbackup.model.drill import DrillVerdict
from zbackup.model.fleet import Fleet, FleetMember
from zbackup.model.retention import CONDEMNED
from zbackup.model.shipping import COMMITTED
from zbackup.proc.log_store import CHUNKS
from zbackup.zfs import datasets
from zbackup.zfs.datasets import Zfs

HOUR = timedelta(hours=1)


def members(
    there: Receiver, most: timedelta | None = None, mounts: Path = Path("/dev/null"), **drills: object
) -> tuple[FleetMember, ...]:
    found, _ = of_dataset(Zfs(there, mounts), ROOT, **drills)  # type: ignore[arg-type]
    return judged(found, NOW, most)


def test_each_is_told_by_host_and_instance_and_the_worst_comes_first() -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW - 5 * HOUR, number=1)
    there.ship("db1", "shop", NOW - HOUR, number=2)
    there.ship("db2", "shop", NOW - 30 * HOUR)
    there.ship("", "wiki", NOW - 2 * HOUR)
    there.ship("db3", "docs", NOW - HOUR, commit=False)
    told = [(m.path, m.instance, m.backups, m.exposed, m.health) for m in members(there, 26 * HOUR)]
    assert told == [
        ("db3", "docs", 0, None, "critical"),
        ("db2", "shop", 1, 30 * 3600.0, "critical"),
        ("", "wiki", 1, 2 * 3600.0, "ok"),
        ("db1", "shop", 2, 3600.0, "ok"),
    ]
    first, second, *_ = members(there, 26 * HOUR)
    assert first.problems == ("nothing can be restored",)
    assert "would be lost, and 26 h 0 min is the most" in second.problems[0] or "26" in second.problems[0]


def test_snapshots_of_others_are_nobodys_instance() -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW - HOUR)
    of_shop = dict(there.lines[f"{ROOT}/db1/shop/{PLAIN.members[0][0]}@zbackup-1"].properties)
    for number, lacks in enumerate((of_shop.keys(), [INSTANCE], [BACKUP])):
        name = f"{ROOT}/db{number + 2}/x@by-hand"
        left = {key: value for key, value in of_shop.items() if key not in lacks}
        there.lines[name] = Line(name, 90 + number, 900 + number, left)
    (shop,) = members(there)
    assert (shop.path, shop.instance, shop.engine, shop.backups) == ("db1", "shop", "mysql", 1)
    assert shop.as_of == NOW - HOUR - timedelta(seconds=2)


def test_only_the_newest_backups_are_read() -> None:
    there = many(20, 30, NOW)
    found = members(there)
    assert len(found) == 20
    assert all(m.backups == 30 for m in found)
    named = [word for words in there.asked if "name,property,value" in words for word in words if "@" in word]
    assert len(named) == 20 * MOST_TRIED * 2
    assert len(there.asked) < 10


def test_behind_one_that_cannot_be_read_the_next_counts() -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW - 5 * HOUR, number=1)
    bad = there.ship("db1", "shop", NOW - HOUR, number=2)
    for line in there.lines.values():
        if line.name.endswith("@zbackup-2"):
            line.properties["zbackup:record"] = "{"
    (found,) = members(there)
    if found.exposed == 5 * 3600.0:
        assert found.health == "warning"
        assert bad in found.problems[0]
    else:  # the record is kept under another name: then it is the newest as it was
        assert found.exposed == 3600.0


def test_a_line_break_in_a_value_is_no_snapshot_of_another_host() -> None:
    there = Receiver()
    good = there.ship("db1", "shop", NOW - HOUR)
    evil = there.ship("evil", "shop", NOW - HOUR, commit=False)
    forged = "\n".join(
        "\t".join((f"{ROOT}/db1/shop/x@z{n}", str(900 + n), "999999", "shop", f"forged{n}", "yes"))
        for n in range(9)
    )
    there.lines[evil].properties[INSTANCE] = f"shop\n{forged}\n{good}\t1\t999999\tshop\tforged\tyes"
    found = {m.path: m for m in members(there)}
    assert (found["db1"].backups, found["db1"].exposed) == (1, 3600.0)
    assert not any("x@z" in word for words in there.asked for word in words)


@pytest.mark.parametrize("asked", [64, 1])
def test_a_line_break_in_a_value_makes_no_host_look_fresher_or_worse(
    asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where more are spoken of than can be asked for again, what is spoken of is not believed."""
    monkeypatch.setattr(datasets, "MOST_ASKED", asked)
    there = Receiver()
    old = there.ship("db1", "shop", NOW - 50 * HOUR)
    evil = there.ship("aaa", "shop", NOW - HOUR)
    fresh = there.lines[there.ship("zzz", "shop", NOW - HOUR)].properties
    forged = "\n".join(f"{old}\t{key}\t{value}" for key, value in fresh.items() if value != "shop")
    for host in (evil, there.ship("zz", "shop", NOW - HOUR)):  # before it, and behind it
        there.lines[host].properties["mine:x"] = f"x\n{forged}"
        found = {m.path: m for m in members(there)}["db1"]
        if asked > 1:
            assert (found.exposed, found.health) == (50 * 3600.0, "ok")
        else:
            assert (found.exposed, found.health) == (None, "critical")
            assert "somebody forges it" in found.problems[0]
        del there.lines[host].properties["mine:x"]
    assert {m.path: m for m in members(there)}["db1"].exposed == 50 * 3600.0


def test_who_speaks_of_hundreds_and_of_his_own_makes_none_of_them_look_worse() -> None:
    there = Receiver()
    hosts = [f"db{number:03}" for number in range(120)]
    for number, host in enumerate(hosts):
        there.ship(host, "shop", NOW - (number + 1) * HOUR)
    theirs = list(there.lines)
    evil = [there.ship("db060-evil", f"i{number:03}", NOW - HOUR) for number in range(60)]
    for host in evil:
        spoken = "\n".join(f"{name}\t{BACKUP}\tforged by {host}" for name in (*theirs, *evil))
        there.lines[host].properties["mine:x"] = f"x\n{spoken}"
    found = {m.path: m for m in members(there)}
    for number, host in enumerate(hosts):
        assert (found[host].exposed, found[host].problems) == ((number + 1) * 3600.0, ())


def test_nobody_gives_anothers_snapshot_a_property() -> None:
    there = Receiver()
    good = there.ship("db1", "shop", NOW - HOUR)
    evil = there.ship("aaa", "shop", NOW - HOUR)
    there.lines[evil].properties["mine:x"] = f"x\n{good}\t{CONDEMNED}\tyes"
    found = {m.path: m for m in members(there)}["db1"]
    assert (found.exposed, found.problems) == (3600.0, ())


@pytest.mark.parametrize("value", ["", "-", "../../x", "a\tb", "x" * 8000, "\x1b[2J", "a\udcffb"])
@pytest.mark.parametrize("key", [INSTANCE, BACKUP, COMMITTED, "zbackup:parts", "zbackup:taken"])
def test_whatever_is_written_there_is_shown_or_left_out(key: str, value: str) -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW - HOUR)
    bad = there.ship("evil", "shop", NOW - HOUR)
    there.lines[bad].properties[key] = value
    found = members(there)
    assert ("db1", 3600.0) in [(m.path, m.exposed) for m in found]
    # What tells of one tells of all: for the page, and in a report.
    assert TypeAdapter(Fleet).dump_json(Fleet(looked=NOW, members=tuple(found)))


def test_a_time_to_come_proves_nothing() -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW + timedelta(days=300))
    (found,) = members(there)
    assert (found.exposed, found.health) == (None, "critical")
    assert "still to come" in found.problems[0]


def test_this_hosts_own_drills_count() -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW - HOUR)
    passed = DrillVerdict(
        backup="b", name="zbackup-1", at=NOW - 9 * HOUR, to=None, transactions=1, tables=2, seconds=3.0
    )
    home = f"{ROOT}/db1/shop"
    (found,) = members(there, drills={home: (passed,)})
    assert (found.drilled, found.health) == (NOW - 9 * HOUR, "ok")
    failed = replace(passed, at=NOW - HOUR, why="the table shop.orders is damaged")
    (found,) = members(there, drills={home: (passed, failed)})
    assert (found.drilled, found.health) == (NOW - 9 * HOUR, "critical")
    assert "shop.orders is damaged" in found.problems[0]


@pytest.fixture
def archive() -> Iterator[Path]:
    with TemporaryDirectory(prefix="zb") as home:
        yield Path(home)


def written(archive: Path, number: int, read: datetime, text: str = "") -> None:
    """The lines of an archived file, as LogStore keeps them."""
    server = server_key(PLAIN.server_uuid)
    (archive / server).mkdir(exist_ok=True)
    file = LogFileId(
        server=server,
        epoch=1,
        number=number,
        follows=None,
        head=head_hash(server, b"x"),
        name=f"binlog.{number:06}",
    )
    chunk = Chunk(begin=0, end=9, sha256="0" * 64, tail="0" * 32, read=read)
    (archive / server / f"{file.key}{CHUNKS}").write_text(text or f"{chunk}\n")
    (archive / server / f"{file.key}.log").write_text("x" * 9)


def test_archived_log_shortens_what_would_be_lost(archive: Path) -> None:
    there, mounts = Receiver(), archive / "mountinfo"
    places = {
        f"{ROOT}/db1/shop/log": str(archive),
        f"{ROOT}/db2/shop/log": "/x\\012vault/backups/db1/shop/log\\011yes\\011/evil",
        f"{ROOT}/log": "/nowhere",
        "other/db1/shop/log": "/nowhere",
        f"{ROOT}/db1/shop/data": "/nowhere",
    }
    mounts.write_text(
        "".join(f"1 1 0:1 / {at} rw - zfs {name} rw\n" for name, at in places.items()), encoding="utf-8"
    )
    there.ship("db1", "shop", NOW - 5 * HOUR)
    written(archive, 1, NOW - 2 * HOUR)
    written(archive, 2, NOW - timedelta(seconds=7))
    (found,) = members(there, mounts=mounts)
    assert (found.exposed, found.archived) == (7.0, NOW - timedelta(seconds=7))
    written(archive, 3, NOW + timedelta(days=9))
    (found,) = members(there, mounts=mounts)
    assert (found.exposed, found.health) == (5 * 3600.0, "warning")
    written(archive, 4, NOW, text="nonsense\n")
    (found,) = members(there, mounts=mounts)
    assert "archived log cannot be read" in found.problems[0]


def test_who_may_not_read_the_archived_log_is_told(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there, mounts = Receiver(), archive / "mountinfo"
    mounts.write_text(f"1 1 0:1 / {archive} rw - zfs {ROOT}/db1/shop/log rw\n")
    there.ship("db1", "shop", NOW - 5 * HOUR)

    def closed(_: object, server: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("zbackup.proc.log_store.LogStore.newest", closed)
    (found,) = members(there, mounts=mounts)
    assert (found.exposed, found.health) == (5 * 3600.0, "warning")
    assert "may not read it: ask as its owner" in found.problems[0]


def test_where_not_all_were_looked_at_nobody_says_that_all_is_well() -> None:
    there = Receiver()
    there.ship("db1", "shop", NOW - HOUR)
    well = Fleet(looked=NOW, members=members(there))
    assert well.health == "ok"
    assert replace(well, left_out=1).health == "critical"


@given(
    st.lists(
        st.tuples(st.none() | st.floats(-1e6, 1e9), st.booleans(), st.booleans()).map(
            lambda t: FleetMember(
                address="vault",
                path="",
                instance="x",
                newest="zbackup-1" if t[0] is not None else "",
                taken=NOW - timedelta(seconds=t[0]) if t[0] is not None else None,
                drill_failed="it is damaged" if t[1] else "",
                problems=("odd",) if t[2] else (),
            )
        )
    ),
    st.none() | st.timedeltas(timedelta(), timedelta(days=999)),
)
def test_no_order_hides_a_worse_one(there: list[FleetMember], most: timedelta | None) -> None:
    found = judged(there, NOW, most)
    order = {"critical": 0, "warning": 1, "ok": 3}
    keys = [(order[m.health], float("-inf") if m.exposed is None else -m.exposed) for m in found]
    assert keys == sorted(keys)
    assert len(found) == len(there)
    for each in found:
        bad = each.exposed is None or bool(each.drill_failed)
        bad = bad or (most is not None and each.exposed is not None and each.exposed > most.total_seconds())
        assert (each.health == "critical") == bad
