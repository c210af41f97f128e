"""Objects beside archived log, damaged or forged: told, and never taken for the log."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
import zstandard

from tests.destinations.archives import NOW, chunk_of, named
from tests.unit.destinations.bucket import OTHER_SECRET, Shop, part
from tests.unit.destinations.test_s3_log import BELOW, CONTENT, FILE, append, key_of, read
from zbackup.destinations.archive_leftovers import leftovers, remove_leftovers
from zbackup.destinations.base import Archiving
from zbackup.model.archive import MOST_CHUNK, claim_name
from zbackup.model.errors import (
    BucketRefused,
    CommandFailed,
    ConnectionFailed,
    NoArchive,
    Refused,
    VerificationFailed,
)
from zbackup.proc.pipeline import Meter

FIRST = key_of(chunk_of(CONTENT, 0, 100))
LATER = NOW + timedelta(days=365)


def line(**head: Any) -> bytes:
    return json.dumps({"version": 1, "compression": "none", "encryption": None} | head).encode() + b"\n"


PLAIN: dict[str, bytes] = {
    "empty": b"",
    "no line": line()[:-1],
    "no JSON": b"{\n" + CONTENT[:100],
    "no object": b"[1]\n" + CONTENT[:100],
    "not ASCII": "\u00e9\n".encode() + CONTENT[:100],
    "a newer version": line(version=2) + CONTENT[:100],
    "another compression": line(compression="lz4") + CONTENT[:100],
    "no compression": b'{"version":1,"encryption":null}\n' + CONTENT[:100],
    "a strange envelope": line(encryption={"key_id": 5}) + CONTENT[:100],
    "cut": line() + CONTENT[:99],
    "longer": line() + CONTENT[:101],
    "other bytes": line() + CONTENT[1:101],
    "no frame": line(compression="zstd") + CONTENT[:100],
    "a frame of another size": line(compression="zstd") + zstandard.ZstdCompressor().compress(CONTENT[:99]),
    "a frame that is cut": line(compression="zstd") + zstandard.ZstdCompressor().compress(CONTENT[:100])[:-3],
    "a key that nobody has": line(encryption={"key_id": "0" * 16, "wrapped": ""}) + CONTENT[:100],
}


@pytest.mark.parametrize("what", PLAIN)
def test_what_is_not_what_was_archived_is_not_given(shop: Shop, what: str) -> None:
    append(shop.session(), 0, 100)
    append(shop.session(), 100, 200)
    shop.bucket.set(FIRST, PLAIN[what])
    with pytest.raises(VerificationFailed) as told:
        read(shop.session(), 0, 200)
    assert "\n" not in str(told.value)
    assert read(shop.session(), 100, 200) == CONTENT[100:200]


def test_a_sound_plain_object_is_read_by_who_takes_plain_ones(encrypted: Shop) -> None:
    encrypted.bucket.set(FIRST, line() + CONTENT[:100])
    with pytest.raises(VerificationFailed, match="is not encrypted, and may be anybody's"):
        read(encrypted.session(), 0, 100)
    assert read(encrypted.session(accept_plain=True), 0, 100) == CONTENT[:100]
    assert read(encrypted.session(keys=()), 0, 100) == CONTENT[:100]


@pytest.mark.parametrize("at", [0, 120, -1])
def test_what_was_changed_of_encrypted_log_does_not_open(encrypted: Shop, at: int) -> None:
    append(encrypted.session(), 0, 100)
    body = bytearray(encrypted.bucket.body(FIRST))
    body[at] ^= 1
    encrypted.bucket.set(FIRST, bytes(body))
    with pytest.raises(VerificationFailed):
        read(encrypted.session(), 0, 100)


def test_encrypted_log_opens_in_no_other_place(encrypted: Shop) -> None:
    append(encrypted.session(), 0, 100)
    append(encrypted.session(), 100, 200)
    append(encrypted.session(), 0, 100, named(8))
    body = encrypted.bucket.body(FIRST)
    head, _, content = body.partition(b"\n")
    compression = json.loads(head)["compression"]
    for other in (
        encrypted.bucket.body(key_of(chunk_of(CONTENT, 100, 200))),
        encrypted.bucket.body(key_of(chunk_of(CONTENT, 0, 100), named(8))),
        *(head + b"\n" + content[:size] for size in (0, 5, 20, 28)),
        head.replace(compression.encode(), b"none" if compression == "zstd" else b"zstd") + b"\n" + content,
    ):
        encrypted.bucket.set(FIRST, other)
        with pytest.raises(VerificationFailed):
            read(encrypted.session(), 0, 100)
    encrypted.bucket.set(FIRST, body)
    for keys in ((), (OTHER_SECRET,)):
        with pytest.raises(VerificationFailed, match="needs the key"):
            read(encrypted.session(keys=keys), 0, 100)
    assert read(encrypted.session(), 0, 100) == CONTENT[:100]


def test_what_goes_while_it_is_read_is_told(shop: Shop) -> None:
    append(shop.session(), 0, 100)
    shop.bucket.hook("get", FIRST, lambda: shop.bucket.drop(FIRST))
    with pytest.raises(VerificationFailed, match="bytes 0 to 100: taken away meanwhile"):
        read(shop.session(), 0, 100)


def test_what_somebody_puts_beside_it_hides_nothing(shop: Shop) -> None:
    """What is longer or begins before is tried first, and left when it is not what its name says."""
    session = shop.session()
    for begin in range(0, 300, 100):
        append(session, begin, begin + 100)
    for forged in (chunk_of(CONTENT[1:], 0, 5000, closed=True), chunk_of(CONTENT, 50, 4000)):
        shop.bucket.set(key_of(forged), b"junk")
        shop.bucket.set(key_of(replace(forged, closed=not forged.closed)), line() + CONTENT[: forged.size])
    assert read(shop.session(), 0, 300) == CONTENT[:300]
    assert read(shop.session(), 60, 260) == CONTENT[60:260]
    with pytest.raises(VerificationFailed):
        read(shop.session(), 0, 5000)


def test_strangers_are_told_and_not_taken_for_a_log(shop: Shop) -> None:
    append(shop.session(), 0, 100)
    names = ["x", "a/b/c", f"{FILE.server}/x/y", f"{FILE.server}/{FILE.key}/nothing", "\x1b/x/y"]
    for name in names:
        shop.bucket.set(f"{BELOW.removesuffix(FILE.server + '/')}{name}", b"?")
    found = shop.session().archived()
    assert [f.size for f in found.files] == [100] and len(found.problems) == len(names)
    assert all(problem.isprintable() for problem in found.problems)
    for number in range(40):
        shop.bucket.set(f"{BELOW}{FILE.key}/x{number}", b"?")
    told = shop.session().archived().problems
    assert len(told) == 21 and told[-1] == "and 25 more"
    for key in shop.bucket.having("/x")[:25]:
        shop.bucket.drop(key)
    assert len(shop.session().archived().problems) == 20


def test_a_file_whose_beginning_is_gone_is_no_file(shop: Shop) -> None:
    """One that is older than all others was left by a removal, which is finished; another is a problem."""
    session = shop.session()
    old, middle, new = named(6), named(7, 0, 0), named(8, 0, 0)
    for file in (old, middle, new):
        append(session, 0, 100, file)
        append(session, 100, 200, file)
    first = chunk_of(CONTENT, 0, 100)
    shop.bucket.drop(key_of(first, old))
    shop.bucket.drop(key_of(first, new))
    found = shop.session().archived()
    assert [f.file for f in found.files] == [middle] and found.leftovers == (old,)
    assert found.problems == (f"{new}: its beginning is missing",)
    session = shop.session()
    assert (
        session.orphans()
        == session.collect_garbage()
        == (f"archived log {old}, whose removal was cut short",)
    )
    assert shop.session().archived().leftovers == () and not shop.bucket.having(old.key)
    assert shop.bucket.having(new.key)


def test_what_strangers_put_into_an_older_files_place_is_no_leftover(shop: Shop) -> None:
    append(shop.session(), 0, 100)
    mine = f"{BELOW}{named(6).key}/mine"
    shop.bucket.set(mine, b"mine")
    found = shop.session().archived()
    assert found.leftovers == () and len(found.problems) == 1
    shop.session().collect_garbage()
    assert mine in shop.bucket.objects


# up to when it is complete


def sign(shop: Shop, moment: datetime, body: bytes, end: int = 100) -> None:
    chunk = replace(chunk_of(CONTENT, end, end), read=moment, complete_to=moment)
    shop.bucket.set(key_of(chunk), body)


def test_up_to_when_it_is_complete_is_proven(encrypted: Shop) -> None:
    session = encrypted.session()
    append(session, 0, 100)
    append(session, 100, 100)
    (honest,) = session.archived().files
    assert session.proven_to(honest) == honest.complete_to == NOW
    sealed = encrypted.bucket.body(encrypted.bucket.having("/log/")[-1])
    for body in (b"", line(), sealed):
        sign(encrypted, LATER, body)
        (forged,) = encrypted.session().archived().files
        assert forged.complete_to == LATER and encrypted.session().proven_to(forged) == NOW
    assert encrypted.session(keys=(OTHER_SECRET,)).proven_to(honest) is None
    soon = NOW + timedelta(minutes=1)
    append(encrypted.session(), 100, 100, read=soon, complete_to=soon)
    assert encrypted.session().proven_to(honest) == soon


def test_what_was_read_before_bounds_what_is_said(plain: Shop) -> None:
    """And what says nothing is passed over."""
    session = plain.session()
    append(session, 0, 100, read=LATER, complete_to=LATER)
    append(session, 100, 200, read=NOW, complete_to=None)
    (found,) = session.archived().files
    assert session.proven_to(found) == found.complete_to == NOW
    append(session, 200, 300, read=LATER, complete_to=None)
    assert session.proven_to(session.archived().files[0]) == NOW
    append(session, 300, 400, read=LATER, complete_to=NOW - timedelta(1))
    assert session.proven_to(session.archived().files[0]) == NOW - timedelta(1)
    assert session.proven_to(found) == NOW, "of the bytes that were listed"


def test_of_what_says_nothing_nothing_is_known(plain: Shop) -> None:
    append(plain.session(), 0, 100, complete_to=None)
    assert plain.session().proven_to(plain.session().archived().files[0]) is None


# who archives, and removal


def test_an_epoch_is_of_who_was_first(shop: Shop) -> None:
    one, other = "a" * 32, "b" * 32
    assert shop.session().claim_log(FILE.server, 0, one) == one
    assert shop.session().claim_log(FILE.server, 0, other) == one
    assert shop.session().claim_log(FILE.server, 1, other) == other
    append(shop.session(), 0, 100)
    found = shop.session().archived()
    assert [f.size for f in found.files] == [100] and found.problems == ()
    key = f"{BELOW}{claim_name(0)}"
    shop.bucket.hook("get", key, lambda: shop.bucket.drop(key))
    with pytest.raises(VerificationFailed, match="taken away meanwhile"):
        shop.session().claim_log(FILE.server, 0, one)


def test_the_claim_goes_with_the_last_file_of_its_epoch(shop: Shop) -> None:
    session = shop.session()
    files = [named(7), named(8, 0, 0), named(7, 1)]
    for epoch in (0, 1):
        session.claim_log(FILE.server, epoch, "a" * 32)
    for file in files:
        append(session, 0, 100, file)
    claims = [f"{BELOW}{claim_name(epoch)}" for epoch in (0, 1)]
    session.remove_log(files[0])
    assert shop.bucket.having(".writer") == claims
    session.remove_log(files[1])
    assert shop.bucket.having(".writer") == claims[1:]
    session.logs.locked = True
    session.remove_log(files[2])
    assert shop.bucket.having(".writer") == claims[1:], "it is locked itself"
    assert shop.session().archived().files == ()


def test_a_file_of_which_a_part_is_locked_stays(shop: Shop) -> None:
    session = shop.session()
    append(session, 0, 100)
    append(session, 100, 200)
    shop.bucket.locks = {FIRST: "it is locked until May"}
    session.logs.locked = True
    with pytest.raises(Refused, match="it is locked until May"):
        session.remove_log(FILE)
    assert session.archived().files[0].size == 200
    shop.bucket.locks.clear()
    session.remove_log(FILE)
    assert not shop.bucket.having("/log/")


def test_of_a_removal_the_first_bytes_go_first(plain: Shop) -> None:
    session = plain.session()
    for begin in (0, 100, 200):
        append(session, begin, begin + 100)
    plain.bucket.asked.clear()
    session.remove_log(FILE)
    erased = [key for verb, key in plain.bucket.asked if verb == "erase"]
    assert erased == [key_of(chunk_of(CONTENT, begin, begin + 100)) for begin in (0, 100, 200)]
    assert not any(verb == "head" for verb, _ in plain.bucket.asked), "nothing is locked here"


def test_backups_and_archive_do_not_disturb_each_other(shop: Shop) -> None:
    append(shop.session(), 0, 100)
    shop.ship(part(11), 1)
    assert set(shop.named()) == {"backup-1"} and shop.session().orphans() == ()
    assert [c.problems for c in shop.session().verify(deep=True, meter=Meter())] == [()]
    assert len(shop.session().archived().files) == 1


# leftovers, of any destination


class Failing:
    """An archive that cannot be looked at, or of which nothing can be removed."""

    def __init__(self, looking: Exception | None = None, removing: Exception | None = None) -> None:
        self.looking, self.removing = looking, removing

    def archived(self) -> Any:
        if self.looking:
            raise self.looking
        return type("Inventory", (), {"leftovers": (named(6), named(7))})

    def remove_log(self, file: object) -> None:
        if self.removing and file == named(6):
            raise self.removing


LOST = ConnectionFailed(("ssh",), 255, "no route", "vault")
KNOWN: list[Exception] = [Refused("no"), VerificationFailed("no"), CommandFailed(("x",), 1, "no")]


def of(looking: Exception | None = None, removing: Exception | None = None) -> Archiving:
    return cast(Archiving, Failing(looking, removing))


@pytest.mark.parametrize("why", [*KNOWN, NoArchive("there is none")], ids=lambda why: type(why).__name__)
def test_an_archive_that_cannot_be_looked_at_has_no_leftovers(why: Exception) -> None:
    assert leftovers(of(why)) == () == remove_leftovers(of(why))
    with pytest.raises(ConnectionFailed):
        leftovers(of(LOST))


@pytest.mark.parametrize(
    "why", [*KNOWN, BucketRefused("no", "AccessDenied")], ids=lambda why: type(why).__name__
)
def test_a_leftover_that_has_to_stay_keeps_no_other(why: Exception) -> None:
    assert leftovers(of(removing=why)) == (named(6), named(7))
    assert remove_leftovers(of(removing=why)) == (f"archived log {named(7)}, whose removal was cut short",)
    with pytest.raises(ConnectionFailed):
        remove_leftovers(of(removing=LOST))


def test_a_frame_that_says_that_it_is_larger_gets_no_memory(plain: Shop) -> None:
    for size in (101, 64 << 20):
        plain.bucket.set(FIRST, line(compression="zstd") + zstandard.ZstdCompressor().compress(bytes(size)))
        with pytest.raises(VerificationFailed, match="is of another size"):
            read(plain.session(), 0, 100)


def test_no_more_is_read_than_an_append_can_have(plain: Shop) -> None:
    plain.bucket.set(FIRST, bytes(MOST_CHUNK + (1 << 16) + 5000))
    with pytest.raises(VerificationFailed, match="larger than it can be"):
        read(plain.session(), 0, 100)
