"""Shipping to a second host, side by side with syncoid and zfs-autobackup.

    python -m bench shipping [--rounds 3] [--mib 1024]

Everybody ships a set of two datasets, one in the other, over
the same sshd. The CPU time is that of the whole guest, both ends and ZFS itself; remote commands are counted
by a program called ssh that stands before the real one.
"""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.quiet import quiet
from bench.report import median, table
from tests.lab.pool import Pool, create_pool, run
from tests.lab.two_hosts import TwoHosts, second_host
from tests.platform.shipping import Yard

MIB = 1 << 20
CHANGED_MIB = 50

_SSH = """#!/bin/sh
case " $* " in *" -O "*) ;; *) echo "$*" >> {count} ;; esac
exec {real} -F {config} "$@"
"""


@dataclass(frozen=True)
class Measured:
    """One run of a tool: seconds, CPU seconds of both ends, and commands on the other host."""

    wall: float
    cpu: float
    remote: int


def cells(rounds: list[Measured]) -> list[str]:
    """The medians."""
    wall, cpu = median([r.wall for r in rounds]), median([r.cpu for r in rounds])
    return [f"{wall:.1f}", f"{cpu:.1f}", f"{median([r.remote for r in rounds]):.0f}"]


class Bench:
    """A second host, and an ssh that counts."""

    def __init__(self, hosts: TwoHosts, pool: Pool, peers: Path) -> None:
        self.hosts, self.pool, self.peers = hosts, pool, peers
        self.home = hosts.home / "bench"
        self.home.mkdir()
        real = next(Path(p) / "ssh" for p in hosts.environment["PATH"].split(":"))
        config = self.home / "config"
        config.write_text(
            f'Port {hosts.link.port}\nIdentityFile "{hosts.identity("plain")}"\nIdentitiesOnly yes\n'
            f'UserKnownHostsFile "{hosts.known_hosts}"\nBatchMode yes\n'
        )
        self.count = self.home / "count"
        self.count.touch()
        ssh = self.home / "bin" / "ssh"
        ssh.parent.mkdir()
        words = {"count": self.count, "real": real, "config": config}
        ssh.write_text(_SSH.format(**{k: shlex.quote(str(v)) for k, v in words.items()}))
        ssh.chmod(0o755)
        python = f"{peers}/python"
        self.environment = {
            **os.environ,
            "PATH": f"{ssh.parent}:{peers}/root/usr/sbin:{python}/bin:{os.environ['PATH']}",
            "PERL5LIB": f"{peers}/root/usr/share/perl5",
        }
        self.where = f"{_user(hosts)}@127.0.0.1"

    def measure(self, argv: list[str], **environment: str) -> Measured:
        """Run it. Raise CalledProcessError, with all it said, when it fails."""
        before, began, busy = self._remote(), time.monotonic(), _busy()
        done = subprocess.run(
            argv, env=self.environment | environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{argv}: {done.stdout}{done.stderr}")
        return Measured(time.monotonic() - began, _busy() - busy, self._remote() - before)

    def _remote(self) -> int:
        return len(self.count.read_text().splitlines())


def _user(hosts: TwoHosts) -> str:
    return hosts.url.removeprefix("ssh://").partition("@")[0]


def _busy() -> float:
    """CPU seconds that were not idle since the start."""
    numbers = [int(n) for n in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    return (sum(numbers) - numbers[3] - numbers[4]) / os.sysconf("SC_CLK_TCK")


Ship = Callable[[bool], Measured]
"""Ships once; it is told whether there is anything new."""

Shipper = Callable[[Bench, Yard, str], Ship]


def zbackup(bench: Bench, yard: Yard, root: str) -> Ship:
    """With a configuration of its own; the engine is not asked by `zbackup ship`."""
    file = bench.home / "zbackup.toml"
    url = bench.hosts.url.rpartition("/lab.")[0]
    file.write_text(
        f'run_dir = "{bench.home}"\n[instance.shop]\nengine = "mysql"\ndatasets = ["{yard.outer.name}"]\n'
        f'[[instance.shop.ship]]\nto = "{url}/{root}"\nname = "vault"\ninitial = "allow"\n'
    )
    program = str(Path(sys.executable).with_name("zbackup"))
    return lambda _: bench.measure([program, "--config", str(file), "ship", "--quiet"])


def syncoid(bench: Bench, yard: Yard, root: str) -> Ship:
    """The snapshots that are there, as a user who is not root over there."""
    argv = [f"{bench.peers}/root/usr/sbin/syncoid", "--recursive", "--no-sync-snap", "--quiet"]
    argv += ["--no-privilege-elevation", "--recvoptions=u", yard.outer.name]
    return lambda _: bench.measure([*argv, f"{bench.where}:{root}/set"])


def zfs_autobackup(bench: Bench, yard: Yard, root: str) -> Ship:
    """It takes its own snapshots: the time for that is in it, but for the last steps."""
    run("zfs", "set", "autobackup:bench=true", yard.outer.name)
    program = [sys.executable, "-m", "zfs_autobackup.ZfsAutobackup"]
    argv = [*program, "--ssh-target", bench.where, "--no-progress", "--clear-mountpoint"]
    # Both hosts share a kernel here: what was received is not to be a source, too.
    argv += ["--exclude-received", "--filter-properties", "autobackup:bench", "bench", root]

    def ship(changed: bool) -> Measured:
        more = ["--min-change", "1"] if changed else ["--no-snapshot"]
        return bench.measure([*argv, *more], PYTHONPATH=f"{bench.peers}/python")

    return ship


SHIPPERS: dict[str, Shipper] = {"zbackup ship": zbackup, "syncoid": syncoid, "zfs-autobackup": zfs_autobackup}


@dataclass(frozen=True)
class Step:
    """The writing before each round: a new file, or over the beginning of the one that is there."""

    name: str
    mib: int
    rounds: int
    anew: bool = False


def main(out: Path, rounds: int, mib: int, peers: Path) -> None:
    """Measure, and leave the table in the file."""
    quiet()
    steps = (
        Step(f"full copy of {mib} MiB", mib, 1, anew=True),
        Step(f"{CHANGED_MIB} MiB changed", CHANGED_MIB, rounds),
        Step("nothing to do", 0, rounds),
    )
    rows = []
    with ExitStack() as undo:
        pool = create_pool()
        undo.callback(pool.destroy)
        bench = Bench(undo.enter_context(second_host()), pool, peers)
        for name, shipper in SHIPPERS.items():
            rows.append([name, *of_shipper(bench, shipper, steps)])
            print(rows[-1], flush=True)
    head = ["", *(f"{step.name}: {what}" for step in steps for what in ("s", "CPU s", "remote commands"))]
    about = "two datasets, random data, in a guest with one CPU, both hosts in it"
    out.write_text(f"{about}; medians of {rounds} but for the full copy\n\n{table(head, rows)}")


def of_shipper(bench: Bench, shipper: Shipper, steps: Sequence[Step]) -> list[str]:
    """The cells of one tool. What it shipped is removed afterwards: the next has as much room."""
    yard = Yard(bench.pool, bench.hosts.pool, name="set{}/log")
    root = f"{bench.hosts.root}/{yard.outer.name.rpartition('/')[2]}"
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", root)
    found = []
    ship = shipper(bench, yard, root)
    for step in steps:
        rounds = []
        for _ in range(step.rounds):
            if step.mib:
                _write(yard, step)
                yard.backup(1)
            run("zpool", "sync")
            rounds.append(ship(step.mib > 0))
        found += cells(rounds)
    for held in (root, yard.outer.name):
        _release(held)
        run("zfs", "destroy", "-r", held)
    run("zpool", "sync")
    return found


def _release(dataset: str) -> None:
    """Holds that a tool keeps for its next run."""
    names = run("zfs", "list", "-H", "-r", "-t", "snapshot", "-o", "name", dataset).split()
    for line in run("zfs", "holds", "-H", *names).splitlines():
        snapshot, tag, _ = line.split("\t")
        run("zfs", "release", tag, snapshot)


def _write(yard: Yard, step: Step) -> None:
    with (yard.outer.mountpoint / "table").open("wb" if step.anew else "r+b") as file:
        for _ in range(step.mib):
            file.write(os.urandom(MIB))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
