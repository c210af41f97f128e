"""Measure how long writers stand still for a snapshot: with each lock, and with a bare `zfs snapshot`.

    python -m bench standstill [--rounds 10]

Writers work at a fixed rate. Every kind of snapshot is taken in turn, in the same process as the daemon takes
them and once by the command, many times over. Each has a window of the same length, which begins with it: the
longer one looks, the longer the longest wait that has other reasons. A standstill is the longest time in
which no writer had an answer, begun or ended in the window; a latency is that of a row under way then.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from bench.quiet import Silent, quiet
from bench.report import median, percentile, table
from tests.lab import demo_mongodb
from tests.lab.demo_stage import Stage, stage
from zbackup.app import context
from zbackup.config.load import load
from zbackup.jobs.backup.snapshot import snapshot

LOCKS = {
    "mysql": ("none", "backup-lock", "ftwrl"),
    "mariadb": ("none", "backup-stage", "ftwrl"),
    "mongodb": ("none", "fsync"),
}
STOPS_COMMITS = ("ftwrl", "backup-stage", "fsync")
NOTHING, BARE, COMMAND = "nothing", "zfs snapshot", "zbackup snapshot, auto"
THREADS, RATE = 3, 150.0
WINDOW_S, PAUSE_S = 1.2, 0.3

Answer = tuple[int, int]
"""When a row was sent and when it was answered, in ns since 1970."""

Window = tuple[int, int]

AnyStage = Stage | demo_mongodb.Stage

STAGES: dict[str, Callable[[], AbstractContextManager[AnyStage]]] = {
    "mysql-9.7": lambda: stage("mysql-9.7"),
    "mariadb-10.11": lambda: stage("mariadb-10.11"),
    demo_mongodb.FLAVOUR: demo_mongodb.stage,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One snapshot: the time to look at, for how long it was taken, how long a lock was held; in ms."""

    window: Window
    took: float
    held: int


def main(out: Path, rounds: int) -> None:
    """Measure, and leave the tables in the file."""
    quiet()
    rows = []
    for flavour, prepare in STAGES.items():
        with prepare() as made:
            rows += measure(made, flavour, rounds)
    three_of = ("p50", "p99", "max")
    head = ["server", "snapshot", "takes", *(f"standstill {part}" for part in three_of), "of the bare one"]
    head += ["lock held p50", "max", *(f"latency {part}" for part in three_of)]
    text = f"{rounds} of each kind in turn, watched for {WINDOW_S:g} s each, {RATE:g} rows a second by "
    text += f"{THREADS} writers, times in ms, in a guest with one CPU\n\n{table(head, rows)}"
    out.write_text(text)


def measure(made: AnyStage, flavour: str, rounds: int) -> list[list[str]]:
    """The rows of one server."""
    kinds: dict[str, Callable[[], int]] = {NOTHING: lambda: 0, BARE: lambda: bare(made)}
    for lock in LOCKS[made.kind]:
        kinds[f"zbackup, {lock}"] = taker(made, lock)
        if lock in STOPS_COMMITS:
            kinds[f"zbackup, {lock}, by the zfs program"] = taker(made, lock, ready=False)
    made.configure("auto")
    kinds[COMMAND] = lambda: command(made)
    taken: dict[str, list[Taken]] = {kind: [] for kind in kinds}
    answers = made.home / "answers"
    with writing(made, answers):
        for _ in range(rounds):
            for kind, take in kinds.items():
                time.sleep(PAUSE_S)
                taken[kind].append(watched(take))
        time.sleep(PAUSE_S)
    lines = (line.split(",") for line in answers.read_text().splitlines())
    known = sorted((int(answered), int(sent)) for sent, answered in lines)
    found = [(sent, answered) for answered, sent in known]
    still = {kind: [standstill(found, one.window) for one in taken[kind]] for kind in kinds}
    return [
        [
            flavour,
            kind,
            f"{median([one.took for one in taken[kind]]):.0f}",
            *three(still[kind]),
            f"{median(still[kind]) / median(still[BARE]):.2f}",
            *locked([one.held for one in taken[kind]]),
            *three([ms for one in taken[kind] for ms in latencies(found, one.window)]),
        ]
        for kind in kinds
    ]


def watched(take: Callable[[], int]) -> Taken:
    """Take it, and look on for as long as for any other."""
    began = time.time_ns()
    held = take()
    took = (time.time_ns() - began) / 1e9
    time.sleep(max(0.0, WINDOW_S - took))
    return Taken(window=(began, time.time_ns()), took=took * 1000, held=held)


def locked(held: list[int]) -> tuple[str, str]:
    """For how long, p50 and the longest; where nobody knows of a lock there was none."""
    return (f"{median(held):.0f}", str(max(held))) if any(held) else ("-", "-")


def bare(made: AnyStage) -> int:
    """Take a snapshot without thinking of the database, as anybody might. No lock is held."""
    name = f"bare-{time.time_ns()}"
    names = [f"{dataset.name}@{name}" for dataset in (made.pool.data, made.pool.log)]
    subprocess.run(["zfs", "snapshot", *names], check=True)
    return 0


def command(made: AnyStage) -> int:
    """As a user or cron runs it, which starts Python beside the server. How long it held is not asked."""
    made.ask("snapshot")
    return 0


def taker(made: AnyStage, lock: str, *, ready: bool = True) -> Callable[[], int]:
    """Takes zbackup's snapshot with this lock, and says for how many milliseconds it was held.

    Unless `ready`, with nothing that stands by: as on a host without libzfs_core.
    """
    made.configure(lock)
    settings = load(made.home / "zbackup.toml")
    job = context(settings, settings.instance["shop"], Silent())
    if not ready:
        job = replace(job, zfs=replace(job.zfs, prepare=nullcontext))

    def take() -> int:
        held = snapshot(job).backup.record.lock_held_ms or 0
        return 0 if lock == "none" else held

    return take


@contextmanager
def writing(made: AnyStage, answers: Path) -> Iterator[None]:
    """Writers are at work while the body runs."""
    socket = str(made.server.settings.socket)
    argv = [sys.executable, "-m", "bench.writers", made.kind, socket]
    argv += [str(answers), str(THREADS), str(RATE)]
    with subprocess.Popen(argv) as process:
        try:
            await_answers(process, answers)
            time.sleep(3)
            yield
            await_answers(process, answers)
        finally:
            process.terminate()


def await_answers(process: "subprocess.Popen[bytes]", answers: Path) -> None:
    """Wait until each writer may have had one more: what is taken lies between two answers then, however
    slow the machine is."""
    before = count(answers)
    while count(answers) < before + 2 * THREADS:
        if process.poll() is not None:
            raise RuntimeError("the writers have ended")
        time.sleep(0.05)


def count(answers: Path) -> int:
    return answers.read_bytes().count(b"\n") if answers.exists() else 0


def standstill(answers: list[Answer], window: Window) -> float:
    """Milliseconds of the longest time without an answer that lies at least partly in the window."""
    gaps = [
        later - earlier
        for (_, earlier), (_, later) in pairwise(answers)
        if later > window[0] and earlier < window[1]
    ]
    return max(gaps) / 1e6


def latencies(answers: list[Answer], window: Window) -> list[float]:
    """Milliseconds that each row took which was under way in the window."""
    return [
        (answered - sent) / 1e6 for sent, answered in answers if answered > window[0] and sent < window[1]
    ]


def three(values: list[float]) -> list[str]:
    """p50, p99 and the highest."""
    return [f"{value:.0f}" for value in (median(values), percentile(values, 0.99), max(values))]


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
