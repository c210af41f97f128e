"""A clone's datasets are made and destroyed exactly, whatever of somebody else's lies beside or inside."""

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.pool import Pool, run
from tests.lab.private_mounts import private_mounts
from tests.platform.cloned import BrokenMounts, FailAt, backup, clone, ctx, destroy, whole_pool
from zbackup.catalog.local import clones
from zbackup.jobs.clones import clone_datasets
from zbackup.jobs.clones.claim import ROOT, announce, names_taken
from zbackup.jobs.clones.lifecycle import destroy as lifecycle_destroy
from zbackup.jobs.clones.lifecycle import list_clones, show
from zbackup.jobs.context import Context
from zbackup.jobs.restore.local_source import LOCAL
from zbackup.model.backup import Backup
from zbackup.model.clone import INTENT, PROPERTY
from zbackup.model.errors import CommandFailed, DatasetBusy, NotFound, Refused
from zbackup.proc.detached import Process
from zbackup.proc.run import run as really_run
from zbackup.zfs.datasets import Zfs

__all__ = ["backup", "ctx", "whole_pool"]


def test_it_holds_the_backups_files_and_can_be_written(
    ctx: Context, backup: Backup, pool: Pool, whole_pool: Callable[[], list[str]]
) -> None:
    files = clone_datasets.build(ctx, clone("r1"), backup)
    data, log = files.where.path(str(pool.data.mountpoint)), files.where.path(str(pool.log.mountpoint))
    assert (data, log) == (ctx.mountpoint / "r1/0", ctx.mountpoint / "r1/1")
    assert (data / "ibdata1").read_text() == "data as it was"
    assert (log / "binlog.000001").read_text() == "log as it was"
    (data / "ibdata1").write_text("changed by the clone")
    assert (pool.data.mountpoint / "ibdata1").read_text() == "data as it is"
    assert (files.home, files.run, files.record) == (
        ctx.mountpoint / "r1",
        ctx.run_dir / "r1",
        backup.record,
    )
    assert [d.name for d in ctx.zfs.filesystems(ctx.clones)] == [
        ctx.clones,
        f"{ctx.clones}/r1",
        f"{ctx.clones}/r1/0",
        f"{ctx.clones}/r1/1",
    ]


