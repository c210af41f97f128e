"""A destination that keeps by rules of its own, and what is released when one is gone. On two real pools."""

import struct
import subprocess
from dataclasses import replace
from pathlib import Path

from tests.faults.breaking import Fault, fired
from tests.lab.pool import Pool, run
from tests.platform.shipping import Skewed, Yard
from zbackup.jobs.clones.lifecycle import working_on
from zbackup.jobs.ship.prune_at import plan_prune_at, prune_at
from zbackup.jobs.ship.remote_holds import remote_holds
from zbackup.jobs.ship.ship import ship
from zbackup.jobs.ship.stale_holds import find_stale, release_stale
from zbackup.jobs.ship.verify_at import verify_at
from zbackup.model.drr_begin import RECORD
from zbackup.model.record import PREFIX
from zbackup.model.retention import Retention, Span
from zbackup.model.shipping import restore_tag
from zbackup.zfs.datasets import Zfs
from zbackup.zfs.stream_records import read_record

BEGIN, END = 0, 5
SHORT = Retention(tiers=(), last=2, minimum=1, window=Span(1, "minute"))


def shipped(yard: Yard, count: int) -> list[str]:
    """The names of so many backups, each shipped."""
    ctx = yard.context()
    names = []
    for _ in range(count):
        names.append(yard.backup())
        ship(ctx, ctx.destinations[0])
    return names


def test_the_rules_of_the_destination_decide_there(yard: Yard) -> None:
    names = shipped(yard, 4)
    ctx = yard.context(retention=SHORT)
    destination = ctx.destinations[0]
    assert [b.name for b in plan_prune_at(ctx, destination).retention.destroy] == names[:2]
    assert yard.committed() == names
    report = prune_at(ctx, destination)
    assert [b.name for b in report.destroyed] == names[:2] and report.skipped == ()
    assert yard.committed() == names[2:]
    assert {c.partition("@")[2] for c in yard.copies()} == set(names[2:])
    later = yard.backup()
    assert [b.name for b in ship(ctx, destination).committed] == [later], "the next stream has its base"


def test_a_clock_that_is_a_day_off_ships_the_same_and_destroys_nothing_newer(yard: Yard) -> None:
    """What is sent goes by guids; the rules are asked of a host that gave its backups other times."""
    ctx = replace(yard.context(retention=SHORT), clock=Skewed())
    destination = ctx.destinations[0]
    names = []
    for _ in range(3):
        names.append(yard.backup())
        assert [b.name for b in ship(ctx, destination).committed] == names[-1:]
    prune_at(ctx, destination)
    assert yard.committed()[-2:] == names[-2:]
    later = yard.backup()
    assert [b.name for b in ship(ctx, destination).committed] == [later], "the next stream has its base"


def test_without_rules_nothing_goes(yard: Yard) -> None:
    names = shipped(yard, 2)
    ctx = yard.context()
    assert prune_at(ctx, ctx.destinations[0]).destroyed == ()
    assert yard.committed() == names


def test_what_a_restore_holds_there_is_skipped_and_keeps_nobody_else(yard: Yard) -> None:
    names = shipped(yard, 4)
    ctx = yard.context(retention=SHORT)
    destination = ctx.destinations[0]
    with destination.adapter.connect() as session:
        there = session.copies()
        with (
            working_on(ctx, "look", "zbackup restore"),
            remote_holds(ctx, destination, session, "look", there, there.backups[:1]),
        ):
            assert [b.name for b in prune_at(ctx, destination).destroyed] == [names[1]]
    assert yard.committed() == [names[0], *names[2:]]
    assert [b.name for b in prune_at(ctx, destination).destroyed] == [names[0]]


