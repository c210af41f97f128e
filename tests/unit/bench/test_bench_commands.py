"""Every command by which a benchmark is said to be run is one that can be run, and ends what it started.

bench/selftest_commands.py runs them all, in the slow lane.
"""

import re
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import bench.__main__ as commands
from bench import archive, copying, disaster, log, mongodb_replay, replay, s3

HOUSE = Path(__file__).parents[3]
PAGES = [*(HOUSE / "docs").rglob("*.md"), *(HOUSE / "bench").glob("*.py"), HOUSE / "README.md"]
PARSERS = {
    "replay": replay.parser,
    "mongodb-replay": mongodb_replay.parser,
    "s3": s3.parser,
    "disaster": disaster.parser,
    "copy": copying.parser,
    "log": log.parser,
    "archive": archive.parser,
    **{section: partial(commands.lab_parser, section) for section in commands.IN_THE_LAB},
}
_BEHIND = re.compile(r"python -m bench([ .](?:'[^'\n]*'|[^`\n'\"])*)")

_GIVEN = re.compile(r'make bench BENCH="?([^`"\n]*)')


def documented() -> list[str]:
    """What stands behind `python -m bench` anywhere, with all that may be left out."""
    texts = [page.read_text() for page in PAGES]
    found = {match[1] for text in texts for match in _BEHIND.finditer(text)}
    found |= {f" {match[1]}" for text in texts for match in _GIVEN.finditer(text)}
    return sorted(text.replace("[", "").replace("]", "").rstrip(" .,:;)") for text in found)


def test_there_are_documented_commands() -> None:
    assert {" replay", " disaster"} <= {text.rpartition(" -")[0].partition(" -")[0] for text in documented()}
    assert " disaster --server mysql-9.7 --gib 3" in documented()


@pytest.mark.parametrize("text", documented())
def test_a_documented_command_can_be_run(text: str) -> None:
    first, *words = shlex.split(text[1:])
    if text.startswith("."):
        # A module of its own: what it is told in a guest are places of files.
        assert (HOUSE / "bench" / f"{first}.py").is_file()
        parts = {first.replace("_", "-"): words}
    elif first.isupper() or first.startswith(("SECTION", "{")):
        return  # it stands for any
    else:
        parts = commands.split([first, *words])
    for name, options in parts.items():
        if name in PARSERS:
            PARSERS[name]().parse_args(options)
        elif not text.startswith("."):
            assert not options, f"{name} takes none"


def test_a_sections_name_is_not_taken_for_a_server() -> None:
    assert commands.split(["replay", "--transactions", "500"]) == {"replay": ["--transactions", "500"]}
    assert replay.parser().parse_args(["--transactions", "500"]).transactions == [500]
    assert list(commands.split([])) == list(commands.sections())


@pytest.mark.parametrize("words", [["nothing"], ["--gib", "3"], ["web", "s3", "--mib", "1"]])
def test_what_cannot_be_meant_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"there is no nothing|say for which one"):
        commands.split(words)


def test_a_bench_that_is_told_to_end_lets_go_of_what_it_holds(tmp_path: Path) -> None:
    story = """
import pathlib, sys, time
from contextlib import contextmanager
from bench.guest import end_in_order

@contextmanager
def server():
    try:
        print("started", flush=True)
        yield
    finally:
        pathlib.Path(sys.argv[1]).write_text("ended")

end_in_order()
with server():
    while True:
        time.sleep(60)
"""
    ended = tmp_path / "ended"
    argv = [sys.executable, "-c", story, str(ended)]
    with subprocess.Popen(argv, cwd=HOUSE, stdout=subprocess.PIPE) as running:
        assert running.stdout and running.stdout.readline() == b"started\n"
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 128 + signal.SIGTERM
    assert ended.read_text() == "ended"


def test_a_log_is_read_until_as_much_was_read_as_is_said() -> None:
    assert [log.times_to_read(size, 1024) for size in (1 << 30, (1 << 30) - 1, 22_000_000, 1 << 31)] == [
        1,
        2,
        49,
        1,
    ]


def test_a_copy_is_beside_the_better_dump_in_seconds_and_in_cpu_seconds() -> None:
    found = [("t", "dump", 20.0, 30.0), ("t", "mydumper", 10.0, 40.0), ("t", "zbackup copy", 5.0, 20.0)]
    assert copying.beside_the_best_dump(found)[1:] == [
        ["t", "mydumper", "10.0", "1.00", "40.0", "0.75"],
        ["t", "zbackup copy", "5.0", "2.00", "20.0", "1.50"],
    ]
    assert {len(row) + 1 for row in copying.beside_the_best_dump(found)} == {len(copying.HEAD)}
