"""Every section of the bench, run as it is documented, with as little as it takes to be run at all.

The pages are written to copies: pytest bench/selftest_commands.py (it takes half an hour, and needs the lab).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bench import __main__ as commands
from bench.disaster import PICTURE, RESULT, SERVERS
from bench.report import PAGE

pytestmark = pytest.mark.timeout(60 * 60)

LITTLE = {
    "replay": ["--transactions", "50", "--rounds", "1"],
    "mongodb-replay": ["--entries", "4000", "--rounds", "1"],
    "s3": ["--mib", "64", "--rounds", "1"],
    "copy": ["--rows", "20000"],
    "log": ["--transactions", "800", "--mib", "4", "--rounds", "1"],
    "archive": ["--seconds", "3"],
    "standstill": ["--rounds", "1"],
    "restoring": ["--rounds", "1", "--transactions", "500"],
    "cloning": ["--rounds", "1", "--doublings", "10"],
    "idle daemon": ["--instances", "4"],
    "shipping": ["--rounds", "1", "--mib", "64"],
    "disaster": ["--gib", "0.03", "--rounds", "1", "--transactions", "40"],
}
SERVES = ("replay", "mongodb-replay", "log", "s3", "copy", "archive", "standstill", "disaster")
"""Sections that start servers, and of those that run in a guest one by each way there."""
SERVER = re.compile("--datadir=|--dbpath=|weed\0server|ubd0=")
"""What the command of a server has, or that of a guest."""
RUN = """
import sys
from pathlib import Path
from bench import __main__, disaster, report

pages = Path(sys.argv[1])
written = (report.PAGE, disaster.RESULT, disaster.PICTURE)
report.PAGE, disaster.RESULT, disaster.PICTURE = (pages / page.name for page in written)
sys.exit(__main__.main(sys.argv[2:]))
"""


def run(pages: Path, *words: str) -> str:
    """The page of benchmarks after `python -m bench` with these words."""
    for page in (PAGE, RESULT, PICTURE):
        shutil.copy(page, pages)
    subprocess.run([sys.executable, "-c", RUN, str(pages), *words], cwd=PAGE.parents[2], check=True)
    return (pages / PAGE.name).read_text()


def table(page: str, section: str) -> str:
    """Read the text between the section's marks."""
    return page.partition(f"<!-- begin {section} -->")[2].partition(f"<!-- end {section} -->")[0]


@pytest.mark.parametrize("section", commands.sections())
def test_a_section_measures_and_writes_its_table(section: str, tmp_path: Path) -> None:
    before = table(PAGE.read_text(), section)
    after = table(run(tmp_path, section, *LITTLE.get(section, [])), section)
    assert after != before
    # The head, the line below it, and at least one of numbers.
    assert sum(line.startswith("|") for line in after.splitlines()) >= 3
    assert any(digit in after.splitlines()[-1] for digit in "0123456789")
    if section == "disaster":
        assert all(f"| {server} | 0.03 |" in after for server in SERVERS)
        taking = [line for line in table((tmp_path / PAGE.name).read_text(), "disaster taking").splitlines()]
        assert all("| - " not in line for line in taking if "| 0.03 |" in line)


def test_a_bucket_is_measured_by_tls_too(tmp_path: Path) -> None:
    page = run(tmp_path, "s3", "--tls", "--mib", "16", "--rounds", "1")
    assert table(page, "s3 tls") != table(PAGE.read_text(), "s3 tls")


@pytest.mark.parametrize("section", SERVES)
def test_a_bench_that_is_told_to_end_leaves_no_process(section: str) -> None:
    """Told as soon as it has a server or a guest: while that starts."""
    with tempfile.TemporaryDirectory(prefix="zbt-") as name:
        argv = (sys.executable, "-m", "bench", section, *LITTLE.get(section, []))
        Path(name).chmod(0o755)
        bench = subprocess.Popen(argv, cwd=PAGE.parents[2], env={**os.environ, "TMPDIR": name})
        while not any(SERVER.search(words) for words in started(name).values()):
            assert bench.poll() is None
            time.sleep(0.02)
        bench.terminate()
        assert bench.wait(300) == 128 + signal.SIGTERM
        assert started(name) == {}


def started(place: str) -> dict[int, str]:
    """Processes that were told to keep their files there, by their environment, and their commands."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"={place}".encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_text(errors="replace")
    return found
