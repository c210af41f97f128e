"""`make deb`, and what it makes: installed, upgraded, removed and purged in a copy of this Debian; and three
commands from it to a protected host, in the lab.

Then the same on a bare Debian 12 and 13. Needs the network, and the lab.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab import bare_debian
from tests.unit.docs.typed import shell

pytestmark = pytest.mark.timeout(45 * 60)
"""The lab's own limits are less."""

PROJECT = Path(__file__).resolve().parents[1]
PROVEN = (
    "user",
    "directory",
    "check without a configuration ends with 2",
    "nobody but root may change the program",
    "units start the packaged program",
    "the web page's units and user",
    "what the page is made with",
    "man pages",
    "completion",
    "an upgrade keeps the configuration",
    "removed",
    "purged",
    "a purge leaves what lies below clones",
    "and the configuration",
)


@pytest.fixture(scope="module")
def package() -> Path:
    built = subprocess.run(
        (*shell("README.md", "make deb").split(), "--silent"),
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return Path(built.stdout.split()[-1])


def test_the_package_installs_upgrades_and_leaves_nothing_but_what_is_the_operators(package: Path) -> None:
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


def test_three_commands_lead_from_the_package_to_a_protected_host(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """How long they take is printed, and not judged."""
    lab = ("tests/lab/lab", "run", "--disk", "4G", "--mem", "4G", "--timeout", "15m", "--")
    story = ("env", f"PYTHONPATH={PROJECT}", sys.executable, "packaging/protect_story.py", str(package))
    said = subprocess.run((*lab, *story), cwd=PROJECT, capture_output=True, text=True, check=False)
    told = [line.removeprefix("story: ") for line in said.stdout.splitlines() if line.startswith("story: ")]
    assert said.returncode == 0, said.stdout + said.stderr
    assert told[:2] == ["the daemon runs as zbackup", "run again nothing is done"], said.stdout + said.stderr
    assert told[2].startswith("protected in three commands, after "), told
    with capsys.disabled():
        sys.stdout.write(f"{told[2]}\n")


@pytest.mark.parametrize("release", bare_debian.RELEASES)
def test_a_bare_debian_is_protected_in_three_commands(
    release: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the distribution's MariaDB and a MySQL, both on ZFS; the package is built on that release.

    How long they take is printed, and not judged.
    """
    packages, wheels = bare_debian.fetch(release)
    lab = ("tests/lab/lab", "run", "--disk", "4G", "--mem", "8G", "--timeout", "25m", "--")
    story = ("env", f"PYTHONPATH={PROJECT}", sys.executable, "packaging/debian_story.py")
    run = (*lab, *story, str(packages), str(wheels))
    said = subprocess.run(run, cwd=PROJECT, capture_output=True, text=True, check=False)
    told = [line.removeprefix("story: ") for line in said.stdout.splitlines() if line.startswith("story: ")]
    assert said.returncode == 0, said.stdout + said.stderr
    *steps, last = told
    assert steps == [
        "the machine is made",
        "protected: mariadb, mysql",
        "the daemon runs as zbackup",
        "run again nothing is done",
        "nothing was unexpected",
        "purged: zbackup inactive, mariadb active",
    ], said.stdout + said.stderr
    assert last.startswith("Debian GNU/Linux "), last
    with capsys.disabled():
        sys.stdout.write(f"{last}\n")


@pytest.mark.parametrize("line", [shell("README.md", "make demo"), shell("README.md", "make demo-mongodb")])
def test_the_demonstrations(line: str) -> None:
    done = subprocess.run(line.split(), cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _as_root() -> tuple[str, ...]:
    return () if os.geteuid() == 0 else ("tests/lab/lab", "run", "--timeout", "15m", "--")
