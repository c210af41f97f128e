"""The tutorial is followed word by word: its commands run in one shell, and print what it says they print."""

import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
TUTORIAL = PROJECT / "docs" / "tutorial" / "first-recovery.md"
IMAGE = Path("/var/tmp/practice.img")
MARK = "=== end of step "

BLOCK = re.compile(r"^```bash\n(?P<commands>.*?)^```\n(?:\n```text\n(?P<output>.*?)^```\n)?", re.M | re.S)

# What differs from run to run and from machine to machine. Everything else must be as written.
VARIES = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UUID"),
    (re.compile(r"/\S*/mysqld\b(?!\.)"), "mysqld"),
    (re.compile(r"\d+(\.\d+)?( B| KiB| MiB)\b"), "SIZE"),
    (re.compile(r"\d+ min \d+ s\b|\d+(\.\d+)? (ms|s)\b"), "TIME"),
    (re.compile(r"\d+"), "0"),
    (re.compile(r"[ ]+"), " "),
)

CLEAN_UP = """
export ZBACKUP_CONFIG=/practice/zbackup.toml
zbackup clone destroy before-drop --yes
kill $(cat /practice/run/pid) && sleep 5
zpool destroy -f practice
rm -f /var/tmp/practice.img
"""


@dataclass(frozen=True, slots=True)
class Step:
    """Commands of the tutorial, and what they print if it says so."""

    commands: str
    output: str | None


def steps() -> list[Step]:
    return [Step(found["commands"], found["output"]) for found in BLOCK.finditer(TUTORIAL.read_text())]


def alike(text: str) -> list[str]:
    """The lines without what varies, and without the signs of life of long work."""
    for pattern, instead in VARIES:
        text = pattern.sub(instead, text)
    lines = [line.strip() for line in text.strip().splitlines()]
    return [line for line in lines if not (line.startswith("zbackup: ") and line.endswith(", for TIME"))]


@pytest.fixture
def unused_names() -> Iterator[None]:
    """The tutorial's pool and file do not exist before, nor after."""
    pools = subprocess.run(["zpool", "list", "-H", "-o", "name"], capture_output=True, text=True, check=True)
    assert "practice" not in pools.stdout.split()
    assert not IMAGE.exists()
    yield
    if IMAGE.exists():
        subprocess.run(["bash", "-c", CLEAN_UP], check=False)


def test_every_step_of_the_tutorial_works_and_prints_what_it_says(unused_names: None) -> None:
    marked = [f"{step.commands}\necho '{MARK}{number}'\n" for number, step in enumerate(steps())]
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\nset -eu\n" + "".join(marked)],
        cwd=PROJECT,
        env=os.environ | {"TZ": "Etc/UTC"},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    printed = re.split(rf"^{MARK}\d+\n", done.stdout, flags=re.M)
    for step, output in zip(steps(), printed, strict=False):
        if step.output is not None:
            assert alike(output) == alike(step.output), f"after\n{step.commands}\nit printed\n{output}"
    assert done.returncode == 0, f"stopped in\n{steps()[len(printed) - 1].commands}\n{printed[-1]}"


def test_the_outputs_are_found() -> None:
    assert sum(step.output is not None for step in steps()) == 9
