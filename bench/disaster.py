"""Measure the time from a disaster to a server that answers, beside other tools; and the cost of backups.

    python -m bench disaster [--gib 0.3 1] [--rounds 3] [--server mariadb-10.11] [--server mysql-9.7]
                              [--server mongodb-6.0] [--scene destroyed]

Runs `bench.disaster_in_guest` (of MongoDB `bench.disaster_mongodb`) in the lab for each server and size, and
writes docs/reference/disaster.json, the plot beside it, and the tables. Without `--server` all three are
measured, MongoDB too. With `--rounds 1 --scene destroyed` 3 GiB take a quarter of an hour for each server,
and 10 GiB half an hour and 75 GiB of disk; above 3 GiB no dump is taken. Up to half a GiB cold caches and
copies on another host and in a bucket are measured, too; of more than that, where `--scene cold` or
`--scene far` says so. What is not measured stays as it was.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import dumpers
from bench.disaster_turns import Rows
from bench.disaster_ways import (
    BY_SSH,
    DUMP,
    FETCHED,
    HAND,
    PHYSICAL,
    RECEIVE,
    RECEIVE_BY_SSH,
    SCENES,
    WAYS,
    ZBACKUP,
)
from bench.guest import in_a_guest
from bench.plot import Series, plot
from bench.report import circumstances, table, write

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULT = DOCS / "reference" / "disaster.json"
PICTURE = DOCS / "images" / "disaster.svg"
DRAWN = ("mariadb-10.11", "mysql-9.7")
MONGODB = "mongodb-6.0"
SERVERS = (*DRAWN, MONGODB)
OF_MONGODB = ("dropped", "destroyed", "taking")
SMALL = 0.5
"""GiB up to which also that is measured which is much work."""
MUCH_WORK = ("cold", "far")
HEAD = ("server", "GiB", "what happened", "by", "seconds", "CPU seconds", "zbackup is", "rounds")
TAKING = ("server", "GiB", "taken by", "seconds", "CPU seconds", "MiB", "standstill, ms", "MiB after a day")
BARE = ("server", "GiB", "what happened", "bare, seconds", "zbackup, seconds", "times the bare one")
FETCHES = {"host": (RECEIVE, FETCHED), "far": (RECEIVE_BY_SSH, BY_SSH)}
"""By scene: the bare receive, and zbackup's that fetches the same."""

MIB = 1 << 20


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m bench disaster",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--gib", type=float, nargs="+", default=[0.3, 1.0])
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--transactions", type=int, default=2000)
    options.add_argument("--server", action="append", choices=SERVERS)
    options.add_argument(
        "--scene",
        action="append",
        choices=list(SCENES),
        help="only this one (default: all that fit the size)",
    )
    options.add_argument("--draw", action="store_true", help="only the tables and the plot, of what is there")
    return options


def main(argv: Sequence[str] = ()) -> int:
    """Measure, and write tables and plot. The exit status is that of the worst run."""
    said = parser().parse_args(argv)
    known: Rows = json.loads(RESULT.read_text()) if RESULT.exists() else []
    worst = 0
    for server in said.server or ([] if said.draw else SERVERS):
        for gib in said.gib:
            scenes = scenes_of(server, gib, said.scene)
            status, fresh = (
                measured(server, gib, said.rounds, said.transactions, scenes) if scenes else (0, [])
            )
            worst = max(worst, status)
            measured_now = {(row["server"], row["gib"], row["scene"]) for row in fresh}
            known = [
                row for row in known if (row["server"], row["gib"], row["scene"]) not in measured_now
            ] + fresh
    known.sort(key=lambda row: (row["server"], row["gib"]))
    RESULT.write_text(json.dumps(known, indent=1) + "\n")
    draw(known)
    return worst


def scenes_of(server: str, gib: float, said: Sequence[str] | None) -> list[str]:
    """Those that were named, else all but those that are too much work; of MongoDB those that it has."""
    chosen = said or [scene for scene in SCENES if gib <= SMALL or scene not in MUCH_WORK]
    return [scene for scene in chosen if server != MONGODB or scene in OF_MONGODB]


