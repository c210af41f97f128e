"""Directories of running guests, and how to end exactly the processes that belong to them."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import places

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@dataclass(slots=True)
class Run:
    """The directory of one guest while it runs."""

    path: Path
    files: list[Path] = field(default_factory=list)
    process: int | None = None
    kept: bool = False

    def keep(self) -> tuple[Path, ...]:
        """Leave everything where it is until `lab down`; returns the paths."""
        self.kept = True
        self._record()
        return (*self.files, self.path)

    def owns(self, process: int) -> None:
        """Record the guest's process, for whoever has to clean up after us."""
        self.process = process
        self._record()

    def owns_file(self, path: Path) -> None:
        """Record a file outside the directory that goes when the run goes."""
        self.files.append(path)
        self._record()

    def keep_log(self) -> Path:
        """Copy the kernel's log to a place that stays; returns where."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        kept = places.logs() / f"kernel-{stamp}-{self.path.name}.log"
        source = self.path / "kernel.log"
        kept.write_bytes(source.read_bytes() if source.exists() else b"")
        return kept

    def _record(self) -> None:
        owner, guest = identity(os.getpid()), identity(self.process) if self.process else None
        record = {
            "owner": owner,
            "guest": guest,
            "files": [str(path) for path in self.files],
            "kept": self.kept,
        }
        fresh = self.path / "owner.new"
        fresh.write_text(json.dumps(record))
        fresh.rename(self.path / "owner.json")


@contextlib.contextmanager
def new_run(kind: str) -> Iterator[Run]:
    """A fresh run directory; afterwards the guest is dead and, unless kept, everything of it is gone."""
    sweep()
    run = Run(Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=places.runs())))
    run._record()
    try:
        yield run
    finally:
        if run.process is not None:
            kill_group(run.process)
        if not run.kept:
            for path in (*run.files, run.path):
                _remove(path)


def identity(process: int) -> list[int] | None:
    """Process id and start time: together they name one process, also after the id was used again."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else [process, int(fields[19])]


def is_alive(known: list[int] | None) -> bool:
    """Whether the process that had this identity still runs."""
    return known is not None and identity(known[0]) == known


def sweep(*, even_of_the_living: bool = False) -> list[str]:
    """End guests whose owner is gone, and remove their files.

    With the flag, those of living owners too, and what was kept.

    Returns one line for everything that was done.
    """
    done = []
    for path in sorted(places.runs().iterdir()):
        try:
            record = json.loads((path / "owner.json").read_text())
        except (OSError, ValueError):
            continue  # a run that is just being made
        if not even_of_the_living and (record["kept"] or is_alive(record["owner"])):
            continue
        if is_alive(record["guest"]):
            kill_group(record["guest"][0])
            done.append(f"killed guest {record['guest'][0]}")
        for owned in (*map(Path, record["files"]), path):
            _remove(owned)
        done.append(f"removed {path}")
    return done


def kill_group(leader: int) -> None:
    """End a process that leads its own group, with everything it started in that group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def die_with_parent() -> None:
    """To run in a child: the kernel ends it when the process that started it is gone, however it went."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
