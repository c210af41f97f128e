"""Measure everything and write the tables into docs/reference/benchmarks.md: `make bench`.

`python -m bench SECTION...` measures those alone.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bench import archive, copying, fleet, log, mongodb_replay, replay, retention, s3, shippers, web
from bench.report import circumstances, write

LAB = Path(__file__).resolve().parents[1] / "tests" / "lab" / "lab"
IN_THE_LAB = {
    "standstill": "bench.standstill",
    "restoring": "bench.restoring",
    "cloning": "bench.cloning",
    "idle daemon": "bench.idle_daemon",
}


def main(wanted: Sequence[str]) -> int:
    """What needs ZFS runs in the lab, one after the other; what does not runs on this machine."""
    sections: dict[str, Callable[[], int]] = {
        "replay": replay.main,
        "mongodb-replay": mongodb_replay.main,
        "log": log.main,
        "retention": retention.main,
        "web": web.main,
        "fleet": fleet.main,
        "s3": s3.main,
        "copy": copying.main,
        "archive": archive.main,
        **{name: partial(in_the_lab, name, module) for name, module in IN_THE_LAB.items()},
        "shipping": shipping,
    }
    if unknown := set(wanted) - sections.keys():
        sys.exit(f"there is no {', '.join(sorted(unknown))}, but {', '.join(sections)}")
    return max(measure() for name, measure in sections.items() if name in wanted or not wanted)


def shipping() -> int:
    """The other tools are fetched outside of the guest: it has no network."""
    return in_the_lab("shipping", "bench.shipping", [str(shippers.fetch())], disks=2)


def in_the_lab(section: str, module: str, more: Sequence[str] = (), *, disks: int = 1) -> int:
    """Run a module in a guest, and take over the table it leaves; returns its exit status."""
    with tempfile.TemporaryDirectory(prefix="zbench-") as directory:
        out = Path(directory) / "table.md"
        argv = [str(LAB), "run", *("--disk", "8G") * disks, "--timeout", "30m", "--share", directory, "--"]
        done = subprocess.run([*argv, sys.executable, "-m", module, str(out), *more], check=False)
        if out.exists():
            write(section, f"{circumstances('make bench')}; {out.read_text()}")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
