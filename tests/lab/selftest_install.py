"""`make install` from a checkout, as the README says."""

import re
import stat
import subprocess
from pathlib import Path

import pytest

from tests.lab.places import REPOSITORY
from tests.unit.docs.typed import shell

LIMIT_S = 600


def install(prefix: Path, bindir: Path, checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run `make install` to its end."""
    argv = (*shell("README.md", "make install").split(), "--silent", f"PREFIX={prefix}", f"BINDIR={bindir}")
    return subprocess.run(argv, cwd=checkout, capture_output=True, text=True, timeout=LIMIT_S, check=False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it is installed: after the one that is refused, as somebody does who tries again."""
    return tmp_path_factory.mktemp("place")


def test_a_package_of_another_hash_is_refused(place: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    for name in ("Makefile", "pyproject.toml", "README.md", "zbackup"):
        (checkout / name).symlink_to(REPOSITORY / name)
    # Each hash with its first digit turned into another one.
    lock = (REPOSITORY / "requirements-install.lock").read_text()
    wrong = re.sub(r"sha256:(.)", lambda found: f"sha256:{'1' if found[1] == '0' else '0'}", lock)
    (checkout / "requirements-install.lock").write_text(wrong)
    done = install(place / "zbackup", place / "bin", checkout)
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert not (place / "bin" / "zbackup").exists()


def test_what_is_installed_runs_and_only_its_owner_can_change_it(place: Path) -> None:
    prefix, bindir = place / "zbackup", place / "bin"
    done = install(prefix, bindir, REPOSITORY)
    assert done.returncode == 0, done.stderr
    said = subprocess.run((bindir / "zbackup", "--version"), capture_output=True, text=True, check=True)
    assert said.stdout.startswith("zbackup ")
    assert (bindir / "zbackup").resolve().is_relative_to(prefix)
    loose = [
        f
        for f in prefix.rglob("*")
        if not f.is_symlink() and f.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ]
    assert loose == []
    # From the checkout as it is now, not from a link to it.
    assert not list(prefix.rglob("*editable*zbackup*"))
