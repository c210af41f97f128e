"""Shipping to a second host over a real ssh: one connection, and every way it breaks."""

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.pool import Pool, run
from tests.lab.repeats import some
from tests.lab.second_host import USER
from tests.lab.two_hosts import TwoHosts, hosts
from tests.platform.shipping import Yard
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.jobs.context import Context
from zbackup.jobs.ship.ship import ship
from zbackup.model.errors import CommandFailed, ConnectionFailed, DatasetBusy, PoolFull
from zbackup.proc.run import run as really_run
from zbackup.proc.ssh import SshHost

__all__ = ["hosts"]


class Counted:
    """Runs what it is told to, and keeps what ran on the other host."""

    def __init__(self) -> None:
        self.remote: list[str] = []

    def __call__(self, argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        if argv[0] == "ssh" and "-O" not in argv:
            self.remote.append(argv[-1])
        return really_run(argv, mutates=mutates, timeout=timeout)


class Overseas(Yard):
    """A yard with its vault on the second host."""

    def __init__(self, pool: Pool, hosts: TwoHosts) -> None:
        super().__init__(pool, hosts.pool)
        self.hosts = hosts
        run("zfs", "destroy", self.root)
        self.root = f"{hosts.root}/{self.outer.name.rpartition('/')[2]}"
        run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", self.root)
        self.home = f"{self.root}/shop"

    def over_ssh(self, runner: Counted | None = None, key: str = "plain", **target: object) -> Context:
        """With that key of the second host's; `target` changes the SshHost."""
        ctx = self.context()
        made = SshHost(
            host="127.0.0.1",
            user=USER,
            port=self.hosts.link.port,
            identity=self.hosts.identity(key),
            known_hosts=self.hosts.known_hosts,
            alive_s=2,
        )
        destination = ZfsDestination(
            name="vault",
            address=self.hosts.url,
            root=self.root,
            instance="shop",
            target=replace(made, **target),  # type: ignore[arg-type]
            control=Path(f"/run/{self.root.replace('/', '-')}.ssh"),
            runner=runner or really_run,
        )
        return replace(ctx, destinations=(replace(ctx.destinations[0], adapter=destination),))


@pytest.fixture(scope="module", autouse=True)
def ssh_in_path(hosts: TwoHosts) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", hosts.environment["PATH"])
        yield


@pytest.fixture
def yard(pool: Pool, hosts: TwoHosts) -> Iterator[Overseas]:
    yield Overseas(pool, hosts)
    hosts.link.mend()


def ship_once(ctx: Context) -> list[str]:
    """Names of what was committed."""
    return [b.name for b in ship(ctx, ctx.destinations[0]).committed]


def ship_until_done(ctx: Context) -> None:
    """What was received when the link broke may hold the dataset for a moment."""
    for _ in range(100):
        try:
            ship(ctx, ctx.destinations[0])
            return
        except DatasetBusy:
            threading.Event().wait(0.1)
    raise AssertionError("it is busy for ever")


@pytest.mark.parametrize("key", some(["plain", "append-only"], "append-only"))
def test_all_goes_through_one_connection_and_nothing_to_do_is_one_command(yard: Overseas, key: str) -> None:
    first = yard.backup()
    counted = Counted()
    ctx = yard.over_ssh(counted, key)
    before = yard.hosts.link.connections
    assert ship_once(ctx) == [first]
    assert yard.hosts.link.connections - before == 1
    second = yard.backup()
    assert ship_once(ctx) == [second]
    assert yard.committed() == [first, second] and yard.same(second)
    counted.remote.clear()
    assert ship_once(ctx) == []
    assert [line.split()[:2] for line in counted.remote] == [["zfs", "list"]]


@pytest.mark.parametrize(("key", "turns"), some([("plain", 2), ("append-only", 1)], ("append-only", 1)))
def test_cut_at_any_byte_it_goes_on_from_there(yard: Overseas, key: str, turns: int) -> None:
    ctx = yard.over_ssh(key=key)
    yard.backup()
    ship_once(ctx)
    dice = random.Random(yard.root)
    broken = 0
    for turn in range(turns):
        newest = yard.backup(1_500_000)
        for allowed in (dice.randrange(1, 2_800_000), dice.randrange(1, 1_600_000)):
            yard.hosts.link.cut_after(allowed)
            try:
                ship_until_done(ctx)
            except (ConnectionFailed, CommandFailed) as told:
                assert isinstance(told, ConnectionFailed), f"turn {turn}, cut after {allowed}: {told}"
                broken += 1
            yard.hosts.link.mend()
        ship_until_done(ctx)
        assert yard.committed()[-1] == newest and yard.same(newest), f"turn {turn}"
    assert broken >= turns, "most of the cuts were within a stream"


def test_a_receiver_without_room_says_so_and_goes_on_when_there_is(yard: Overseas) -> None:
    ctx = yard.over_ssh()
    yard.backup(2_000_000)
    run("zfs", "set", "quota=3M", yard.root)
    with pytest.raises(PoolFull, match=f"zfs receive on {USER}@127.0.0.1"):
        ship_once(ctx)
    assert yard.committed() == []
    run("zfs", "set", "quota=none", yard.root)
    assert ship_once(ctx) and yard.committed()


@contextmanager
def shipping(ctx: Context) -> Iterator[list[BaseException]]:
    """A slow stream is under way in the body; afterwards what it failed with."""
    slow = replace(ctx, destinations=(replace(ctx.destinations[0], limit=400_000),))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            ship(slow, slow.destinations[0])
        except CommandFailed as failure:
            failures.append(failure)

    thread = threading.Thread(target=work)
    thread.start()
    yield failures
    thread.join()


def test_who_only_looks_meanwhile_does_not_end_the_connection_of_a_stream(yard: Overseas) -> None:
    ctx = yard.over_ssh()
    newest = yard.backup(600_000)
    passed = yard.hosts.link.passed
    with shipping(ctx) as failures:
        while yard.hosts.link.passed < passed + 200_000:
            threading.Event().wait(0.05)
        with ctx.destinations[0].adapter.connect() as session:
            session.inventory()
    assert failures == [] and yard.committed() == [newest]


def test_a_receiver_that_is_rebooted_goes_on(yard: Overseas) -> None:
    ctx = yard.over_ssh()
    newest = yard.backup(2_000_000)
    passed = yard.hosts.link.passed
    with shipping(ctx) as failures:
        while yard.hosts.link.passed < passed + 500_000:
            threading.Event().wait(0.05)
        yard.hosts.reboot()
    assert [type(f) for f in failures] == [ConnectionFailed]
    assert yard.committed() == []
    ship_until_done(ctx)
    assert yard.committed() == [newest] and yard.same(newest)


def test_a_cable_that_is_pulled_is_noticed(yard: Overseas) -> None:
    ctx = yard.over_ssh()
    newest = yard.backup(2_000_000)
    passed = yard.hosts.link.passed
    with shipping(ctx) as failures:
        while yard.hosts.link.passed < passed + 300_000:
            threading.Event().wait(0.05)
        with yard.hosts.unplugged():
            while not failures:
                threading.Event().wait(0.1)
    assert [type(f) for f in failures] == [ConnectionFailed]
    # The other side waits for the rest of the stream until it, too, finds that nobody is there.
    yard.hosts.reboot()
    ship_until_done(ctx)
    assert yard.committed() == [newest]


SUDO = """#!/bin/sh
# As sudo is with a line for zfs in sudoers: it asks nobody, and runs nothing else.
[ "$1 $2" = "-n zfs" ] || exit 1
shift
echo "$*" >> '{log}'
exec "$@"
"""


def test_by_sudo_all_of_zfs_is_run(yard: Overseas) -> None:
    """The lab has no sudo: what stands for it shows what a real one is given, and passes streams."""
    newest, program = yard.backup(), yard.hosts.programs / "sudo"
    log = yard.hosts.home / "sudo log"
    log.touch()
    log.chmod(0o666)
    program.write_text(SUDO.format(log=log))
    program.chmod(0o755)
    counted = Counted()
    try:
        assert ship_once(yard.over_ssh(counted, sudo=True)) == [newest]
    finally:
        program.unlink()
    assert yard.committed() == [newest] and yard.same(newest)
    assert all(line.startswith("sudo -n zfs ") for line in counted.remote)
    assert {line.split()[1] for line in log.read_text().splitlines()} >= {"list", "receive", "set"}


def test_who_cannot_get_in_is_told_why(yard: Overseas, tmp_path: Path) -> None:
    yard.backup()
    unknown = tmp_path / "known hosts"
    unknown.touch()
    with pytest.raises(ConnectionFailed, match="Host key verification failed"):
        ship_once(yard.over_ssh(known_hosts=unknown))
    with pytest.raises(ConnectionFailed, match="Permission denied"):
        ship_once(yard.over_ssh(user="root"))
    with pytest.raises(CommandFailed, match=r"sudo|not found"):
        ship_once(yard.over_ssh(sudo=True))
    assert yard.copies() == [] and yard.marks() == []
