"""The tutorial is followed word by word: its commands run in one shell, and print what it says they print.

Then the how-tos whose commands need no other host, in the same shell and on the same server: they end well.
What is on all other pages is understood by the program (tests/unit/docs/test_pages.py).
"""

import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.unit.docs.pages import Command, commands

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
for clone in before-drop dev1 before-deploy; do zbackup clone destroy $clone --yes; done
kill $(cat /practice/run/pid) && sleep 5
zpool destroy -f practice
rm -f /var/tmp/practice.img
"""


HOW_TOS = {
    "retention-policy.md": 6,
    "monitoring-and-alerts.md": 3,
    "troubleshooting.md": 2,
    "restore-drills.md": 2,
    "dev-clones.md": 9,
}
"""Pages, and how many of their commands are run at least."""

LEFT_OUT = re.compile(r"notify --test|acknowledge|--as-replica-of|dev-base|clone dsn|offsite|--at ")
"""What needs more than there is here: a problem, channels, another server, a destination, or minutes."""

INSTEAD = (
    ('"2024-05-03 18:00"', "+1d && zbackup clone protect dev1 --until now"),
    ("clone create shop --name dev1 --lease 8h", "clone create shop --name dev1 --lease 4h"),
    ("clone destroy", "clone destroy --yes"),
    ("before-deploy --name before-deploy", "before-deploy --name before-deploy --read-only"),
    ("status --plugin", "status --plugin || test $? -le 2"),
)
"""Nobody is there to be asked, and the pages' days are over."""


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


def of_how_tos() -> list[Command]:
    """The commands of those pages, in their order, as they are run here."""
    found = [c for c in commands() if c.whole and Path(c.where).name.partition(":")[0] in HOW_TOS]
    return [c for c in found if not LEFT_OUT.search(shlex.join(c.words))]


def in_shell(command: Command) -> str:
    """The command's line with what has to be another here."""
    line = f"zbackup {shlex.join(command.words)}"
    for written, instead in INSTEAD:
        line = line.replace(written.replace('"', "'"), instead)
    return line


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
    """The how-tos come before the end, which removes everything."""
    marked = [f"{step.commands}\necho '{MARK}{number}'\n" for number, step in enumerate(steps())]
    guides = [f"{in_shell(c)} || {{ echo {shlex.quote(str(c))}; exit 1; }}\n" for c in of_how_tos()]
    marked.insert(-1, "".join(guides) + "zbackup clone destroy before-deploy --yes\n")
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\nset -eu\n" + "".join(marked)],
        cwd=PROJECT,
        env=os.environ | {"TZ": "Etc/UTC"},
        capture_output=True,
        text=True,
        check=False,
        timeout=560,
    )
    printed = re.split(rf"^{MARK}\d+\n", done.stdout, flags=re.M)
    for step, output in zip(steps(), printed, strict=False):
        if step.output is not None:
            assert alike(output) == alike(step.output), f"after\n{step.commands}\nit printed\n{output}"
    assert done.returncode == 0, f"stopped in\n{steps()[len(printed) - 1].commands}\n{printed[-1]}"


def test_the_commands_of_the_how_tos_are_found() -> None:
    run = Counter(Path(c.where).name.partition(":")[0] for c in of_how_tos())
    assert {page: run[page] >= least for page, least in HOW_TOS.items()} == dict.fromkeys(HOW_TOS, True), run


def test_the_outputs_are_found() -> None:
    assert sum(step.output is not None for step in steps()) == 9
