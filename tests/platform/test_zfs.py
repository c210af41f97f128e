"""The Zfs class against a real pool, method by method."""

import os
import subprocess
import threading
from pathlib import Path

import pytest

from tests.lab.pool import Dataset as Place
from tests.lab.pool import Pool
from tests.lab.pool import run as tool
from tests.platform.zfs_places import ZFS, created, names, place, snapshot
from zbackup.model.errors import (
    CommandFailed,
    DatasetBusy,
    DatasetExists,
    DatasetNotFound,
    NotFound,
    Refused,
)
from zbackup.model.long_value import CHUNK
from zbackup.proc.kept_mounted import kept_mounted
from zbackup.proc.open_files import processes_in

__all__ = ["place"]


# looking


def test_filesystems_are_listed_with_where_they_are_mounted(pool: Pool, place: Place) -> None:
    tool("zfs", "create", f"{place.name}/bin log")
    tool("zfs", "create", "-u", "-o", "canmount=noauto", f"{place.name}/off")
    tool("zfs", "create", "-sV", "1M", f"{place.name}/volume")
    found = {d.name: d for d in ZFS.filesystems(place.name)}
    assert list(found) == [place.name, f"{place.name}/bin log", f"{place.name}/off"]
    assert found[place.name].mountpoint == str(place.mountpoint)
    assert found[f"{place.name}/bin log"].mountpoint == str(place.mountpoint / "bin log")
    assert found[f"{place.name}/off"].mountpoint is None
    assert found[place.name].pool == pool.name
    assert found[place.name].guid == int(tool("zfs", "get", "-Hpo", "value", "guid", place.name))


def test_a_legacy_mountpoint_is_seen_where_it_is(place: Place, tmp_path: Path) -> None:
    where = tmp_path / "le gacy\u00a0ü"
    where.mkdir()
    tool("zfs", "create", "-o", "mountpoint=legacy", f"{place.name}/legacy")
    tool("mount", "-t", "zfs", f"{place.name}/legacy", str(where))
    try:
        assert ZFS.filesystems(f"{place.name}/legacy")[0].mountpoint == str(where)
    finally:
        tool("umount", str(where))
    assert ZFS.filesystems(f"{place.name}/legacy")[0].mountpoint is None


def test_a_snapshot_that_is_read_where_it_lies_cannot_be_destroyed(place: Place) -> None:
    """Not even where ZFS took the mount away that looking in had made, for as long as it is kept."""
    (place.mountpoint / "file").write_text("there")
    made = snapshot(place, "read")
    path = place.mountpoint / ".zfs" / "snapshot" / "read"
    with kept_mounted(path):
        with pytest.raises(DatasetBusy):
            ZFS.destroy_snapshot(made)
        # Nor can the dataset be unmounted, and who is in the way can be told before that is tried.
        assert [pid for pid, _ in processes_in(f"{place.mountpoint}/.zfs")] == [os.getpid()]
        with pytest.raises(DatasetBusy):
            ZFS.unmount(place.name)
        assert subprocess.run(("umount", str(path)), capture_output=True, check=False).returncode
        assert (path / "file").read_text() == "there"
    ZFS.destroy_snapshot(made)
    # Of one that is gone an empty directory may be seen for a while.
    for none in (path, path.with_name("none"), path.parent):
        with pytest.raises((FileNotFoundError, Refused)), kept_mounted(none):
            pass


def test_exists(place: Place) -> None:
    made = snapshot(place, "s")
    assert ZFS.exists(place.name) and ZFS.exists(str(made))
    assert not ZFS.exists(f"{place.name}x")
    assert not ZFS.exists(f"{place.name}@t")
    assert not ZFS.exists("no-such-pool/db")


def test_snapshots_are_the_datasets_own_in_order(place: Place) -> None:
    child = f"{place.name}/child"
    tool("zfs", "create", child)
    for name in ("z first", "a second"):
        (place.mountpoint / name).write_bytes(os.urandom(200_000))
        tool("zfs", "snapshot", "-r", f"{place.name}@{name}")
    first, second = ZFS.snapshots(place.name)
    assert [s.name for s in (first, second)] == ["z first", "a second"]
    assert first.createtxg < second.createtxg
    assert first.guid != second.guid
    assert second.written > 100_000
    assert abs(first.created.timestamp() - second.created.timestamp()) < 60
    assert ZFS.snapshots(child)[0].dataset == child