def test_what_killed_restores_held_there_is_let_go(yard: Yard) -> None:
    """Of those that will not go on, and of this host's only: nobody else knows that they are dead."""
    names = shipped(yard, 4)
    ctx = yard.context(retention=SHORT)
    destination = ctx.destinations[0]
    own = int(run("zfs", "get", "-Hpo", "value", "guid", yard.pool.name))

    def tag(name: str) -> str:
        return restore_tag(destination.tag, own, name)

    before, others = "zbackup-restore:this.host:shop:vault:dead", "zbackup-restore:that.host:shop:vault:dead"
    for held, backup in ((tag("dead"), 0), (before, 0), (others, 1), (tag("../../dead"), 1)):
        for member in yard.members:
            run("zfs", "hold", held, f"{yard.home}/{member.name}@{names[backup]}")
    with working_on(ctx, "dead", "zbackup restore"):
        assert prune_at(ctx, destination).destroyed == (), "it is alive"
    report = prune_at(ctx, destination)
    assert [b.name for b in report.destroyed] == [names[0]]
    (kept,) = (k for k in report.plan.retention.keep if k.backup.name == names[1])
    assert tuple(map(str, kept.reasons)) == (f"held there by {others}, {tag('../../dead')}",)
    assert yard.committed() == names[1:]


def test_a_host_of_the_same_name_lets_go_of_nothing_of_anothers(yard: Yard) -> None:
    """It restores on another pool. Neither its prune nor its restore of one name ends the other's hold."""
    names = shipped(yard, 4)
    ctx = yard.context(retention=SHORT)
    other = replace(ctx, clones=f"{yard.vault.name}/clones", run_dir=yard.vault.home)
    destination = ctx.destinations[0]
    with destination.adapter.connect() as session:
        there = session.copies()
        with remote_holds(other, destination, session, "look", there, there.backups[:1]):
            assert [b.name for b in prune_at(ctx, destination).destroyed] == [names[1]]
            with remote_holds(ctx, destination, session, "look", session.copies(), there.backups[:1]):
                pass
            report = prune_at(ctx, destination)
            assert report.destroyed == () and yard.committed() == [names[0], *names[2:]]
            (kept,) = (k for k in report.plan.retention.keep if k.backup.name == names[0])
            assert [str(reason).count(":look") for reason in kept.reasons] == [1]
    assert [b.name for b in prune_at(ctx, destination).destroyed] == [names[0]]


def test_what_a_killed_prune_left_goes_with_the_next(yard: Yard, tmp_path: Path) -> None:
    """Killed at each change: the mark, one part, the other. tests/slow breaks it in all ways."""
    names = shipped(yard, 2)
    healthy = yard.context(retention=SHORT)
    for nth in (1, 2, 3):
        names += shipped(yard, 1)
        fault = Fault(nth, "killed after")
        broken = yard.context(fault, retention=SHORT)
        assert fired(fault, lambda ctx=broken: prune_at(ctx, ctx.destinations[0]), tmp_path / "child")  # type: ignore[misc]
        assert yard.committed()[-2:] == names[-2:]
        prune_at(healthy, healthy.destinations[0])
        assert {c.partition("@")[2] for c in yard.copies()} == set(names[-2:])


def test_what_is_the_same_on_both_sides_verifies(yard: Yard) -> None:
    names = shipped(yard, 3)
    ctx = yard.context()
    first = ctx.catalog().backups[0]
    for snapshot in first.snapshots:
        ctx.zfs.destroy_snapshot(snapshot)
    report = verify_at(ctx, ctx.destinations[0], most=0)
    assert report.problems == ()
    assert [b.name for b in report.compared] == names[1:] and [b.name for b in report.alone] == names[:1]
    assert [(r.snapshot.name, r.whole, r.same) for r in report.read] == [(names[2], True, True)] * 2
    assert all(r.size > 600_000 for r in report.read)
    begun = verify_at(ctx, ctx.destinations[0], most=200_000)
    assert [(r.whole, r.same) for r in begun.read] == [(False, True)] * 2
    assert verify_at(ctx, ctx.destinations[0], most=-1).read == ()


