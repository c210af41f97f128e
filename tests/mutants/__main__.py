"""`python -m tests.mutants` proves that each named mutant is found; see campaign.py for the rest."""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.named import NAMED, Mutant

ROOT = Path(__file__).parents[2]
LIMIT_S = 600.0


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """Product and tests, to be changed at will."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        home = Path(made)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in ("zbackup", "tests", "docs"):
            shutil.copytree(ROOT / name, home / name, ignore=ignored)
        for name in ("pyproject.toml", "config.example.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / name, home / name)
        yield home


def fails(home: Path, tests: Sequence[str]) -> bool:
    """Whether one of these tests fails, does not end, or cannot be read, in the project at `home`."""
    argv = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    # `python -m` finds the packages of its directory before those that are installed.
    try:
        done = subprocess.run(argv, cwd=home, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return True
    if "during collection" in done.stdout:
        return True
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode == 1


def applied(mutant: Mutant, text: str) -> str:
    """Raise SystemExit unless what is to be changed is there once."""
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: {mutant.file} holds its text {text.count(mutant.old)} times")
    return text.replace(mutant.old, mutant.new)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("words", nargs="*", help="only mutants whose names hold one of these")
    words = parser.parse_args().words
    alive = []
    with copy_of_the_project() as home:
        for mutant in NAMED:
            if words and not any(word in mutant.name for word in words):
                continue
            file = home / mutant.file
            whole = file.read_text()
            file.write_text(applied(mutant, whole))
            found = fails(home, mutant.tests)
            file.write_text(whole)
            print(f"{'found' if found else 'NOT FOUND'}: {mutant.name}", flush=True)
            alive += [] if found else [mutant.name]
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