def test_named_snapshots_are_those_that_are_there(place: Place) -> None:
    child = f"{place.name}/child"
    tool("zfs", "create", child)
    tool("zfs", "snapshot", "-o", "zbackup:note=n", f"{place.name}@s", f"{child}@s")
    names = (f"{child}@s", f"{place.name}@s")
    found = ZFS.snapshots_named(names)
    assert {(str(s), s.properties) for s in found} == {(name, (("zbackup:note", "n"),)) for name in names}
    assert [str(s) for s in ZFS.snapshots_named((f"{place.name}@never", *names[:1]))] == [f"{child}@s"]
    assert ZFS.snapshots_named((f"{place.name}@never", f"{place.name}/nowhere@s")) == []


def test_holds_and_clones_are_seen(place: Place) -> None:
    made = snapshot(place, "s")
    assert (made.holds, made.clones) == (0, ())
    ZFS.hold("one", made)
    ZFS.clone(made, f"{place.name}/clone a", {})
    ZFS.clone(made, f"{place.name}/clone b", {})
    (now,) = ZFS.snapshots(place.name)
    assert now.holds == 1
    assert sorted(now.clones) == [f"{place.name}/clone a", f"{place.name}/clone b"]
    ZFS.release("one", made)


def test_used_counts_what_is_below(place: Place) -> None:
    tool("zfs", "create", f"{place.name}/below")
    before = ZFS.used(place.name)
    (place.mountpoint / "below" / "file").write_bytes(os.urandom(3 << 20))
    tool("sync", "-f", str(place.mountpoint / "below" / "file"))
    tool("zpool", "sync")
    assert ZFS.used(place.name) - before > 2 << 20


# properties


def test_a_snapshots_properties_are_its_own_and_written_with_it(place: Place) -> None:
    tool("zfs", "set", "zbackup:inherited=yes", "com.example:other=1", place.name)
    made = snapshot(place, "s", position="binlog.000001:4", note="a = b, c")
    assert dict(made.properties) == {"zbackup:position": "binlog.000001:4", "zbackup:note": "a = b, c"}


def test_received_properties_are_own_properties(pool: Pool, place: Place) -> None:
    made = snapshot(place, "s", position="p")
    with subprocess.Popen(["zfs", "send", "-p", str(made)], stdout=subprocess.PIPE) as sender:
        subprocess.run(["zfs", "receive", "-u", f"{pool.name}/received"], stdin=sender.stdout, check=True)
    (copy,) = ZFS.snapshots(f"{pool.name}/received")
    assert copy.guid == made.guid
    assert dict(copy.properties) == {"zbackup:position": "p"}


def test_a_clone_does_not_pass_its_description_on(place: Place) -> None:
    tool("zfs", "set", "zbackup:clone=mine", place.name)
    tool("zfs", "create", f"{place.name}/below")
    assert ZFS.user_properties(place.name) == {place.name: {"zbackup:clone": "mine"}}