def test_an_encrypted_copy_is_verified_without_its_key(pool: Pool, vault: Pool, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("not a secret")
    encrypted = {"encryption": "on", "keyformat": "passphrase", "keylocation": f"file://{key}"}
    yard = Yard(pool, vault, properties=encrypted)
    shipped(yard, 2)
    ctx = yard.context()
    report = verify_at(ctx, ctx.destinations[0], most=0)
    assert report.problems == () and [(r.whole, r.same) for r in report.read] == [(True, True)] * 2


def test_what_is_different_there_is_said(yard: Yard) -> None:
    names = shipped(yard, 2)
    ctx = yard.context()
    run("zfs", "set", f"{PREFIX}gtid=forged", f"{yard.home}/{yard.outer.name}@{names[0]}")
    assert verify_at(ctx, ctx.destinations[0], most=0).problems == (
        f"{names[0]} says something else of itself there",
    )


def test_other_data_under_the_same_guid_is_found(yard: Yard) -> None:
    """As a host makes it up that wants its backups to look well: a stream with one byte changed, sent on."""
    (name,) = shipped(yard, 1)
    ctx = yard.context()
    source, copy = f"{yard.inner.name}@{name}", f"{yard.home}/{yard.inner.name}"
    stream = bytearray(subprocess.run(["zfs", "send", source], capture_output=True, check=True).stdout)
    stream[stream.index((yard.inner.mountpoint / "table1").read_bytes()[:4096])] ^= 1
    marks = ctx.catalog().backups[0].snapshots[1].properties
    marks += Zfs().snapshots(copy)[0].properties
    run("zfs", "rename", copy, f"{yard.root}/aside")
    receive = ["zfs", "receive", "-u", "-o", "readonly=on", copy]
    subprocess.run(receive, input=summed_up(stream), check=True)
    run("zfs", "set", *(f"{key}={value}" for key, value in dict(marks).items()), f"{copy}@{name}")
    report = verify_at(ctx, ctx.destinations[0], most=-1)
    assert report.problems == () and yard.committed() == [name], "it claims to be the same"
    report = verify_at(ctx, ctx.destinations[0], most=0)
    assert report.problems == (f"{source} holds other data at zfs:{yard.root}",)


def summed_up(stream: bytearray) -> bytes:
    """The stream with checksums that fit: none on its records, and one of the whole in the last."""
    place = 0
    while True:
        record = read_record("<", bytes(stream[place : place + RECORD]))
        if record.kind != BEGIN:
            stream[place + RECORD - 32 : place + RECORD] = bytes(32)
        if record.kind == END:
            break
        place += RECORD + record.payload
    sums = [0, 0, 0, 0]
    for (word,) in struct.iter_unpack("<I", stream[:place]):
        sums[0] += word
        for n in (1, 2, 3):
            sums[n] += sums[n - 1]
    stream[place + 8 : place + 40] = struct.pack("<4Q", *(n % 2**64 for n in sums))
    return bytes(stream)


def test_pins_of_a_destination_that_is_gone_are_found_and_let_go(yard: Yard) -> None:
    (name,) = shipped(yard, 1)
    ctx = yard.context()
    snapshot = ctx.catalog().backups[0].snapshots[0]
    ctx.zfs.hold(ctx.destinations[0].tag, snapshot)
    run("zfs", "hold", "somebody", str(snapshot))
    assert find_stale(ctx) == [], "it is configured"
    without = replace(ctx, destinations=())
    found = release_stale(without)
    assert sorted((s.kind, s.name.partition("#")[0].partition("@")[0]) for s in found) == [
        ("bookmark", yard.outer.name),
        ("bookmark", yard.inner.name),
        ("hold", yard.outer.name),
    ]
    assert find_stale(without) == []
    assert run("zfs", "holds", "-H", str(snapshot)).split("\t")[1] == "somebody"
    run("zfs", "release", "somebody", str(snapshot))
    assert name in {s.name for s in ctx.zfs.snapshots(yard.outer.name)}
