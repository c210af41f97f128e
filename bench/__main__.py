"""Measure everything and write the tables into docs/reference/benchmarks.md: `make bench`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from bench import mongodb_replay, replay, retention
from bench.report import circumstances, write

LAB = Path(__file__).resolve().parents[1] / "tests" / "lab" / "lab"
IN_THE_LAB = {
    "standstill": "bench.standstill",
    "restoring": "bench.restoring",
    "cloning": "bench.cloning",
    "idle daemon": "bench.idle_daemon",
}


def main() -> int:
    """What needs ZFS runs in the lab, one after the other; what does not runs on this machine."""
    status = replay.main()
    status |= mongodb_replay.main()
    status |= retention.main()
    for section, module in IN_THE_LAB.items():
        status |= in_the_lab(section, module)
    return status


def in_the_lab(section: str, module: str) -> int:
    """Run a module in a guest, and take over the table it leaves; returns its exit status."""
    with tempfile.TemporaryDirectory(prefix="zbench-") as directory:
        out = Path(directory) / "table.md"
        argv = [str(LAB), "run", "--disk", "8G", "--timeout", "10m", "--share", directory, "--"]
        done = subprocess.run([*argv, sys.executable, "-m", module, str(out)], check=False)
        if out.exists():
            write(section, f"{circumstances('make bench')}; {out.read_text()}")
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
