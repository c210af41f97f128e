"""`make deb`, and what it makes: installed, upgraded, removed and purged in a copy of this Debian.

Needs the network, and root or the lab.
"""

import os
import subprocess
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
PROVEN = (
    "user",
    "directory",
    "check without a configuration ends with 2",
    "nobody but root may change the program",
    "units start the packaged program",
    "man pages",
    "completion",
    "an upgrade keeps the configuration",
    "removed",
    "purged",
    "a purge leaves what lies below clones",
    "and the configuration",
)


def test_the_package_installs_upgrades_and_leaves_nothing_but_what_is_the_operators() -> None:
    built = subprocess.run(
        ("make", "--silent", "deb"), cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    package = Path(built.stdout.split()[-1])
    said = subprocess.run(
        (*_as_root(), "unshare", "--mount", "sh", "packaging/install_story.sh", "/mnt", str(package)),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    steps = [line.removeprefix("story: ") for line in said.stdout.splitlines() if line.startswith("story: ")]
    assert said.returncode == 0 and [step for step in PROVEN if step not in steps] == [], (
        said.stdout + said.stderr
    )


def _as_root() -> tuple[str, ...]:
    return () if os.geteuid() == 0 else ("tests/lab/lab", "run", "--timeout", "15m", "--")