@pytest.mark.parametrize(
    "value", ["x" * CHUNK, "ü" * (CHUNK // 2), "", " lead and trail ", "a\tb", "-", "'\"\\$(id)"]
)
def test_values_come_back_as_they_went(place: Place, value: str) -> None:
    made = snapshot(place, "s", value=value)
    assert dict(made.properties) == {"zbackup:value": value}
    ZFS.set_properties(place.name, {"zbackup:value": value})
    assert ZFS.user_properties(place.name) == {place.name: {"zbackup:value": value}}


def test_many_long_values_go_with_one_snapshot(place: Place) -> None:
    """A GTID set of 100 KB."""
    values = {f"gtid.{n}": f"{n}" * 7999 for n in range(10)} | {f"more.{n}": "y" * CHUNK for n in range(3)}
    made = snapshot(place, "s", **values)
    assert dict(made.properties) == {f"zbackup:{k}": v for k, v in values.items()}


@pytest.mark.parametrize("note", [b"caf\xe9", b"two\nlines", "u\u2028u".encode(), b"car\rriage"])
def test_other_peoples_values_do_no_harm(place: Place, note: bytes) -> None:
    made = snapshot(place, "s", mine="1")
    subprocess.run([b"zfs", b"set", b"com.example:note=" + note, str(made).encode()], check=True)
    assert dict(ZFS.snapshots(place.name)[0].properties)["zbackup:mine"] == "1"


def test_set_and_clear(place: Place) -> None:
    ZFS.set_properties(place.name, {"zbackup:a": "1", "zbackup:b": "2"})
    ZFS.clear_property(place.name, "zbackup:a")
    assert ZFS.user_properties(place.name) == {place.name: {"zbackup:b": "2"}}
    ZFS.clear_property(place.name, "zbackup:a")


# snapshots


def test_one_snapshot_of_several_datasets_is_one_moment(pool: Pool, place: Place) -> None:
    """A writer numbers two files in turn, in two datasets: never may the later one be ahead."""
    other = pool.dataset(f"{place.name.partition('/')[2]}/log")
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for file in files:
                os.pwrite(file, f"{number:12}".encode(), 0)

    # Each write is one, over what is there: to empty a file and fill it again would be two moments.
    files = [os.open(d / "n", os.O_WRONLY | os.O_CREAT) for d in (place.mountpoint, other.mountpoint)]
    for file in files:
        os.pwrite(file, f"{0:12}".encode(), 0)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for round_ in range(5):
            ZFS.snapshot(
                [f"{place.name}@r{round_}", f"{other.name}@r{round_}"], {"zbackup:k": "v"}, timeout=60
            )
    finally:
        stop.set()
        writer.join()
        for file in files:
            os.close(file)
    pairs = list(zip(ZFS.snapshots(place.name), ZFS.snapshots(other.name), strict=True))
    assert len(pairs) == 5
    for one, two in pairs:
        assert (one.createtxg, dict(one.properties)) == (two.createtxg, dict(two.properties))
        first = (place.mountpoint / ".zfs/snapshot" / one.name / "n").read_text()
        second = (other.mountpoint / ".zfs/snapshot" / two.name / "n").read_text()
        assert int(second) <= int(first) <= int(second) + 1


def test_it_is_all_or_nothing(place: Place) -> None:
    snapshot(place, "taken")
    tool("zfs", "create", f"{place.name}/below")
    before = names(place.name)
    with pytest.raises(DatasetExists):
        ZFS.snapshot([f"{place.name}/below@taken", f"{place.name}@taken"], {}, timeout=60)
    with pytest.raises(DatasetNotFound):
        ZFS.snapshot([f"{place.name}@new", f"{place.name}/nothing@new"], {}, timeout=60)
    assert names(place.name) == before


def test_hold_and_release_may_be_repeated(place: Place) -> None:
    made = snapshot(place, "s")
    ZFS.hold("zbackup", made)
    ZFS.hold("zbackup", made)
    ZFS.hold("somebody", made)
    ZFS.release("zbackup", made)
    ZFS.release("zbackup", made)
    with pytest.raises(DatasetBusy, match="held"):
        ZFS.destroy_snapshot(made)
    assert ZFS.snapshots(place.name)[0].holds == 1
    ZFS.release("somebody", made)
    ZFS.destroy_snapshot(made)
    ZFS.release("somebody", made)
    with pytest.raises(CommandFailed):
        ZFS.hold("zbackup", made)


# file systems


def test_create_clone_mount_destroy(place: Place, tmp_path: Path) -> None:
    (place.mountpoint / "file").write_text("as it was")
    made = snapshot(place, "s")
    (place.mountpoint / "file").write_text("changed")
    box = created(
        f"{place.name}/box", {"canmount": "noauto", "mountpoint": str(tmp_path / "b x"), "zbackup:k": "v"}
    )
    assert (box.name, box.mountpoint) == (f"{place.name}/box", None)
    ZFS.mount(box.name)
    ZFS.mount(box.name)
    ZFS.clone(made, f"{place.name}/box/0", {"canmount": "noauto"})
    ZFS.mount(f"{place.name}/box/0")
    again, part = ZFS.filesystems(box.name)
    assert (again.guid, again.mountpoint) == (box.guid, str(tmp_path / "b x"))
    assert part.mountpoint and (Path(part.mountpoint) / "file").read_text() == "as it was"
    with pytest.raises(CommandFailed, match="children"):
        ZFS.destroy_filesystem(box)
    ZFS.destroy_filesystem(part)
    ZFS.destroy_filesystem(box)
    assert names(place.name) == [place.name, str(made)]


def test_create_leaves_missing_parents_missing(place: Place) -> None:
    with pytest.raises(DatasetNotFound):
        ZFS.create(f"{place.name}/a/b", {})
    assert names(place.name) == [place.name]


def test_a_clone_is_made_of_exactly_this_snapshot(place: Place) -> None:
    old = snapshot(place, "s")
    tool("zfs", "destroy", str(old))
    snapshot(place, "s")
    new = snapshot(place, "t")
    with pytest.raises(NotFound):
        ZFS.clone_each({f"{place.name}/first": new, f"{place.name}/clone": old}, {})
    assert not ZFS.exists(f"{place.name}/first") and not ZFS.exists(f"{place.name}/clone")


def test_several_are_cloned_in_whatever_order_they_are_named(place: Place) -> None:
    """`zfs get` answers in one of its own."""
    boxes = [created(f"{place.name}/{name}", {}) for name in ("b", "a")]
    wanted = [snapshot(box, name) for name in ("t", "s") for box in boxes]
    targets = {f"{place.name}/clone{number}": each for number, each in enumerate(wanted)}
    ZFS.clone_each(targets, {})
    origins = ZFS.origins(place.name)
    assert [origins[target] for target in targets] == [str(each) for each in wanted]


def test_quotas_of_the_snapshots_time_are_lifted_on_a_clone(place: Place) -> None:
    """Production's were raised since: what it wrote then has to fit."""
    mine = os.getuid()
    tight = [f"{kind}{of}quota@{mine}=1M" for kind in ("user", "group", "project") for of in ("", "obj")]
    tool("zfs", "set", *(each.replace("objquota", "objquota").replace("1M", "3") if "obj" in each else each
                         for each in tight), place.name)  # fmt: skip
    made = snapshot(place, "s")
    tool("zfs", "set", *(f"{each.partition('=')[0]}=none" for each in tight), place.name)
    ZFS.clone(made, f"{place.name}/c", {"canmount": "noauto"})
    ZFS.mount(f"{place.name}/c")
    where = Path(ZFS.filesystems(f"{place.name}/c")[0].mountpoint or "")
    for number in range(10):
        (where / f"f{number}").write_bytes(os.urandom(1 << 20))
        tool("zpool", "sync")
    values = tool(
        "zfs", "get", "-Hpo", "value", ",".join(e.partition("=")[0] for e in tight), f"{place.name}/c"
    )
    assert set(values.split()) == {"0"}


def test_quotas_of_what_was_received_raw_are_lifted_on_a_clone(place: Place, tmp_path: Path) -> None:
    """As a destination whose datasets are encrypted sends it back: of such a snapshot ZFS tells no quotas."""
    key, locked, raw = tmp_path / "key", f"{place.name}/locked", f"{place.name}/raw"
    key.write_text("a long passphrase\n")
    options = ("encryption=on", "keyformat=passphrase", f"keylocation=file://{key}")
    tool("zfs", "create", "-u", *(word for option in options for word in ("-o", option)), locked)
    tool("zfs", "set", f"userquota@{os.getuid()}=1M", place.name)
    snapshot(place, "tight")
    tool("zfs", "set", f"userquota@{os.getuid()}=none", place.name)
    sent = (
        'zfs send "$1@tight" | zfs receive -u "$2/copy" && zfs send -w "$2/copy@tight" | zfs receive -u "$3"'
    )
    subprocess.run(["sh", "-ec", sent, "sh", place.name, locked, raw], check=True)
    tool("zfs", "load-key", "-L", f"file://{key}", raw)
    (received,) = (s for s in ZFS.snapshots(raw) if s.name == "tight")
    ZFS.clone(received, f"{place.name}/c", {"canmount": "noauto"})
    quota = tool("zfs", "get", "-Hpo", "value", f"userquota@{os.getuid()}", f"{place.name}/c")
    assert quota.strip() == "0"


def test_it_is_unmounted_though_somebody_looked_into_its_snapshots(place: Place) -> None:
    """In a mount namespace of his own, as services have: what that mounts in ours does not go by itself."""
    snapshot(place, "s")
    looked = str(place.mountpoint / ".zfs" / "snapshot" / "s")
    subprocess.run(["unshare", "--mount", "--propagation", "slave", "ls", f"{looked}/"], check=True)
    assert looked.replace(" ", "\\040") in Path("/proc/self/mountinfo").read_text()
    ZFS.unmount(place.name)
    assert ZFS.filesystems(place.name)[0].mountpoint is None
    ZFS.unmount(place.name)
