"""The promises of every destination (zbackup.destinations.base), asked of each kind there is.

A kind is a function that makes a fresh, empty destination. Only what the Protocol offers is used here, so
that another kind passes the same tests.
"""

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.destinations.shop import BUCKET, new_shop, some_key
from tests.lab.pool import Pool, run
from tests.lab.s3_server import S3Server, client, s3_server
from tests.lab.second_host import USER
from tests.lab.two_hosts import TwoHosts, hosts
from tests.unit.samples import PLAIN
from zbackup.destinations.base import Destination, Session
from zbackup.destinations.zfs_destination import ZfsDestination
from zbackup.model.errors import CommandFailed, VerificationFailed
from zbackup.model.record import Record
from zbackup.model.shipping import OutgoingStream
from zbackup.proc.pipeline import Command, Meter, local
from zbackup.proc.ssh import SshHost
from zbackup.zfs.streams import ZfsStreams, resume_argv, send_argv

__all__ = ["hosts"]

WHEN = "2026-11-21T12:00:00+00:00"
_numbers = iter(range(10**6))


def here(pool: Pool, hosts: TwoHosts, server: S3Server) -> Destination:
    root = pool.dataset(f"copies {next(_numbers)}", mountpoint="none").name
    return ZfsDestination(
        name="here", address=f"zfs:{root}", root=root, instance="shop", target=None, control=Path("/x")
    )


def over_ssh(pool: Pool, hosts: TwoHosts, server: S3Server) -> Destination:
    root = f"{hosts.root}/copies{next(_numbers)}"
    run("zfs", "create", "-o", "canmount=off", "-o", "mountpoint=none", root)
    target = SshHost(
        host="127.0.0.1",
        user=USER,
        port=hosts.link.port,
        identity=hosts.identity("plain"),
        known_hosts=hosts.known_hosts,
    )
    control = Path(f"/run/conformance{next(_numbers)}.ssh")
    return ZfsDestination(
        name="there", address=hosts.url, root=root, instance="shop", target=target, control=control
    )


def bucket(pool: Pool, hosts: TwoHosts, server: S3Server) -> Destination:
    return new_shop(server, pool.home).destination(keys=(some_key(),))


KINDS: tuple[Callable[[Pool, TwoHosts, S3Server], Destination], ...] = (here, over_ssh, bucket)


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as started:
        client(started).create_bucket(Bucket=BUCKET)
        yield started


@dataclass
class Source:
    """A dataset with snapshots to send."""

    name: str
    where: Path

    def snapshot(self, size: int = 200_000) -> OutgoingStream:
        """Change something and take the next; its base is the one before."""
        number = next(_numbers)
        (self.where / "file").write_bytes(os.urandom(size))
        before = ZfsStreams().sources([self.name])[0].origins
        run("zfs", "snapshot", f"{self.name}@s{number}")
        base = max(before, key=lambda o: o.createtxg).guid if before else None
        guid = ZfsStreams().guid(f"{self.name}@s{number}")
        return OutgoingStream(dataset="tank/my db", guid=guid, name=f"s{number}", base=base, raw=False)

    def sender(self, part: OutgoingStream) -> Command:
        """The stream of a part."""
        dataset = ZfsStreams().sources([self.name])[0]
        origin = dataset.origin(part.base) if part.base else None
        return local(send_argv(f"{self.name}@{part.name}", origin.name if origin else None, raw=part.raw))


