"""Work of the guest between two power cuts: look at what is left, then go on until the light goes out.

`python -m tests.power.inside FLAVOUR VERB JOURNAL`; it says "examined: ...", and then "begun" and "done" for
every command of zbackup that it runs under load. It ends only when something is wrong, or with its machine.
"""

import itertools
import sys
import time
from pathlib import Path

from tests.lab.load import Load
from tests.power.after import CLONE, After
from tests.power.stage import open_stage
from tests.system.house import House, after_writing

THREADS, RATE = 3, 120.0
LOCKS = {"mysql": ("ftwrl", "backup-lock", "none"), "mariadb": ("ftwrl", "backup-stage", "none")}


def main(flavour: str, verb: str, journal: Path) -> None:
    """Raise AssertionError when what the last power cut left is not as it must be."""
    house = open_stage(flavour)
    house.server.start()
    if journal.exists():
        say(f"examined: {After(house, journal).examine()}")
    with Load.start(house.server, THREADS, RATE, journal, durable=True):
        after_writing(journal, 60)
        if not house.backups():
            house.snapshot()
        # Another lock first each time: most boots see but one command.
        for number in itertools.count(int(time.time())):
            after_writing(journal, 20)
            say("begun")
            began = time.monotonic()
            work(house, verb, number)
            say(f"done {time.monotonic() - began:.3f}")


def work(house: House, verb: str, number: int) -> None:
    """One command of zbackup, from its start to its end."""
    if verb == "restore":
        house.restore("now", CLONE)
        house.destroy(CLONE)
        return
    locks = LOCKS[house.server.settings.kind]
    kind = locks[number % len(locks)]
    house.snapshot(house.configure(kind, lock=kind))


def say(line: str) -> None:
    """Tell the host."""
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
