"""Measurements of a disaster, and what becomes of the figures."""

import json
import re
from pathlib import Path
from typing import cast

import pytest
from bson.timestamp import Timestamp

from bench import disaster, disaster_mongodb, report
from bench.disaster_mongodb_ways import Scene
from bench.disaster_turns import Asked, Rows, Spent, asked_for, in_turn, noting
from bench.standstill import standstill
from tests.lab.demo_mongodb import Stage

SAID_FIRST = "mariadb-10.11"


def test_what_is_much_work_is_measured_of_small_ones_or_where_it_is_named() -> None:
    everything = ["dropped", "destroyed", "cold", "host", "far", "taking"]
    assert disaster.scenes_of("mysql-9.7", 0.3, None) == everything
    assert disaster.scenes_of("mysql-9.7", 1, None) == ["dropped", "destroyed", "host", "taking"]
    assert disaster.scenes_of("mysql-9.7", 10, ["far"]) == ["far"]
    assert disaster.scenes_of("mongodb-6.0", 0.3, None) == ["dropped", "destroyed", "taking"]
    assert disaster.scenes_of("mongodb-6.0", 0.3, ["host"]) == []


@pytest.mark.parametrize(("gib", "ways"), [(3.0, {"zbackup", "pymongo"}), (10.0, {"zbackup"})])
def test_no_dump_of_mongodb_is_taken_or_loaded_for_which_nobody_waits(gib: float, ways: set[str]) -> None:
    made = cast(Stage, object())
    dump = disaster_mongodb.dump_below(Path("/others"), gib)
    scene = Scene(made=made, base="b", last=Timestamp(1, 1), dump=dump, wanted={})
    assert disaster_mongodb.takes(made, dump).keys() == ways
    assert disaster_mongodb.turns(scene).keys() == ways | {"hand, applyOps"}


def test_a_guest_is_told_what_is_asked_for() -> None:
    assert asked_for(["0.3", "2", "40", "far", "cold"]) == Asked(0.3, 2, 40, frozenset({"far", "cold"}))


def test_ways_take_turns_and_one_of_them_only_the_first(tmp_path: Path) -> None:
    said: list[str] = []

    def turn(name: str) -> Spent:
        said.append(name)
        return Spent(float(len(said)), 1.0)

    rows: Rows = []
    note = noting(rows, "mysql-9.7", 0.3, tmp_path / "rows")
    in_turn("dropped", {"a": turn, "b": turn, "c": turn}, 2, note, once=frozenset({"c"}))
    assert said == ["dropped00", "dropped01", "dropped02", "dropped11", "dropped10"]
    assert [(row["way"], row["rounds"], row["seconds"]) for row in rows] == [
        ("a", [1.0, 5.0], 3.0),
        ("b", [2.0, 4.0], 3.0),
        ("c", [3.0], 3.0),
    ]
    assert json.loads((tmp_path / "rows").read_text()) == rows


def test_the_first_lines_of_all_say_what_was_measured() -> None:
    rows = [row for row in json.loads(disaster.RESULT.read_text()) if row["server"] == SAID_FIRST]
    took = {(r["gib"], r["scene"], r["way"]): r["seconds"] for r in rows}
    back = {scene: took[10, scene, "zbackup"] for scene in ("dropped", "destroyed")}
    readme = re.sub(r"\s+", " ", (disaster.DOCS.parent / "README.md").read_text())
    said = re.search(
        r"\*\*10 GiB back in ([\d.]+) s\*\*, (\d+) times as fast as mariadb-backup; "
        r"3 GiB, (\d+) times as fast as loading a dump",
        readme,
    )
    # The slower of the two disasters, and no more than was measured of each.
    assert said and said[1] == f"{max(back.values()):.1f}"
    assert all(int(said[2]) <= took[10, scene, "physical"] / seconds for scene, seconds in back.items())
    of_dumps = [took[key] / took[3, key[1], "zbackup"] for key in took if key[0] == 3 and key[2] == "dump"]
    assert of_dumps and int(said[3]) <= min(of_dumps)
    # By a command that measures those rows, and of nobody else.
    command = re.search(r'`make bench BENCH="disaster ([^"]+)"`', readme)
    given = disaster.parser().parse_args(command[1].split() if command else [])
    assert given.server == [SAID_FIRST] and given.gib == [3, 10]
    assert {*given.scene} == {"dropped", "destroyed"}


def test_who_was_answered_last_before_and_first_after_tells_how_long_writers_stood_still() -> None:
    answers = [(0, 1_000_000), (1_000_000, 2_000_000), (2_000_000, 52_000_000), (52_000_000, 53_000_000)]
    assert standstill(answers, (3_000_000, 4_000_000)) == 50.0


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copies of what a bench of disasters writes."""
    for module, name in ((report, "PAGE"), (disaster, "RESULT"), (disaster, "PICTURE")):
        original: Path = getattr(module, name)
        (tmp_path / original.name).write_text(original.read_text())
        monkeypatch.setattr(module, name, tmp_path / original.name)
    return tmp_path


def test_what_was_measured_takes_the_place_of_that_alone(
    pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(server: str, gib: float, *_: object) -> tuple[int, Rows]:
        taken = {
            "server": server,
            "gib": gib,
            "scene": "taking",
            "way": "zbackup",
            "seconds": 1.0,
            "cpu": 1.0,
        }
        more = {"rounds": [1.0], "bytes": 0, "standstill": 47.3, "day": 5 << 20, "circumstances": "now"}
        return 0, [taken | more]

    monkeypatch.setattr(disaster, "measured", measured)
    before = json.loads(disaster.RESULT.read_text())
    assert disaster.main(["--server", "mysql-9.7", "--gib", "1", "--scene", "taking"]) == 0
    after = json.loads(disaster.RESULT.read_text())
    kept = [row for row in before if (row["server"], row["gib"], row["scene"]) != ("mysql-9.7", 1, "taking")]
    assert [row for row in after if row["circumstances"] != "now"] == kept
    assert "| mysql-9.7 | 1 | zbackup | 1.0 | 1.0 | 0.0 | 47 | 5.0 |" in (pages / "benchmarks.md").read_text()
