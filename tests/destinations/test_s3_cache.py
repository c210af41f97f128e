"""Manifests that were fetched once are kept on the host; nothing but requests depends on that."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.destinations.shop import Shop, new_shop, part, ship, stream
from tests.destinations.test_s3_seal import at
from tests.lab.s3_proxy import Proxy, proxy
from tests.lab.s3_server import S3Server
from zbackup.destinations.copies import Copies
from zbackup.model.errors import VerificationFailed
from zbackup.proc.pipeline import Meter

BACKUPS = 4


@dataclass
class Counted:
    """A bucket behind a proxy that sees what is asked for, and where a host keeps its pages."""

    shop: Shop
    through: Proxy
    home: Path
    how: dict[str, object] = field(default_factory=dict)

    def copies(self) -> tuple[Copies, int]:
        """As a new run sees them, and how many objects it fetched."""
        self.through.seen.clear()
        with self.shop.session(endpoint=self.through.endpoint, cache=self.home, **self.how) as session:
            return session.copies(), self.fetched()

    def fetched(self) -> int:
        return sum(seen.startswith("GET ") and "manifest.json" in seen for seen in self.through.seen)

    def kept(self) -> list[Path]:
        return [file for file in self.home.rglob("*") if file.is_file()]


@pytest.fixture(params=["plain", "encrypted"])
def counted(
    server: S3Server, tmp_path: Path, key: bytes, request: pytest.FixtureRequest
) -> Iterator[Counted]:
    keys = {"keys": (key,)} if request.param == "encrypted" else {}
    with proxy(server.endpoint, lambda number, method: None) as through:
        made = Counted(new_shop(server, tmp_path), through, tmp_path / "state", dict(keys))
        for number in range(1, BACKUPS + 1):
            add(made, number)
        yield made


def add(counted: Counted, number: int) -> None:
    with counted.shop.session(**counted.how) as session:
        ship(session, counted.shop, stream(10 + number, size=1000), part(10 + number), number)


def test_what_was_fetched_once_is_not_fetched_again(counted: Counted) -> None:
    first, asked = counted.copies()
    assert len(first.backups) == BACKUPS == asked == len(counted.kept())
    assert counted.copies() == (first, 0)
    add(counted, BACKUPS + 1)
    more, asked = counted.copies()
    assert more.backups[:-1] == first.backups and len(more.backups) == BACKUPS + 1 and asked == 1
    with counted.shop.session(**counted.how) as session:
        session.remove(more.backups[0], "")
    left, asked = counted.copies()
    assert [b.record for b in left.backups] == [b.record for b in more.backups[1:]] and asked == 0
    assert len(counted.kept()) == BACKUPS, "what is not in the bucket any more is forgotten"
    assert {file.stat().st_mode & 0o777 for file in counted.kept()} == {0o600}


def each(harm: Callable[[Path], object]) -> Callable[[Counted], None]:
    def all_of_them(counted: Counted) -> None:
        for file in counted.kept():
            harm(file)

    return all_of_them


def flip(file: Path) -> None:
    body = bytearray(file.read_bytes())
    body[len(body) // 2] ^= 1
    file.write_bytes(body)


def moved(counted: Counted) -> None:
    """Whole pages in each other's places."""
    files = counted.kept()
    bodies = [file.read_bytes() for file in files]
    for file, body in zip(files, (*bodies[1:], bodies[0]), strict=True):
        file.write_bytes(body)


def of_others(counted: Counted) -> None:
    (own,) = counted.home.iterdir()
    own.chmod(0o777)


def a_link(counted: Counted) -> None:
    (own,) = counted.home.iterdir()
    own.rename(own.with_name("elsewhere"))
    own.symlink_to(own.with_name("elsewhere"))


def a_fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


HARMS: dict[str, Callable[[Counted], None]] = {
    "flipped": each(flip),
    "cut": each(lambda file: os.truncate(file, 100)),
    "empty": each(lambda file: os.truncate(file, 0)),
    "no text": each(lambda file: file.write_bytes(b"\xff" * 100)),
    "directories": each(lambda file: (file.unlink(), file.mkdir())),
    "pipes": each(a_fifo),
    "swapped": moved,
    "writable by others": of_others,
    "a link": a_link,
    "no directory": lambda counted: counted.home.joinpath(f"buckets.{os.geteuid()}").rename(
        counted.home / "x"
    ),
    "a file": lambda counted: (
        (each(Path.unlink)(counted), counted.home.rename(f"{counted.home}.x")) and counted.home.write_text("")
    ),
}


def test_whatever_happens_to_it_costs_requests_alone(counted: Counted, tmp_path: Path) -> None:
    for number, (name, harm) in enumerate(HARMS.items()):
        counted.home = tmp_path / f"state-{number}"
        sound, _ = counted.copies()
        harm(counted)
        assert counted.copies() == (sound, BACKUPS), name


def test_what_was_kept_is_not_taken_for_what_was_changed_since(counted: Counted) -> None:
    counted.copies()
    key = at(counted.shop, 2)
    counted.shop.replace(key, counted.shop.body(key)[:-1])
    copies, asked = counted.copies()
    assert [where for where, _ in copies.unreadable] == [key] and asked == 1
    with (
        counted.shop.session(cache=counted.home, **counted.how) as session,
        pytest.raises(VerificationFailed, match="cannot be understood"),
    ):
        session.inventory()


def test_a_verification_reads_the_bucket(counted: Counted) -> None:
    """Also what the same run has listed already, by what was kept."""
    counted.copies()
    with counted.shop.session(
        endpoint=counted.through.endpoint, cache=counted.home, **counted.how
    ) as session:
        counted.through.seen.clear()
        assert len(session.copies().backups) == BACKUPS and counted.fetched() == 0
        assert len(list(session.verify(deep=False, meter=Meter()))) == BACKUPS
        assert counted.fetched() == BACKUPS


def test_a_page_of_another_key_is_no_better_for_having_been_kept(
    server: S3Server, tmp_path: Path, key: bytes
) -> None:
    """What a host kept when it had no key is proven when it has one."""
    shop = new_shop(server, tmp_path)
    with shop.session() as session:
        ship(session, shop, stream(11, size=1000), part(11), 1)
    state = tmp_path / "state"
    for keys, readable in (((), True), ((key,), False), ((), True)):
        with shop.session(cache=state, keys=keys) as session:
            copies = session.copies()
        assert (len(copies.backups), len(copies.unreadable)) == (readable, not readable)
