"""Shipping of datasets that are not as plain as others, and to a destination with rules of its own."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.lab.pool import Pool, run
from tests.platform.shipping import Yard
from tests.unit.docs.typed import shell
from zbackup.clock import SystemClock
from zbackup.destinations import zfs_destination
from zbackup.jobs.context import Context
from zbackup.jobs.restore.fetch import fetch
from zbackup.jobs.ship.lag import shipped
from zbackup.jobs.ship.ship import ShipReport, preview, ready, ship
from zbackup.jobs.ship.verify_at import verify_at
from zbackup.jobs.watch.received import inspect
from zbackup.model.errors import KeyElsewhere, NotReceivable, Refused, Stopped
from zbackup.model.progress import Silent
from zbackup.model.retention import Retention, Span, Tier
from zbackup.plan.ship.ship import Abort, Send, Steps
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.streams import send_argv


def ship_now(yard: Yard, retention: Retention | None = None) -> ShipReport:
    ctx = yard.context(retention=retention) if retention else yard.context()
    return ship(ctx, ctx.destinations[0])


class Begun(Silent):
    """Knows when a part of a stream is under way."""

    there = False

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        self.there = self.there or done > 100_000


def begin(yard: Yard) -> Context:
    """Ship slowly, and stop when a part of the first stream has arrived."""
    begun = Begun()
    ctx = replace(yard.context(limit=1_000_000), progress=begun)
    with pytest.raises(Stopped):
        ship(ctx, ctx.destinations[0], stop=lambda: begun.there)
    return ctx


def test_encrypted_datasets_are_sent_raw_and_need_no_key_over_there(
    pool: Pool, vault: Pool, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("not a secret")
    encrypted = {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{key}"}
    yard = Yard(pool, vault, properties=encrypted)
    names = []
    for _ in range(2):
        names.append(yard.backup(2_000_000))
        begin(yard)
        sent = ship_now(yard).sent
        assert sent[0].step.token and all(one.step.part.raw for one in sent)
    assert yard.committed() == names
    copy = f"{yard.home}/{yard.inner.name}"
    assert run("zfs", "get", "-Ho", "value", "keystatus", copy).strip() == "unavailable"


PASSPHRASE, OTHER = "not a secret", "another one"
ON_THE_PAGE = "tank/backups/db1/shop/tank/mysql"


def locked_with(key: Path, passphrase: str = PASSPHRASE) -> dict[str, str]:
    """Properties of an encryption root."""
    key.write_text(passphrase)
    quick = {"pbkdf2iters": "100000"}
    return {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{key}", **quick}


def raw(key: Path) -> dict[str, str]:
    """The same with a key that is no passphrase, of which ZFS has no salt."""
    key.write_bytes(os.urandom(32))
    return {"encryption": "on", "keyformat": "raw", "keylocation": f"file://{key}"}


def sh(line: str, typed: str = "") -> None:
    """Type a line of a message, and what it asks for."""
    subprocess.run(["sh", "-ec", line], input=typed, text=True, check=True, timeout=60)


def only_key(copy: str, key: Path) -> None:
    """Load this key of the copy's, whatever was loaded before."""
    if run("zfs", "get", "-Ho", "value", "keystatus", copy).strip() == "available":
        run("zfs", "unload-key", copy)
    run("zfs", "load-key", "-L", f"file://{key}", copy)


def inherit_key(yard: Yard, copy: str, key: Path) -> None:
    """What somebody does over there who wants to load one key only."""
    run("zfs", "load-key", "-L", f"file://{key}", copy)
    run("zfs", "change-key", "-i", copy)


def shut(yard: Yard) -> list[str]:
    """What the receiving host finds of keys."""
    return [f.text for f in inspect(Zfs(), SystemClock(), yard.root).findings if f.subject == "keys"]


def problems(yard: Yard) -> tuple[str, ...]:
    ctx = yard.context()
    return verify_at(ctx, ctx.destinations[0], most=0).problems


def other_keys(yard: Yard) -> list[str]:
    """The copies with a changed key, as they are written down for zbackup status."""
    found = shipped(yard.context(), datetime.now(UTC))
    return [each.other_key.copy for each in found if each.other_key]