def measured(
    server: str, gib: float, rounds: int, transactions: int, scenes: Sequence[str]
) -> tuple[int, Rows]:
    """One server of one size in a guest of its own."""
    with tempfile.TemporaryDirectory(prefix="zbench-") as directory:
        out = Path(directory) / "rows.json"
        # No more than it needs: a pool takes fresh room first, and what was written once stays in the file.
        disk = f"{int(24 + 2.6 * gib)}G"
        words = [server, str(gib), str(rounds), str(transactions), *scenes]
        dumpers.fetch()  # a guest has no network
        module = "bench.disaster_mongodb" if server == MONGODB else "bench.disaster_in_guest"
        status = in_a_guest(module, [str(out), *words], directory, (disk,) * 3, "3h")
        command = ["python -m bench disaster", f"--server {server}", f"--gib {gib:g}", f"--rounds {rounds}"]
        under = circumstances(" ".join(command))
        told = out.read_text() if out.exists() else "[]"
        return status, [row | {"circumstances": under} for row in json.loads(told)]


def draw(known: Rows) -> None:
    """Write the tables into the page, and the plot."""
    write("disaster", f"{_under(known)}\n\n{table(HEAD, _times(known))}")
    write("disaster taking", table(TAKING, _taking(known)))
    write("disaster bare", table(BARE, _beside_bare(known)))
    panels = {
        server: [
            Series(WAYS[way], [(row["gib"], row["seconds"]) for row in _of(known, server, "destroyed", way)])
            for way in (ZBACKUP, HAND, PHYSICAL, DUMP)
        ]
        for server in DRAWN
        if any(row["server"] == server for row in known)
    }
    PICTURE.write_text(plot("From the command to a server that answers, in seconds", "GiB of data", panels))


def _under(known: Rows) -> str:
    """Each run with the scenes that are of it."""
    runs: dict[tuple[str, float, str], dict[str, None]] = {}
    for row in known:
        of_this = runs.setdefault((row["server"], row["gib"], row["circumstances"]), {})
        of_this[SCENES[row["scene"]].removeprefix("none: ")] = None
    return "  \n".join(
        f"{server}, {gib:g} GiB ({'; '.join(scenes)}): {said}" for (server, gib, said), scenes in runs.items()
    )


def _of(known: Rows, server: str, scene: str, way: str) -> Rows:
    return [r for r in known if (r["server"], r["scene"], r["way"]) == (server, scene, way)]


def _times(known: Rows) -> list[list[str]]:
    rows = []
    for row in known:
        if row["scene"] == "taking":
            continue
        same = [r for r in known if all(r[k] == row[k] for k in ("server", "gib", "scene"))]
        # A run that ended early may have no row of ours.
        ours = next((r for r in same if r["way"].startswith(ZBACKUP)), row)
        own = ours is row or row["way"].startswith(ZBACKUP)
        ratio = "-" if own else f"{row['seconds'] / ours['seconds']:.2f} times as fast"
        rows.append(
            [
                row["server"],
                f"{row['gib']:g}",
                SCENES[row["scene"]],
                WAYS[row["way"]],
                f"{row['seconds']:.1f}",
                f"{row['cpu']:.1f}",
                ratio,
                ", ".join(f"{seconds:.1f}" for seconds in row["rounds"]),
            ]
        )
    return rows


def _taking(known: Rows) -> list[list[str]]:
    return [
        [
            row["server"],
            f"{row['gib']:g}",
            WAYS[row["way"]],
            f"{row['seconds']:.1f}",
            f"{row['cpu']:.1f}",
            f"{row['bytes'] / MIB:.1f}",
            f"{row['standstill']:.0f}" if "standstill" in row else "-",
            _after_a_day(row),
        ]
        for row in known
        if row["scene"] == "taking"
    ]


def _beside_bare(known: Rows) -> list[list[str]]:
    rows = []
    for row in known:
        bare, ours = FETCHES.get(row["scene"], ("", ""))
        for beside in _of(known, row["server"], row["scene"], bare):
            if row["way"] == ours and beside["gib"] == row["gib"]:
                times = [beside["seconds"], row["seconds"]]
                seconds = [f"{time:.1f}" for time in times]
                ratio = f"{times[1] / times[0]:.2f}"
                rows.append([row["server"], f"{row['gib']:g}", SCENES[row["scene"]], *seconds, ratio])
    return rows


def _after_a_day(row: dict[str, Any]) -> str:
    """A copy or a dump a day is the least that such ways need."""
    size = float(row.get("day") or row["bytes"])
    return f"{size / MIB:.1f}" if size else "-"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
