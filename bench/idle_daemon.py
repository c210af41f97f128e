"""Measure an idle daemon: memory and CPU time with one instance and with a hundred.

    python -m bench 'idle daemon' [--instances 100]

Every instance has a dataset and a backup that was just taken, so nothing is due. Once every instance has been
looked at the daemon is left alone, and then its memory and time are read from /proc. A look is what
`daemon.watch` asks for; its time includes the zfs commands.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from bench.report import table
from tests.lab.pool import Pool, create_pool, run
from zbackup.model.record import Record, to_properties

REST_S = 15.0
LOOKED_LIMIT_S = 240.0
WATCH_S = 300
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Memory in bytes; processor seconds in a second of rest, and until every instance was looked at."""

    memory: int
    resting: float
    start: float


def main(out: Path, instances: int) -> int:
    costs = {count: measure(count) for count in (1, instances)}
    (few, least), (many, most) = costs.items()
    look = (most.start - least.start) / (many - few)
    rows = [
        [str(count), f"{cost.memory / 2**20:.0f} MiB", f"{cost.resting:.2%}"] for count, cost in costs.items()
    ]
    text = (
        f"in a guest with one CPU\n\n{table(('instances', 'memory', 'of one CPU, between looks'), rows)}\n\n"
        f"The first look at an instance, with the search for leftovers, takes {look:.2f} s of one CPU, the "
        f"`zfs` commands included: {many / WATCH_S * look:.0%} of one for {many} instances, were each "
        f"look every {WATCH_S // 60} minutes like the first."
    )
    print(text)
    out.write_text(text)
    return 0


def measure(count: int) -> Cost:
    pool = create_pool()
    try:
        config, state = prepare(pool, count)
        with daemon(config) as process:
            until_looked(state, count)
            busy = processor_seconds(process.pid)
            time.sleep(REST_S)
            rested = processor_seconds(process.pid) - busy
            return Cost(memory=resident(process.pid), resting=rested / REST_S, start=busy)
    finally:
        pool.destroy()


def prepare(pool: Pool, count: int) -> tuple[Path, Path]:
    """Datasets with a backup each; the configuration of as many instances, and where the state will be."""
    lines = [
        f'run_dir = "{pool.home}/run"',
        f'daemon.state_dir = "{pool.home}/state"',
        f'daemon.watch = "{WATCH_S}s"',
    ]
    for number in range(count):
        dataset = pool.dataset(f"db{number}")
        record = a_record(f"db{number}", dataset.name, str(dataset.mountpoint))
        options = [part for key, value in to_properties(record).items() for part in ("-o", f"{key}={value}")]
        run("zfs", "snapshot", *options, f"{dataset.name}@zbackup-1")
        lines += [
            f"[instance.db{number}]",
            'engine = "mariadb"',
            f'datasets = ["{dataset.name}"]',
            f'socket = "{pool.home}/none"',
            # A slot is as long as half a year, so that no measurement meets the end of one.
            'schedule = { snapshot = "180d" }',
        ]
    config = pool.home / "config.toml"
    config.write_text("\n".join(lines) + "\n")
    return config, pool.home / "state" / "daemon.json"


def a_record(instance: str, dataset: str, mountpoint: str) -> Record:
    now = datetime.now(UTC)
    return Record(
        backup=str(uuid4()),
        instance=instance,
        engine="mariadb",
        members=((dataset, mountpoint),),
        taken=now,
        lock="backup-stage",
        server_uuid=f"server-id 1 at {mountpoint}",
        server_version="11.8.3-MariaDB",
        role="primary",
        position="binlog.000001:4",
        as_of=now,
        complete_to=now,
    )


@contextmanager
def daemon(config: Path) -> Iterator["subprocess.Popen[bytes]"]:
    program = Path(sys.executable).with_name("zbackup")
    argv = [str(program), "--config", str(config), "daemon", "--quiet"]
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def until_looked(state: Path, count: int) -> None:
    """Every instance was looked at once."""
    deadline = time.monotonic() + LOOKED_LIMIT_S
    while time.monotonic() < deadline:
        jobs = json.loads(state.read_text())["jobs"] if state.exists() else []
        if sum(job["job"] == "watch" and job["last"] is not None for job in jobs) == count:
            return
        time.sleep(0.2)
    sys.exit(f"not every instance was looked at within {LOOKED_LIMIT_S:g} s")


def processor_seconds(pid: int) -> float:
    """Its own and its ended children's: fields 14 to 17 of stat, proc(5)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