@pytest.mark.parametrize("kind", [locked_with, raw])
def test_a_copy_whose_encryption_root_was_changed_gets_nothing_until_that_is_undone(
    pool: Pool, vault: Pool, tmp_path: Path, kind: Callable[[Path], dict[str, str]]
) -> None:
    """By `zfs change-key -i` over there: the next stream would make it unreadable (openzfs/zfs#12614)."""
    yard = Yard(
        pool, vault, properties=kind(tmp_path / "ours"), there=locked_with(tmp_path / "theirs", OTHER)
    )
    names = [yard.backup()]
    ship_now(yard)
    assert problems(yard) == () and other_keys(yard) == []
    copy = f"{yard.home}/{yard.outer.name}"
    inherit_key(yard, copy, tmp_path / "ours")
    names.append(yard.backup())
    ctx = yard.context()
    for attempt in (ship_now, lambda y: ready(y.context(), ctx.destinations[0])):
        with pytest.raises(KeyElsewhere, match=f"the root is now {yard.root}") as refused:
            attempt(yard)
    assert yard.committed() == names[:1] and other_keys(yard) == [copy] and shut(yard) == []
    assert any("is no longer its own encryption root" in each for each in problems(yard))
    line = shell("off-site-copies-zfs.md", "zfs change-key", {ON_THE_PAGE: shlex.quote(copy)})
    assert line in str(refused.value).splitlines()
    sh(line, OTHER + "\n")
    names.append(yard.backup())
    ship_now(yard)
    assert yard.committed() == [names[0], names[2]] and other_keys(yard) == []
    for member in yard.members:
        only_key(f"{yard.home}/{member.name}", tmp_path / "ours")
    assert problems(yard) == () and yard.same(names[0]) and yard.same(names[2])


def test_a_stream_after_the_change_is_found_and_all_is_sent_again(
    pool: Pool, vault: Pool, tmp_path: Path
) -> None:
    """As earlier versions sent it."""
    yard = Yard(
        pool, vault, properties=locked_with(tmp_path / "ours"), there=locked_with(tmp_path / "theirs", OTHER)
    )
    first = yard.backup()
    ship_now(yard)
    copy, source = f"{yard.home}/{yard.outer.name}", yard.outer.name
    inherit_key(yard, copy, tmp_path / "ours")
    second = yard.backup()
    sh(f"zfs send -w -i '{source}@{first}' '{source}@{second}' | zfs receive -u '{copy}'")
    assert any("neither key opens it" in each for each in problems(yard)) and other_keys(yard) == [copy]
    assert any("the loaded key of" in each for each in problems(yard))
    with pytest.raises(KeyElsewhere, match="neither key opens it"):
        ship_now(yard)
    assert [text.partition(": ")[0] for text in shut(yard)] == [f"no key opens {copy}"]
    run("zfs", "rename", yard.home, f"{yard.home}.old")
    ship_now(yard)
    for member in yard.members:
        only_key(f"{yard.home}/{member.name}", tmp_path / "ours")
    assert problems(yard) == () and yard.same(second)


def test_copies_may_share_a_key_as_their_sources_do(pool: Pool, vault: Pool, tmp_path: Path) -> None:
    yard = Yard(pool, vault, properties=locked_with(tmp_path / "ours"))
    yard.backup()
    ship_now(yard)
    outer, inner = (f"{yard.home}/{member.name}" for member in yard.members)
    run("zfs", "load-key", "-L", f"file://{tmp_path / 'ours'}", outer)
    inherit_key(yard, inner, tmp_path / "ours")
    locked_with(tmp_path / "ours", "a newer one")
    for changed in (False, True):
        if changed:
            run("zfs", "change-key", "-o", f"keylocation=file://{tmp_path / 'ours'}", yard.outer.name)
        newest = yard.backup()
        ship_now(yard)
        if changed:
            only_key(outer, tmp_path / "ours")
        assert problems(yard) == () and yard.same(newest)
    # Not any more when the sources do not.
    run("zfs", "change-key", "-o", "keyformat=passphrase", "-o", f"keylocation=file://{tmp_path / 'ours'}",
        yard.inner.name)  # fmt: skip
    yard.backup()
    with pytest.raises(KeyElsewhere, match=f"the root is now {outer}"):
        ship_now(yard)


