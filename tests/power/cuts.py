"""Cuts the power of a whole machine at random moments of snapshots and restores, and has it examined.

`python -m tests.power.cuts --cuts 50 --seed 7`. The machine is a guest of the lab, its power cut is SIGKILL
to its kernel. The journal of what the server acknowledged lies on the host: each line is there before the
next transaction of its thread is sent, so a cut can lose no more than the last answer of each thread.
"""

import argparse
import os
import queue
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.places import REPOSITORY

BOOT_LIMIT_S = 900.0
VERBS = ("snapshot", "restore")
DISK = "6G"


class Broken(Exception):
    """A promise was not kept, or the machine did not come up; with what it said."""


@dataclass(slots=True)
class Machine:
    """One boot of the guest."""

    process: "subprocess.Popen[str]"
    lines: "queue.Queue[str | None]" = field(default_factory=queue.Queue)
    errors: list[str] = field(default_factory=list)

    def listen(self) -> None:
        threading.Thread(target=self._hear, daemon=True).start()
        threading.Thread(target=self._hear_errors, daemon=True).start()

    def say(self, timeout: float) -> str:
        """The next line it says. Raise Broken when it ends or is silent for too long."""
        try:
            line = self.lines.get(timeout=max(0.0, timeout))
        except queue.Empty:
            raise Broken(f"nothing was said for {timeout:.0f} s\n{self._said()}") from None
        if line is None:
            self.process.wait()
            time.sleep(0.5)
            raise Broken(f"the machine ended\n{self._said()}")
        return line

    def cut(self) -> None:
        """SIGKILL; its guest goes with it."""
        self.process.kill()
        self.process.wait()

    def _said(self) -> str:
        return "".join(self.errors[-200:])

    def _hear(self) -> None:
        for line in self.process.stdout or ():
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _hear_errors(self) -> None:
        for line in self.process.stderr or ():
            self.errors.append(line)


@dataclass(slots=True)
class Series:
    """Cuts of one disk, one after the other."""

    flavour: str
    chance: random.Random
    place: Path
    took: dict[str, float] = field(default_factory=lambda: {"snapshot": 2.0, "restore": 8.0})
    """Seconds that each command last took, from which its random moment is chosen."""

    def cut_once(self, verb: str) -> tuple[str, str]:
        """Boot, have it examined, and cut the power during `verb`. Returns what was seen, and the moment."""
        machine = self._boot(verb)
        try:
            seen = "the first boot"
            line = machine.say(BOOT_LIMIT_S)
            if line.startswith("examined: "):
                seen, line = line.removeprefix("examined: "), machine.say(BOOT_LIMIT_S)
            return seen, self._cut_within(machine, verb, line)
        finally:
            machine.cut()

    def examine(self) -> str:
        """Boot and have it examined once more; returns what was seen."""
        machine = self._boot("snapshot")
        try:
            return machine.say(BOOT_LIMIT_S).removeprefix("examined: ")
        finally:
            machine.cut()

    def _cut_within(self, machine: Machine, verb: str, line: str) -> str:
        while True:
            if line != "begun":
                raise Broken(f"unexpected: {line}")
            delay = self.chance.uniform(0, self.took[verb])
            try:
                line = _wait(machine, delay)
            except TimeoutError:
                machine.cut()
                return f"{verb} after {delay:.3f} of {self.took[verb]:.3f} s"
            # It was done before: the next one is cut, with what is known now.
            self.took[verb] = float(line.removeprefix("done "))
            line = machine.say(BOOT_LIMIT_S)

    def _boot(self, verb: str) -> Machine:
        inside = ("tests.power.inside", self.flavour, verb, str(self.place / "journal"))
        disk = self.place / "disk"
        size = "" if disk.exists() else f":{DISK}"
        return boot((f"{disk}{size}",), self.place, inside)


def boot(disks: Sequence[str], share: Path, inside: Sequence[str]) -> Machine:
    """Start a guest with these disks that runs a module with its words, and may write to `share`."""
    words = [word for disk in disks for word in ("--disk", disk)]
    lab = (str(REPOSITORY / "tests/lab/lab"), "run", "--timeout", "1h", *words, "--share", str(share))
    machine = Machine(
        subprocess.Popen(
            (*lab, "--", sys.executable, "-m", *inside),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=REPOSITORY,
        )
    )
    machine.listen()
    return machine


def _wait(machine: Machine, seconds: float) -> str:
    """What it says within that time. Raise TimeoutError when that is nothing."""
    try:
        line = machine.lines.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if line is None:
        return machine.say(0)
    return line


def cut_the_power(flavour: str, cuts: int, seed: int) -> None:
    """So many cuts, and an examination after each. Raise Broken; then the disk is kept, and named."""
    place = Path(tempfile.mkdtemp(prefix="power-", dir="/var/tmp"))
    place.chmod(0o755)
    series = Series(flavour=flavour, chance=random.Random(seed), place=place)
    print(f"power cuts: {flavour}, seed {seed}, {cuts} cuts", flush=True)
    try:
        for number in range(1, cuts + 1):
            seen, moment = series.cut_once(VERBS[number % len(VERBS)])
            print(f"{_clock()} boot {number}: {seen}; cut during {moment}", flush=True)
        print(f"{_clock()} boot {cuts + 1}: {series.examine()}; all {cuts} cuts survived", flush=True)
    except Broken as broken:
        raise Broken(f"{flavour}, seed {seed}: {broken}\nkept: {place}") from None
    shutil.rmtree(place)


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.power.cuts", description=__doc__)
    parser.add_argument("--flavour", action="append", help="of server; may be given more than once")
    parser.add_argument("--cuts", type=int, default=50, help="in all, spread over the flavours")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**6))
    given = parser.parse_args()
    flavours = given.flavour or ["mysql-9.7", "mariadb-10.11"]
    try:
        for number, flavour in enumerate(flavours):
            share = given.cuts // len(flavours) + (number < given.cuts % len(flavours))
            cut_the_power(flavour, share, given.seed + number)
    except Broken as broken:
        print(broken, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