@pytest.fixture
def source(pool: Pool) -> Source:
    made = pool.dataset(f"source {next(_numbers)}")
    return Source(made.name, made.mountpoint)


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def destination(
    request: pytest.FixtureRequest,
    pool: Pool,
    hosts: TwoHosts,
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> Destination:
    monkeypatch.setenv("PATH", hosts.environment["PATH"])
    made: Destination = request.param(pool, hosts, server)
    return made


@pytest.fixture
def session(destination: Destination) -> Iterator[Session]:
    with destination.connect() as made:
        yield made


def record(name: str) -> Record:
    return replace(PLAIN, backup=name, members=(("tank/my db", "/srv/my db"),))


def cut(command: Command, after: int) -> Command:
    """The same stream, whose sender fails after so many bytes."""
    code = (
        "import subprocess, sys\n"
        "stream = subprocess.run(sys.argv[2:], capture_output=True).stdout\n"
        "sys.stdout.buffer.write(stream[: int(sys.argv[1])])\n"
        "sys.exit('the sender broke')"
    )
    return local((sys.executable, "-c", code, str(after), *command.argv))


def test_at_first_there_is_nothing(session: Session) -> None:
    assert (session.inventory().datasets, session.inventory().committed) == ((), frozenset())


def test_what_has_arrived_is_there_and_counts_when_it_is_committed(session: Session, source: Source) -> None:
    for number in range(3):
        part = source.snapshot()
        count = session.store(part, source.sender(part), Meter())
        assert count > 200_000
        (line,) = [one for one in session.inventory().datasets if one.copies]
        assert (line.name, line.copies[-1].guid, line.partial) == ("tank/my db", part.guid, None)
        assert len(session.inventory().committed) == number
        session.commit(record(f"b{number}"), [part], WHEN)
        assert f"b{number}" in session.inventory().committed
        (line,) = [one for one in session.inventory().datasets if one.copies]
        assert part.guid in line.bases
    session.commit(record("b2"), [part], WHEN)
    assert session.inventory().committed == {"b0", "b1", "b2"}


def test_a_record_of_any_size_is_committed(session: Session, source: Source) -> None:
    part = source.snapshot()
    session.store(part, source.sender(part), Meter())
    long = replace(record("long"), gtid=",".join(f"{PLAIN.server_uuid}:{n}-{n + 1}" for n in range(4000)))
    session.commit(long, [part], WHEN)
    assert session.inventory().committed == {"long"}


def test_a_backup_of_several_parts_counts_when_all_are_there(session: Session, source: Source) -> None:
    part = source.snapshot()
    session.store(part, source.sender(part), Meter())
    missing = replace(part, guid=part.guid + 1)
    with pytest.raises((CommandFailed, VerificationFailed)):
        session.commit(record("b"), [part, replace(missing, name="missing")], WHEN)
    assert session.inventory().committed == frozenset()


def test_a_stream_that_breaks_leaves_no_copy_and_can_be_taken_again(session: Session, source: Source) -> None:
    first, second = source.snapshot(), source.snapshot(3_000_000)
    session.store(first, source.sender(first), Meter())
    with pytest.raises(CommandFailed, match="the sender broke"):
        session.store(second, cut(source.sender(second), 1_500_000), Meter())
    (line,) = [one for one in session.inventory().datasets if one.copies]
    assert [copy.guid for copy in line.copies] == [first.guid]
    if line.partial and line.partial.token:
        rest = local(resume_argv(line.partial.token, raw=False))
        assert session.store(second, rest, Meter()) < 3_000_000
    else:
        session.store(second, source.sender(second), Meter())
    (line,) = [one for one in session.inventory().datasets if one.copies]
    # Which is the newer one is known of those that are committed.
    assert ({copy.guid for copy in line.copies}, line.partial) == ({first.guid, second.guid}, None)


def test_what_was_begun_can_be_given_up(session: Session, source: Source) -> None:
    first, second = source.snapshot(), source.snapshot(3_000_000)
    for part, copies in ((first, []), (second, [first.guid])):
        with pytest.raises(CommandFailed):
            session.store(part, cut(source.sender(part), 150_000), Meter())
        begun = [line for line in session.inventory().datasets if line.partial]
        for line in begun:
            session.abort(line.name)
        lines = session.inventory().datasets
        assert [line for line in lines if line.partial] == []
        assert [copy.guid for line in lines for copy in line.copies] == copies
        session.store(part, source.sender(part), Meter())


def test_nothing_that_is_there_is_overwritten(session: Session, source: Source, pool: Pool) -> None:
    part = source.snapshot()
    session.store(part, source.sender(part), Meter())
    before = session.inventory()
    made = pool.dataset(f"other {next(_numbers)}")
    other = Source(made.name, made.mountpoint)
    stranger = other.snapshot()
    (line,) = [one for one in before.datasets if one.copies]
    if line.restartable:
        # Whole streams may lie beside each other.
        session.store(stranger, other.sender(stranger), Meter())
        (line,) = session.inventory().datasets
        assert {copy.guid for copy in line.copies} == {part.guid, stranger.guid}
        session.commit(record("b"), [part], WHEN)
        assert session.inventory().committed == {"b"}
    else:
        with pytest.raises(CommandFailed):
            session.store(stranger, other.sender(stranger), Meter())
        assert session.inventory() == before


def test_another_session_sees_the_same(destination: Destination, session: Session, source: Source) -> None:
    part = source.snapshot()
    session.store(part, source.sender(part), Meter())
    session.commit(record("b"), [part], WHEN)
    with destination.connect() as other:
        assert other.inventory() == session.inventory()