def test_a_key_that_was_changed_is_the_sources_again_with_the_next_stream(
    pool: Pool, vault: Pool, tmp_path: Path
) -> None:
    """Changed over there, or at the source: and what is loaded then has to be loaded again."""
    yard = Yard(pool, vault, properties=locked_with(tmp_path / "ours"))
    yard.backup()
    ship_now(yard)
    outer = f"{yard.home}/{yard.outer.name}"
    only_key(outer, tmp_path / "ours")
    newer = locked_with(tmp_path / "newer", "a newer one")["keylocation"]
    for changed in (outer, yard.outer.name):
        run("zfs", "change-key", "-o", f"keylocation={newer}", changed)
        newest = yard.backup()
        ship_now(yard)
        found = problems(yard)
        assert f"the loaded key of {outer} does not open " in found[0]
        assert len(found) == (1 if changed == outer else 2), "the source's key is that of both"
        line = shell("off-site-copies-zfs.md", "zfs unload-key", {ON_THE_PAGE: shlex.quote(outer)})
        assert line == found[0].splitlines()[1]
        for order in (order for each in found for order in each.splitlines()[1:]):
            sh(order, (PASSPHRASE if changed == outer else "a newer one") + "\n")
        assert problems(yard) == ()
        only_key(f"{yard.home}/{yard.inner.name}", tmp_path / ("ours" if changed == outer else "newer"))
        assert yard.same(newest)


def test_what_is_not_encrypted_is_received_below_an_encrypted_dataset(
    pool: Pool, vault: Pool, tmp_path: Path
) -> None:
    """With blocks that ZFS would embed into a stream (zfs send -e), which is not received there."""
    yard = Yard(pool, vault, there=locked_with(tmp_path / "theirs", OTHER))
    run("zfs", "set", "compression=lz4", yard.outer.name)
    for member in yard.members:
        (member.mountpoint / "embedded").write_bytes(b"x" * 100_000)
    names = [yard.backup()]
    ship_now(yard)
    names.append(yard.backup())
    ship_now(yard)
    assert yard.committed() == names and all(yard.same(name) for name in names)
    assert (
        run("zfs", "get", "-Ho", "value", "encryptionroot", f"{yard.home}/{yard.inner.name}").strip()
        == yard.root
    )
    assert problems(yard) == ()
    run("zfs", "unload-key", yard.root)
    names.append(yard.backup())
    ctx = yard.context()
    for attempt in (ship_now, lambda y: ready(y.context(), ctx.destinations[0])):
        with pytest.raises(Refused, match=f"zfs load-key '{yard.root}'"):
            attempt(yard)
    assert any("key must be loaded" in each for each in problems(yard))
    run("zfs", "load-key", yard.root)
    ship_now(yard)
    assert yard.committed() == names and problems(yard) == ()


def test_what_comes_back_from_below_an_encrypted_dataset_has_its_key(
    pool: Pool, vault: Pool, tmp_path: Path
) -> None:
    """Nobody reads on the way what the destination encrypts."""
    yard = Yard(pool, vault, there=locked_with(tmp_path / "theirs", OTHER))
    yard.backup()
    ship_now(yard)
    ctx = yard.context()
    run("zfs", "create", ctx.clones)
    with ctx.destinations[0].adapter.connect() as session:
        (backup,) = session.copies().backups
        with pytest.raises(Refused, match="Load the key that the copy has at the destination") as refused:
            fetch(ctx, session, "back", backup, backup, 0)
        for number in range(2):
            part = f"{ctx.clones}/back.copy/{number}"
            assert f"zfs load-key {part}" in str(refused.value)
            run("zfs", "load-key", "-L", f"file://{tmp_path / 'theirs'}", part)
        back = fetch(ctx, session, "back", backup, backup, 0)
    for member, part in zip(yard.members, back.datasets, strict=True):
        (file,) = (each for each in member.mountpoint.iterdir() if each.is_file())
        assert (Path(part.mountpoint or "") / file.name).read_bytes() == file.read_bytes()
    run("zfs", "destroy", "-r", ctx.clones)


