"""`python -m tests.mutants` proves that each named mutant is found; see campaign.py for the rest."""

import argparse
import itertools
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pydantic
import pymongo
import pymysql
import pytest
import structlog

from tests.mutants.named import NAMED, Mutant

ROOT = Path(__file__).parents[2]
LIMIT_S = 600.0
LIBRARIES = hypothesis, pydantic, pymongo, pymysql, structlog
"""What most tests import; it takes a second."""
_TIMES = itertools.count(int(time.time()))


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """Product and tests, to be changed at will."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        home = Path(made)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        for name in ("zbackup", "tests", "docs", "systemd"):
            shutil.copytree(ROOT / name, home / name, ignore=ignored)
        for name in ("pyproject.toml", "config.example.toml", "README.md", "Makefile"):
            shutil.copy(ROOT / name, home / name)
        yield home


def fails(home: Path, tests: Sequence[str]) -> bool:
    """Whether one of these tests fails, does not end, or cannot be read, in the project at `home`.

    In a copy of this process, in which the libraries are there already: they take longer than most tests.
    """
    argv = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]
    with tempfile.TemporaryFile() as said:
        run = multiprocessing.get_context("fork").Process(target=_tell, args=(home, argv, said.fileno()))
        run.start()
        run.join(LIMIT_S)
        if run.is_alive():
            run.kill()
            run.join()
            return True
        said.seek(0)
        text = said.read().decode(errors="replace")
    if "during collection" in text:
        return True
    if run.exitcode not in (0, 1):
        raise SystemExit(f"pytest {' '.join(argv)} ended with {run.exitcode}:\n{text}")
    return run.exitcode == 1


def _tell(home: Path, argv: list[str], said: int) -> None:
    os.dup2(said, 1)
    os.dup2(said, 2)
    leave_for(home)
    status = int(pytest.main(argv))
    sys.stdout.flush()
    # Threads that a defect has left hanging are not waited for.
    os._exit(status)


def leave_for(home: Path) -> None:
    """From now on this process reads the project there."""
    os.chdir(home)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "zbackup")]:
        del sys.modules[name]
    sys.path[:] = [str(home), *(place for place in sys.path if Path(place).resolve() != ROOT)]
    os.environ["PYTHONPATH"] = str(home)
    # That an example fails is enough: to look for the smallest one takes longer than all tests.
    plain = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", phases=plain)
    hypothesis.settings.load_profile("mutants")


def rewrite(file: Path, text: str) -> None:
    """With a time that it never had: Python tells stale compiled files by whole seconds and sizes."""
    file.write_text(text)
    os.utime(file, (next(_TIMES),) * 2)


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
            rewrite(file, applied(mutant, whole))
            found = fails(home, mutant.tests)
            rewrite(file, whole)
            print(f"{'found' if found else 'NOT FOUND'}: {mutant.name}", flush=True)
            alive += [] if found else [mutant.name]
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main())
