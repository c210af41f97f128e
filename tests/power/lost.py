"""Loses whole machines under load, each with its disk, and brings everything back from its log archive.

`python -m tests.power.lost --rounds 5 --flavour mysql-9.7`. The machine is a guest of the lab that writes to
a server on one disk, with sync_binlog 0 and 1 in turn, and archives its log to a pool on another one. SIGKILL
to its kernel ends it at a random moment; the first disk is destroyed. Another machine with the second disk
and an empty one restores what is there, and it is judged by the journal of what was acknowledged, which lies
on this host: see tests/slow/lost_hosts. In every second pair of rounds the first disk is kept and looked at
last: the archive must not be ahead of what the server there recovers.
"""

import argparse
import json
import random
import secrets
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.lab.load_journal import read
from tests.power.cuts import BOOT_LIMIT_S, DISK, Broken, Machine, boot

INSIDE = "tests.power.lost_inside"


def lose_a_machine(flavour: str, number: int, chance: random.Random) -> str:
    """One round; returns what was seen. Raise Broken, and keep what is needed to look into it."""
    place = Path(tempfile.mkdtemp(prefix="lost-", dir="/var/tmp"))
    place.chmod(0o755)
    mine, there, new = (place / name for name in ("mine", "there", "new"))
    sync = str(number % 2)
    machine = boot([f"{mine}:{DISK}", f"{there}:{DISK}"], place, (INSIDE, "lose", flavour, sync, str(place)))
    try:
        word, old, pool = machine.say(BOOT_LIMIT_S).split()
        assert word == "writing"
        appends, gone = _kill(machine, chance.uniform(2, 6))
    finally:
        machine.cut()
    acknowledged = max(entry.acked or 0 for entry in read(place / "journal")) / 1e9
    told = {
        "archived": max(at for at, _ in appends),
        "append": max(took for _, took in appends),
        "gone": datetime.fromtimestamp(max(gone, acknowledged), UTC).isoformat(),
    }
    (place / "loss.json").write_text(json.dumps(told))
    keeps = bool(number // 2 % 2)
    if not keeps:
        mine.unlink()
    disks = [f"{new}:{DISK}", str(there), *([str(mine)] if keeps else [])]
    machine = boot(disks, place, (INSIDE, "back", flavour, pool, str(place), *([old] if keeps else [])))
    try:
        seen = [machine.say(BOOT_LIMIT_S) for _ in range(1 + keeps)]
    except Broken as broken:
        raise Broken(f"{broken}\nkept: {place}") from None
    finally:
        machine.cut()
    shutil.rmtree(place)
    _, count, seconds, present = seen[0].split()
    survived = f"; its disk recovered {seen[1].split()[1]}" if keeps else ""
    return (
        f"sync_binlog {sync}: {count} of {int(count) + int(present)} transactions lost, the first {seconds} s"
        f" before the end; an append took at most {told['append']:.2f} s{survived}"
    )


def _kill(machine: Machine, after: float) -> tuple[list[tuple[str, float]], float]:
    """Kill it after that many seconds. Returns what it said was archived, and when, by its own clock, it was
    gone."""
    until = time.monotonic() + after
    appends: list[tuple[str, float]] = []
    behind: list[float] = []
    while not appends or time.monotonic() < until:
        word, at, took, clock = machine.say(BOOT_LIMIT_S).split()
        assert word == "archived"
        appends.append((at, float(took)))
        behind.append(time.time() - float(clock))
    # Now and then between two appends, now and then within one.
    time.sleep(random.uniform(0, 1))
    machine.cut()
    return appends, time.time() - min(behind)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.power.lost", description=__doc__)
    parser.add_argument("--flavour", default="mysql-9.7")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    print(f"machines lost: {given.flavour}, seed {given.seed}", flush=True)
    chance = random.Random(given.seed)
    try:
        for number in range(given.rounds):
            seen = lose_a_machine(given.flavour, number, chance)
            print(f"{time.strftime('%H:%M:%S')} round {number}: {seen}", flush=True)
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
