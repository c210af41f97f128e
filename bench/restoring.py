"""Measure the time from the order to restore to the recovered server's first answer, by phase.

    python -m bench restoring [--rounds 3] [--transactions 12000]

Each time to "now", so that a snapshot has to be taken for the log, from one base that lies so many
small transactions back.
"""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.quiet import Silent, quiet
from bench.replay import write_rows
from bench.report import median, table
from tests.lab.demo_stage import Stage, stage
from zbackup.app import context
from zbackup.config.load import load
from zbackup.jobs.backup.snapshot import snapshot
from zbackup.jobs.clones.lifecycle import destroy
from zbackup.jobs.context import Context
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.restore.restore import restore
from zbackup.model.moment import parse_moment

FLAVOURS = ("mysql-9.7", "mariadb-10.11")
PHASES = {
    "inspecting": "inspect",
    "taking a snapshot": "snapshot",
    "cloning": "clone",
    "starting the temporary server": "start",
    "replaying": "replay",
    "verifying": "verify",
    "handing over": "hand over",
}


def main(out: Path, rounds: int, transactions: int) -> None:
    """Measure, and leave the table in the file."""
    quiet()
    rows = []
    for flavour in FLAVOURS:
        with stage(flavour) as made:
            rows.append([flavour, *measure(made, rounds, transactions)])
    text = f"median of {rounds}, {transactions} transactions to replay, seconds, "
    text += f"in a guest with one CPU\n\n{table(['server', *PHASES.values(), 'in all'], rows)}"
    out.write_text(text)


def measure(made: Stage, rounds: int, transactions: int) -> list[str]:
    """The row of one server."""
    clock = Silent()
    settings = load(made.home / "zbackup.toml")
    job = context(settings, settings.instance["shop"], clock)
    made.server.sql(
        "CREATE TABLE workload.t (id INT PRIMARY KEY AUTO_INCREMENT, k INT, v VARCHAR(60), KEY (k))"
    )
    snapshot(job)
    write_rows(made.server, transactions)
    runs = [once(job, clock, number) for number in range(rounds)]
    return [f"{median([run[phase] for run in runs]):.1f}" for phase in (*PHASES, "in all")]


def once(job: Context, clock: Silent, number: int) -> dict[str, float]:
    """Seconds by phase of one restore."""
    name = f"bench{number}"
    clock.began.clear()
    began = time.monotonic()
    restore(job, parse_moment("now", job.zone, datetime.now(UTC)), RestoreOptions(name=name))
    ended = time.monotonic()
    destroy([job], name)
    edges = [*(clock.began[phase] for phase in PHASES), ended]
    took = {phase: edges[n + 1] - edges[n] for n, phase in enumerate(PHASES)}
    return took | {"in all": ended - began}


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
