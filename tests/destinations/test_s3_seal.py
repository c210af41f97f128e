"""Manifests are sealed where streams are encrypted: nobody fakes one without the key."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.destinations.shop import Shop, new_shop, part, ship, some_key, stream
from tests.lab.s3_server import S3Server
from zbackup.destinations.s3.session import S3Session
from zbackup.model.errors import Refused, VerificationFailed
from zbackup.proc.pipeline import Meter, local


@pytest.fixture
def shop(server: S3Server, tmp_path: Path, key: bytes) -> Shop:
    """With two encrypted backups of one chain."""
    made = new_shop(server, tmp_path)
    with made.session(keys=(key,)) as session:
        ship(session, made, stream(11), part(11), 1)
        ship(session, made, stream(12, 11), part(12, 11), 2)
    return made


def at(shop: Shop, number: int) -> str:
    return f"{shop.root}/backups/backup-{number}/manifest.json"


def change(shop: Shop, number: int, how: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads(shop.body(at(shop, number)))
    how(content)
    shop.replace(at(shop, number), json.dumps(content).encode())


def unseal(content: dict[str, Any]) -> None:
    """As if it had been written before manifests were sealed."""
    content["version"] = 1
    del content["encryption"], content["seal"], content["root"]


def restore(session: S3Session, number: int) -> int:
    """What a restore asks for: the streams of the copy, and their bytes."""
    (backup,) = [b for b in session.copies().backups if b.record.backup == f"backup-{number}"]
    stream_steps = session.stream_steps(backup.snapshots)
    return sum(session.fetch(step, "", local(("cat",)), Meter()) for step in stream_steps)


def test_a_sealed_manifest_is_listed_and_proven(shop: Shop, key: bytes) -> None:
    assert json.loads(shop.body(at(shop, 1)))["version"] == 3
    with shop.session(keys=(key,)) as session:
        assert restore(session, 2) == len(stream(11)) + len(stream(12, 11))
        assert not any(checked.problems for checked in session.verify(deep=False, meter=Meter()))
    with shop.session() as session:
        assert len(session.copies().backups) == 2, "listing needs no key"
        with pytest.raises(Refused, match="needs the key"):
            restore(session, 1)


FAKES: dict[str, Callable[[dict[str, Any]], object]] = {
    "another time": lambda c: c["record"].update(as_of="2026-11-01T00:00:00+00:00"),
    "another stream": lambda c: c["parts"][0].update(guid="12", base="11"),
    "without its part": lambda c: c["parts"].clear(),
    "another seal": lambda c: c.update(seal="0" * 64),
}


def test_a_changed_manifest_is_told(shop: Shop, key: bytes) -> None:
    sound = shop.body(at(shop, 1))
    for name, fake in FAKES.items():
        change(shop, 1, fake)
        with shop.session(keys=(key,)) as session:
            copies = session.copies()
            assert [b.record.backup for b in copies.backups] == ["backup-2"], name
            ((where, problem),) = copies.unreadable
            assert where == at(shop, 1) and "was changed since it was written" in problem, name
            with pytest.raises(VerificationFailed, match="was changed"):
                session.inventory()
        shop.replace(at(shop, 1), sound)


@pytest.mark.parametrize("keys", [(), (some_key(),)], ids=["plain", "encrypted"])
def test_manifests_that_were_swapped_are_told(
    server: S3Server, tmp_path: Path, keys: tuple[bytes, ...]
) -> None:
    shop = new_shop(server, tmp_path)
    with shop.session(keys=keys) as session:
        ship(session, shop, stream(11), part(11), 1)
        ship(session, shop, stream(12, 11), part(12, 11), 2)
    bodies = [shop.body(at(shop, number)) for number in (1, 2)]
    for number, body in zip((2, 1), bodies, strict=True):
        shop.replace(at(shop, number), body)
    with shop.session(keys=keys) as session:
        copies = session.copies()
        assert copies.backups == ()
        assert all("another backup's manifest" in problem for _, problem in copies.unreadable)


def test_a_manifest_that_lost_its_seal_does_not_count(shop: Shop, key: bytes) -> None:
    """Nor where plain ones do: its streams' pages tell that it had one. What others need is not blamed."""
    change(shop, 1, unseal)
    change(shop, 1, FAKES["another time"])
    with shop.session(keys=(key,)) as session:
        assert [b.record.backup for b in session.copies().backups] == ["backup-2"]
    with shop.session(keys=(key,), accept_plain=True) as session:
        with pytest.raises(VerificationFailed, match=r"backup-1/manifest\.json lost its signature"):
            restore(session, 1)
        found = {c.backup: c.problems for c in session.verify(deep=True, meter=Meter())}
    assert "lost its signature" in found["backup-1"][0] and found["backup-2"] == ()


def test_a_manifest_that_names_a_key_that_is_not_here(shop: Shop, key: bytes) -> None:
    change(shop, 1, lambda c: c["encryption"].update(key_id="0" * 16))
    with shop.session(keys=(key,)) as session:
        copies = session.copies()
        assert [b.record.backup for b in copies.backups] == ["backup-2"]
        assert "the manifest of backup-1 needs the key 0000" in copies.unreadable[0][1]