def test_built_and_destroyed_leaves_everything_as_it_was(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    clone_datasets.build(ctx, clone("first"), backup)
    before = whole_pool()
    clone_datasets.build(ctx, clone("second"), backup)
    (ctx.run_dir / "second").mkdir(parents=True)
    (ctx.run_dir / "second" / "mysqld.sock").touch()
    destroy(ctx, "second")
    assert whole_pool() == before
    assert not (ctx.mountpoint / "second").exists()
    assert not (ctx.run_dir / "second").exists()


def test_the_property_is_the_registry(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    assert clones(ctx.zfs, ctx.clones) == []
    one = clone("r1")
    clone_datasets.build(ctx, one, backup)
    assert [c for c, _ in clones(ctx.zfs, ctx.clones)] == [one]
    ready = replace(one, state="ready", reached="0-1-7")
    clone_datasets.describe(ctx, ready)
    found = clone_datasets.find_clone(ctx, "r1")
    assert found is not None
    assert (found[0], found[1].name) == (ready, f"{ctx.clones}/r1")
    assert clone_datasets.find_clone(ctx, "r") is None


def test_one_that_is_destroyed_while_they_are_listed_is_not_listed(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    for name in ("r1", "r2"):
        clone_datasets.build(ctx, clone(name), backup)

    def somebody_is_faster(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        if "used" in argv and argv[-1].endswith("/r1"):
            destroy(ctx, "r1")
        return really_run(argv, mutates=mutates, timeout=timeout)

    listed = list_clones([replace(ctx, zfs=Zfs(somebody_is_faster))])
    assert [status.clone.name for status in listed.clones] == ["r2"]


def test_one_that_cannot_be_read_keeps_no_other_from_anything(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    """As whoever may `zfs set` can damage it. It is named, left alone, and keeps what it is made of."""
    for name in ("r1", "r2"):
        clone_datasets.build(ctx, replace(clone(name), state="ready"), backup)
    damaged = f"{ctx.clones}/r1"
    sound = ctx.zfs.user_properties(damaged)[damaged][PROPERTY]
    for text in ("{}", "[" * 5000, sound.replace('"r1"', '"../r1"'), sound.replace('"r1"', '"r2"')):
        ctx.zfs.set_properties(damaged, {PROPERTY: text})
        listed = list_clones([ctx])
        assert [status.clone.name for status in listed.clones] == ["r2"]
        assert [dataset for dataset, _ in listed.unreadable] == [damaged]
        with pytest.raises(
            Refused, match=f"^{damaged} cannot be read: .* set it right, or destroy the dataset yourself"
        ):
            show([ctx], "r1")
        with pytest.raises(Refused, match=f"^{damaged} cannot be read: "):
            destroy(ctx, "r1")
        with pytest.raises(Refused, match=f"^{damaged} cannot be read: "):
            announce(ctx, replace(clone("r1"), kind="dev"))
        assert clone_datasets.may_be_there(ctx, "r1") and not clone_datasets.may_be_there(ctx, "r3")
        assert "r1" in names_taken(ctx)
    announce(ctx, replace(clone("r3"), kind="dev"), any_port=True)
    for name in ("r3", "r2"):
        destroy(ctx, name)
    for part in backup.snapshots:
        with pytest.raises(DatasetBusy, match="dependent clones"):
            ctx.zfs.destroy_snapshot(part)
    ctx.zfs.set_properties(damaged, {PROPERTY: sound})
    destroy(ctx, "r1")


def test_after_a_reboot_it_is_found_and_mounted_again(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    one = clone("r1")
    files = clone_datasets.build(ctx, one, backup)
    for name in ("r1/1", "r1/0", "r1"):
        run("zfs", "unmount", f"{ctx.clones}/{name}")
    assert not any(d.mountpoint for d in ctx.zfs.filesystems(ctx.clones))
    assert clone_datasets.open_again(ctx, one) == files
    assert (files.where.moves[0][1], (ctx.mountpoint / "r1/0/ibdata1").read_text()) == (
        str(ctx.mountpoint / "r1/0"),
        "data as it was",
    )
    assert clone_datasets.open_again(ctx, one) == files


def test_without_its_record_it_cannot_be_opened(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    one = clone("r1")
    clone_datasets.build(ctx, one, backup)
    (ctx.mountpoint / "r1/record.json").write_text("{}")
    with pytest.raises(NotFound, match="lost the record"):
        clone_datasets.open_again(ctx, one)


def test_neighbours_whose_names_begin_alike_are_left_alone(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    neighbours = ("r", "r10", "r1.log", "r1-2")
    for name in neighbours:
        clone_datasets.build(ctx, clone(name), backup)
    run("zfs", "create", f"{ctx.clones}/r1 x")
    before = whole_pool()
    clone_datasets.build(ctx, clone("r1"), backup)
    destroy(ctx, "r1")
    assert whole_pool() == before
    for name in neighbours:
        assert (ctx.mountpoint / name / "0" / "ibdata1").read_text() == "data as it was"


def test_a_power_cut_may_take_the_marks_of_what_was_just_made(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    """ZFS makes a file system first and sets its properties a moment later."""
    clone_datasets.build(ctx, clone("r1"), backup)
    run("zfs", "inherit", clone_datasets.PART, f"{ctx.clones}/r1/1")
    destroy(ctx, "r1")
    described = clone("r2")
    run("zfs", "set", f"{INTENT}r2={described.to_property()}", ctx.clones)
    run("zfs", "create", "-u", f"{ctx.clones}/r2")
    assert clone_datasets.find_clone(ctx, "r2") is not None
    destroy(ctx, "r2")
    assert [d.name for d in ctx.zfs.filesystems(ctx.clones)] == [ctx.clones]
    assert ctx.zfs.user_properties(ctx.clones)[ctx.clones].keys() == {ROOT}


def test_an_unmarked_dataset_is_ours_only_as_what_was_being_made(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    made = clone("r1")
    clone_datasets.build(ctx, made, backup)
    part = f"{ctx.clones}/r1/1"
    run("zfs", "inherit", clone_datasets.PART, part)
    for other in (replace(made, backup="zbackup-2"), replace(made, state="ready")):
        clone_datasets.describe(ctx, other)
        with pytest.raises(Refused, match=part):
            destroy(ctx, "r1")
    clone_datasets.describe(ctx, made)
    run("zfs", "rename", part, f"{ctx.clones}/r1/mine")
    with pytest.raises(Refused, match="r1/mine"):
        destroy(ctx, "r1")
    # Nor is what somebody made and uses under a name that was to be ours.
    run("zfs", "set", f"{INTENT}r2={clone('r2').to_property()}", ctx.clones)
    run("zfs", "create", "-o", f"mountpoint={ctx.mountpoint}/r2", f"{ctx.clones}/r2")
    assert clone_datasets.find_clone(ctx, "r2") is None


FOREIGN = {
    "a dataset beside the parts": ("zfs create {r1}/mine", "zfs destroy {r1}/mine"),
    "a dataset in a part": ("zfs create {r1}/0/mine", "zfs destroy {r1}/0/mine"),
    "a dataset of another clone's": (
        "zfs create -o zbackup:clone_part=somebody {r1}/2",
        "zfs destroy {r1}/2",
    ),
    "a volume": ("zfs create -sV 1M {r1}/volume", "zfs destroy {r1}/volume"),
    "a snapshot of the clone": ("zfs snapshot {r1}@mine", "zfs destroy {r1}@mine"),
    "a snapshot of a part": ("zfs snapshot {r1}/1@mine", "zfs destroy {r1}/1@mine"),
    "a snapshot and a clone of it": ("zfs snapshot {r1}/1@mine && zfs clone {r1}/1@mine {r1}-copy", "true"),
}


def test_with_anything_foreign_inside_nothing_is_destroyed(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    clone_datasets.build(ctx, clone("r1"), backup)
    server = subprocess.Popen(["sleep", "60"])
    process = Process.of(server.pid)
    (ctx.run_dir / "r1").mkdir(parents=True, exist_ok=True)
    (ctx.run_dir / "r1.process").write_text(str(process))
    try:
        for what, (make, remove) in FOREIGN.items():
            subprocess.run(["sh", "-ec", make.format(r1=f"{ctx.clones}/r1")], check=True)
            before = whole_pool()
            with pytest.raises(Refused, match=rf"r1 holds what zbackup did not make: {ctx.clones}/r1"):
                destroy(ctx, "r1")
            assert whole_pool() == before, what
            assert server.poll() is None, f"{what}: its server goes on"
            assert clone_datasets.server_process(ctx, "r1") == process, what
            subprocess.run(["sh", "-ec", remove.format(r1=f"{ctx.clones}/r1")], check=True)
    finally:
        server.kill()
        server.wait()
        (ctx.run_dir / "r1.process").unlink()


def test_a_reused_process_number_is_not_the_server(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    clone_datasets.build(ctx, clone("r1"), backup)
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        found = Process.of(stranger.pid)
        assert found is not None
        note = ctx.run_dir / "r1.process"
        note.parent.mkdir(parents=True, exist_ok=True)
        for text in (f"{found.pid} {found.started - 1}", "", "garbage", "1 2 3"):
            note.write_text(text)
            assert clone_datasets.server_process(ctx, "r1") is None
            clone_datasets.stop_server(ctx, "r1")
            assert stranger.poll() is None
        note.write_text(f"{found.pid} {found.started - 1}")
        destroy(ctx, "r1")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_sees_neither_production_nor_other_clones(
    ctx: Context, backup: Backup, pool: Pool, whole_pool: Callable[[], list[str]]
) -> None:
    mine, source = clone("r1"), clone("r1.log")
    files = clone_datasets.build(ctx, mine, backup)
    for one in (source, clone("r10"), clone("other")):
        clone_datasets.build(ctx, one, backup)
    hidden = clone_datasets.in_sight_of(ctx, files, ctx.catalog().datasets, [mine, source]).hide
    others = [ctx.mountpoint / name / part for name in ("r10", "other") for part in ("", "0", "1")]
    assert sorted(hidden) == sorted(map(str, [pool.data.mountpoint, pool.log.mountpoint, *others]))


def test_half_built_and_half_destroyed_ones_can_be_destroyed(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    clone_datasets.build(ctx, clone("neighbour"), backup)
    before = whole_pool()
    for what, changes in (("build", 8), ("destroy", 3)):
        nth, fault = 0, FailAt(1)
        while fault.left <= 0 or nth == 0:
            nth += 1
            fault = FailAt(nth)
            broken = replace(ctx, zfs=Zfs(fault, mounts=BrokenMounts(fault)))
            try:
                if what == "destroy":
                    clone_datasets.build(ctx, clone("r1"), backup)
                    destroy(broken, "r1")
                else:
                    clone_datasets.build(broken, clone("r1"), backup)
            except CommandFailed as failure:
                assert "injected" in str(failure)
            if clone_datasets.find_clone(ctx, "r1"):
                destroy(ctx, "r1")
            assert whole_pool() == before, f"{what} broken at command {nth}"
            # Cut off behind the very last command, an empty directory is all that may stay.
            left = list(ctx.mountpoint.glob("r1/*"))
            assert left == [], f"{what} broken at command {nth}"
        assert nth == changes + 1, "every change was broken once"


def test_while_others_have_it_mounted_nothing_of_it_is_destroyed(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    """moby#24403: a container that shows all of / keeps what was mounted when it started."""
    before = whole_pool()
    clone_datasets.build(ctx, replace(clone("leaked"), state="ready"), backup)
    there = whole_pool(), ctx.zfs.mounted_below(ctx.clones)
    with private_mounts() as pid:
        with pytest.raises(DatasetBusy) as refused:
            lifecycle_destroy((ctx,), "leaked")
        said = str(refused.value)
        assert f"{ctx.clones}/leaked/1 is mounted at {ctx.mountpoint}/leaked/1" in said
        assert f"in the mount namespace of sleep (pid {pid})" in said and "Nothing was changed" in said
        assert (whole_pool(), ctx.zfs.mounted_below(ctx.clones)) == there
        # What does not know beforehand says it afterwards.
        (part,) = ctx.zfs.filesystems(f"{ctx.clones}/leaked/0")
        with pytest.raises(DatasetBusy, match=rf"busy; .*/leaked/0 is mounted at .* of sleep \(pid {pid}\)"):
            ctx.zfs.destroy_filesystem(part)
        ctx.zfs.mount(part.name)
    lifecycle_destroy((ctx,), "leaked")
    assert [line for line in whole_pool() if not line.startswith(f"{ctx.clones}\t")] == before


def test_what_brings_back_the_backups_of_a_clone_that_was_promoted_by_hand_is_said_and_does(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    """The one command, as a shell takes it: the datasets' names have blanks."""
    before = whole_pool()
    clone_datasets.build(ctx, replace(clone("promoted"), state="ready"), backup)
    for number in (0, 1):
        run("zfs", "promote", f"{ctx.clones}/promoted/{number}")
    assert ctx.catalog().backups == () and len(ctx.catalog().promoted) == 2
    there = whole_pool()
    with pytest.raises(Refused, match="which was promoted by hand") as refused:
        lifecycle_destroy((ctx,), "promoted")
    assert whole_pool() == there and "destroy" not in str(refused.value)
    with pytest.raises(NotFound) as missing:
        LOCAL.backup(ctx, backup.name)
    heal = str(refused.value).partition("Move them back first: ")[2]
    assert heal and str(missing.value).endswith(heal)
    subprocess.run(["sh", "-ec", heal], check=True)
    assert [b.name for b in ctx.catalog().backups] == [backup.name] and not ctx.catalog().promoted
    lifecycle_destroy((ctx,), "promoted")
    assert [line for line in whole_pool() if not line.startswith(f"{ctx.clones}\t")] == before


def test_a_mount_that_goes_with_the_hosts_is_in_nobodys_way(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    """Services of systemd have mounts of their own, from which goes what the host unmounts."""
    clone_datasets.build(ctx, replace(clone("shown"), state="ready"), backup)
    words = ("unshare", "--mount", "--propagation", "slave", "sleep", "600")
    with subprocess.Popen(words) as service, private_mounts():
        try:
            names = [d.name for d in ctx.zfs.filesystems(f"{ctx.clones}/shown")]
            assert "sleep" in str(ctx.zfs.in_use(names)) and str(service.pid) not in str(
                ctx.zfs.in_use(names)
            )
        finally:
            service.kill()
    with subprocess.Popen(words) as service:
        try:
            destroy(ctx, "shown")
        finally:
            service.kill()


def test_only_an_empty_directory_is_removed_behind_it(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    """Somebody's file in the mountpoint, put there while the clone was not mounted, stays."""
    clone_datasets.build(ctx, clone("r1"), backup)
    for name in ("r1/1", "r1/0", "r1"):
        run("zfs", "unmount", f"{ctx.clones}/{name}")
    below = ctx.mountpoint / "r1"
    below.mkdir(exist_ok=True)
    (below / "note").write_text("mine")
    destroy(ctx, "r1")
    assert (below / "note").read_text() == "mine"
    (below / "note").unlink()
    below.rmdir()


def test_the_clones_dataset_itself_is_never_mounted(
    ctx: Context, backup: Backup, whole_pool: Callable[[], list[str]]
) -> None:
    clone_datasets.build(ctx, clone("r1"), backup)
    assert ctx.zfs.filesystems(ctx.clones)[0].mountpoint is None
    assert not os.path.ismount(ctx.mountpoint)
    assert Path(ctx.mountpoint / "r1").is_mount()
