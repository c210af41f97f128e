"""The order of test modules, and which share a guest."""

import json
from pathlib import Path

import pytest

from tests.lab import order
from tests.lab.order import SHARED, SHORT, SHORT_HERE, Task, tasks


def test_the_longest_begins_first_wherever_it_runs() -> None:
    seconds = {"a/long.py": 200.0, "a/longest.py": 300.0, "h.py": 250.0}
    found = tasks(["a/long.py", "a/longest.py"], ["h.py"], seconds)
    assert found == [Task(("a/longest.py",)), Task(("h.py",), here=True), Task(("a/long.py",))]


def test_what_nobody_knows_counts_as_long_and_has_a_guest_of_its_own() -> None:
    found = tasks(["a/new.py", "a/long.py", "a/short.py"], [], {"a/long.py": 200.0, "a/short.py": 1.0})
    assert found == [Task(("a/new.py",)), Task(("a/long.py",)), Task(("a/short.py",))]


def test_what_nobody_knows_on_this_machine_runs_beside_long_guests() -> None:
    found = tasks(["a/long.py", "a/short.py"], ["h.py"], {"a/long.py": SHORT + 1, "a/short.py": 1.0})
    assert found == [Task(("a/long.py",)), Task(("h.py",), here=True), Task(("a/short.py",))]


def test_short_modules_of_one_directory_and_one_engine_share_guests() -> None:
    seconds = {f"a/{n}.py": SHORT - 20 for n in range(4)} | {"b/0.py": 1.0, "b/1.py": 2.0}
    seconds |= {"b/mysql_a.py": 3.0, "b/b_mysql.py": 3.0, "b/mongodb.py": 3.0}
    found = tasks(seconds, [], seconds)
    assert sorted(len(task.modules) for task in found) == [1, 2, 2, 2, 2]
    assert found[-1] == Task(("b/1.py", "b/0.py"))
    assert all(sum(seconds[module] for module in task.modules) <= SHARED for task in found)
    assert sorted(module for task in found for module in task.modules) == sorted(seconds)


def test_modules_that_are_told_with_one_server_share_a_guest_and_others_do_not() -> None:
    names = ("a/one.py@mysql-9.7", "a/two.py@mysql-9.7", "a/two.py@mysql-9.7-no-gtid", "a/its_own_mysql.py")
    found = tasks(names, [], dict.fromkeys(names, 1.0) | {names[2]: 0.5, names[3]: 0.5})
    assert found == [Task((names[0], names[1], names[3])), Task((names[2],))]
    assert [task.variant for task in found] == ["mysql-9.7", "mysql-9.7-no-gtid"]
    assert Task((names[3], names[0])).variant == "mysql-9.7"


def test_who_sets_the_clock_has_a_machine_of_his_own() -> None:
    found = tasks(
        ["a/test_clock.py", "a/b.py", "a/c.py"], [], {"a/test_clock.py": 3.0, "a/b.py": 1.0, "a/c.py": 1.0}
    )
    assert found == [Task(("a/test_clock.py",)), Task(("a/b.py", "a/c.py"))]


def test_short_ones_on_this_machine_share_a_process() -> None:
    seconds = {f"s3/{n}.py": SHORT_HERE for n in range(4)} | {"lab/a.py": 3.0, "s3/long.py": SHORT_HERE + 1}
    found = tasks([], seconds, seconds)
    assert sorted(task.modules for task in found) == [
        ("lab/a.py",),
        ("s3/0.py", "s3/1.py"),
        ("s3/2.py", "s3/3.py"),
        ("s3/long.py",),
    ]
    assert all(task.here for task in found)
    assert [len(task.modules) for task in tasks([], seconds, seconds, alone=True)] == [1] * 6


def test_to_look_into_a_pool_each_module_has_a_guest() -> None:
    assert tasks(["a", "b"], [], {"a": 1.0, "b": 2.0}, alone=True) == [Task(("b",)), Task(("a",))]


def test_this_machine_knows_better_than_the_file_that_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(order, "USUAL", tmp_path / "usual.json")
    (tmp_path / "zbackup-lab").mkdir()
    (tmp_path / "usual.json").write_text(json.dumps({"a": 1, "b": 2}))
    assert order.known_seconds() == {"a": 1, "b": 2}
    order.remember({"b": 7.03})
    order.remember({"c": 8, "/tmp/d.py": 9, "e.py::test_f": 10})
    assert order.known_seconds() == {"a": 1, "b": 7.0, "c": 8}
    (tmp_path / "zbackup-lab" / "seconds.json").write_text("half of")
    assert order.known_seconds() == {"a": 1, "b": 2}