def test_a_stream_of_an_earlier_version_is_refused_below_an_encrypted_dataset(
    pool: Pool, vault: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With embedded blocks, as buckets have them. Without, it comes."""
    yard = Yard(pool, vault)
    run("zfs", "set", "compression=lz4", yard.outer.name)
    (yard.outer.mountpoint / "embedded").write_bytes(b"x" * 100_000)
    yard.backup()
    ship_now(yard)
    ctx = yard.context()
    locked = pool.dataset("locked clones", locked_with(tmp_path / "theirs", OTHER), mountpoint="none")
    ctx = replace(ctx, clones=f"{locked.name}/clones", mountpoint=tmp_path / "clones")
    run("zfs", "create", ctx.clones)

    def as_before(snapshot: str, origin: str | None, *, raw: bool) -> tuple[str, ...]:
        command, verb, *rest = send_argv(snapshot, origin, raw=raw)
        return (command, verb, "-e", *rest)

    with ctx.destinations[0].adapter.connect() as session:
        (backup,) = session.copies().backups
        with monkeypatch.context() as patched:
            patched.setattr(zfs_destination, "send_argv", as_before)
            with pytest.raises(Refused, match="sent by an earlier version of zbackup, with embedded blocks"):
                fetch(ctx, session, "back", backup, backup, 0)
        assert len(fetch(ctx, session, "back", backup, backup, 0).datasets) == 2
    run("zfs", "destroy", "-r", ctx.clones)


def test_a_dataset_that_is_made_later_gets_a_full_copy_among_the_increments(yard: Yard) -> None:
    yard.backup()
    ship_now(yard)
    yard.members.append(yard.pool.dataset(yard.outer.name.partition("/")[2] + "/later"))
    newest = yard.backup()
    ctx = yard.context(initial=False)
    sent = ship(ctx, ctx.destinations[0]).sent
    assert [bool(s.step.origin) for s in sent] == [True, True, False]
    assert yard.committed()[-1] == newest and yard.same(newest)


def test_a_renamed_dataset_goes_on_under_its_old_name_over_there(yard: Yard) -> None:
    yard.backup()
    ship_now(yard)
    old, new = yard.inner.name, f"{yard.outer.name}/renamed"
    run("zfs", "rename", old, new)
    where = Path(run("zfs", "get", "-Ho", "value", "mountpoint", new).strip())
    yard.members[1] = type(yard.inner)(name=new, mountpoint=where)
    newest = yard.backup()
    assert all(s.step.origin for s in ship_now(yard).sent)
    assert yard.committed()[-1] == newest
    assert run("zfs", "list", "-H", "-o", "name", f"{yard.home}/{old}@{newest}")


def test_volumes_are_left_alone(yard: Yard) -> None:
    volume = f"{yard.outer.name}/volume"
    run("zfs", "create", "-sV", "1M", volume)
    run("zfs", "snapshot", f"{volume}@mine")
    newest = yard.backup()
    ship_now(yard)
    assert yard.committed() == [newest]
    assert not [copy for copy in yard.copies() if "volume" in copy]


def test_what_the_destinations_rules_want_is_sent_and_nothing_else(yard: Yard) -> None:
    """Six backups in three hours, and a destination that keeps one an hour."""
    names = [yard.backup(50_000, every=timedelta(minutes=30)) for _ in range(6)]
    hourly = Retention(tiers=(Tier(step=Span(1, "hour"), span=None),), minimum=1, window=Span(1, "minute"))
    ship_now(yard, hourly)
    # 0:30 is the first of its hour, then 1:00, 2:00 and 3:00, which is the newest too.
    assert yard.committed() == [names[n] for n in (0, 1, 3, 5)]


def test_a_copy_that_was_written_to_is_not_rolled_back(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    copy, where = f"{yard.home}/{yard.inner.name}", yard.pool.home / "mounted copy"
    for change in ("readonly=off", f"mountpoint={where}"):
        run("zfs", "set", change, copy)
    run("zfs", "mount", copy)
    (where / "somebody wrote this").write_text("x" * 100_000)
    run("zfs", "unmount", copy)
    second = yard.backup()
    with pytest.raises(NotReceivable, match="modified"):
        ship_now(yard)
    assert yard.committed() == [first]
    run("zfs", "rollback", f"{copy}@{first}")
    run("zfs", "inherit", "mountpoint", copy)
    ship_now(yard)
    assert yard.committed() == [first, second]
    shutil.rmtree(where, ignore_errors=True)


def test_a_snapshot_destroyed_in_the_middle_is_given_up_and_a_newer_one_sent(yard: Yard) -> None:
    first = yard.backup()
    ship_now(yard)
    second = yard.backup(3_000_000)
    ctx = begin(yard)
    assert yard.committed() == [first]
    for member in yard.members:
        run("zfs", "release", ctx.destinations[0].tag, f"{member.name}@{second}")
        run("zfs", "destroy", f"{member.name}@{second}")
        run("zfs", "destroy", newest_bookmark(member.name))
    third = yard.backup()
    plan = preview(ctx, ctx.destinations[0]).plan
    assert isinstance(plan, Steps)
    assert [type(step) for step in plan.steps][:2] == [Abort, Send]
    ship_now(yard)
    assert yard.committed() == [first, third] and yard.same(third)


def newest_bookmark(dataset: str) -> str:
    rows = run("zfs", "list", "-Hpt", "bookmark", "-s", "createtxg", "-o", "name", dataset)
    return rows.splitlines()[-1]
