"""Instances that ship to an address elsewhere: what of one cannot be looked at hides no other."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.engines.mysql.archived import Archive
from tests.unit.samples import NOON, PLAIN, backup
from zbackup.destinations.base import Destination
from zbackup.destinations.copies import Copies
from zbackup.features.fleet.look import of_address
from zbackup.model.archive import Chunk, LogFileId, server_key
from zbackup.model.errors import ConnectionFailed, NoArchive, VerificationFailed, ZbackupError
from zbackup.model.fleet import FleetMember

SHOP = backup(7, 0, 0)


@dataclass
class Session(Archive):
    """What lies there of one instance; `fails` is what its log archive says instead of a listing."""

    there: Copies = field(default_factory=lambda: Copies((SHOP,), ()))
    fails: ZbackupError | None = None

    def copies(self) -> Copies:
        return self.there

    def archived(self) -> Any:
        if self.fails:
            raise self.fails
        return super().archived()

    def add(self, number: int, seconds: float, server: str = PLAIN.server_uuid) -> None:
        """A file of a server's log was archived up to that many seconds after noon."""
        file = LogFileId(
            server=server_key(server),
            epoch=0,
            number=number,
            follows=None,
            head="0" * 32,
            name=f"binlog.{number:06}",
        )
        read = NOON + timedelta(seconds=seconds)
        self.append_log(file, Chunk(begin=0, end=3, sha256="0" * 64, tail="0" * 32, read=read), b"abc")


class Without:
    """A session where no log can be archived."""

    def copies(self) -> Copies:
        return Copies((SHOP,), ())


def members(*sessions: object) -> list[FleetMember]:
    """One instance for each."""

    def opened(path: str, name: str) -> Destination:
        @contextmanager
        def connect() -> Iterator[object]:
            session = sessions[int(name.removeprefix("i"))]
            if isinstance(session, ZbackupError):
                raise session
            yield session

        return cast(Destination, SimpleNamespace(connect=connect))

    names = [(f"host{n}", f"i{n}") for n in range(len(sessions))]
    address: Any = SimpleNamespace(address="s3://backups", instances=lambda: names)
    return of_address(address, opened)


def test_each_is_told_with_what_is_archived_of_its_server() -> None:
    session = Session()
    session.add(1, 10)
    session.add(2, 20)
    session.add(9, 99, "f" * 32)
    told, plain = members(session, Without())
    assert (told.address, told.path, told.instance) == ("s3://backups", "host0", "i0")
    assert (told.backups, told.engine, told.newest) == (1, "mysql", "zbackup-7")
    assert (told.taken, told.as_of) == (SHOP.record.taken, SHOP.record.as_of)
    assert told.archived == NOON + timedelta(seconds=20) and told.problems == ()
    assert (plain.newest, plain.archived, plain.problems) == ("zbackup-7", None, ())


def test_who_cannot_be_looked_at_keeps_nobody_else_from_being_seen() -> None:
    gone, seen = members(ConnectionFailed(("ssh",), 255, "no route to host", "vault"), Session())
    assert gone.newest == "" and "no route to host" in gone.problems[0]
    assert seen.newest == "zbackup-7" and seen.problems == ()


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (NoArchive("it takes no log archive"), ()),
        (
            VerificationFailed("its list\nis damaged"),
            ("its archived log cannot be read: its list is damaged",),
        ),
    ],
)
def test_what_is_wrong_with_a_log_archive_hides_no_backup(fails: ZbackupError, said: tuple[str, ...]) -> None:
    """As over ssh, where the other side has no zbackup, or an older one."""
    (found,) = members(Session(fails=fails))
    assert (found.newest, found.backups, found.archived) == ("zbackup-7", 1, None)
    assert found.problems == said


def test_copies_that_nobody_can_tell_from_forged_ones_are_told() -> None:
    (found,) = members(
        Session(there=Copies((SHOP,), (("a@1", "it is no record"),), unproven="there is no key"))
    )
    assert found.problems == ("a@1: it is no record", "there is no key")


def test_of_an_instance_without_a_backup_there_is_nothing_to_tell() -> None:
    (found,) = members(Session(there=Copies((), ())))
    assert (found.backups, found.engine, found.newest, found.taken, found.as_of) == (0, "", "", None, None)
