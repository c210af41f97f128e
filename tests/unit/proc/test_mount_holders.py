"""Who keeps a dataset in use, from the files of other processes, which may say anything and vanish."""

from pathlib import Path
from time import process_time

import pytest

from zbackup.proc import mount_holders, open_files
from zbackup.proc.mount_holders import in_use

ROOT = "20 1 0:20 / / rw {} - ext4 /dev/sda rw"
DATA = "{} 20 0:50 / /zb/shop/0 rw {} - zfs tank/zb/shop/0 rw"
SHOP = {"tank/zb/shop/0": "/zb/shop/0"}


class Proc:
    """A directory as /proc is, with what each process says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.process("self", "1", [ROOT.format("shared:1"), DATA.format(30, "shared:5")])

    def process(self, pid: str, space: str, lines: list[str], name: str = "sleep") -> Path:
        of = self.home / pid
        (of / "ns").mkdir(parents=True)
        (of / "ns/mnt").symlink_to(f"mnt:[{space}]")
        (of / "mountinfo").write_text("".join(f"{line}\n" for line in lines))
        (of / "comm").write_text(f"{name}\n")
        return of


@pytest.fixture
def proc(tmp_path: Path) -> Proc:
    return Proc(tmp_path)


def other(*tags: str) -> list[str]:
    """The mounts of another namespace; the tags are of its root, and of the dataset's mount there."""
    root, data = tags
    return [ROOT.replace("20 1", "120 1").format(root), DATA.replace(" 20 ", " 120 ").format(130, data)]


def test_nobody(proc: Proc) -> None:
    proc.process("7", "1", [ROOT.format("shared:1"), DATA.format(30, "shared:5")])
    assert in_use(SHOP, proc.home) == {}


def test_a_mount_that_stays_is_told_with_all_processes_that_see_it(proc: Proc) -> None:
    proc.process("12", "2", other("", ""), "old server")
    proc.process("9", "2", other("", ""))
    (said,) = in_use(SHOP, proc.home)["tank/zb/shop/0"]
    assert said == (
        "tank/zb/shop/0 is mounted at /zb/shop/0 in the mount namespace of sleep (pid 9), old server (pid 12)"
    )
    assert in_use({"tank/other": ""}, proc.home) == {}


@pytest.mark.parametrize(("root", "stays"), [("shared:1", 0), ("master:1", 0), ("master:8", 1), ("", 1)])
def test_what_goes_with_ours_is_not_told(proc: Proc, root: str, stays: int) -> None:
    """A service of systemd's receives what the host unmounts; a container most often does not."""
    proc.process("9", "2", other(root, "master:5"))
    assert len(in_use(SHOP, proc.home)) == stays


def test_what_is_received_from_one_that_receives_goes_too(proc: Proc) -> None:
    proc.process("8", "3", [ROOT.replace("20 1", "220 1").format("shared:8 master:1")])
    proc.process("9", "2", other("master:8", "master:5"))
    assert in_use(SHOP, proc.home) == {}


def test_a_long_chain_of_groups_keeps_nobody(proc: Proc) -> None:
    """Every user can make one, and mount the dataset there a thousand times."""
    chain = [
        f"{1000 + n} 120 0:9 / /m{n} rw shared:{10 + n} master:{9 + n} - tmpfs x rw" for n in range(8000)
    ]
    start = "900 120 0:9 / /m rw shared:9 master:1 - tmpfs x rw"
    root, data = other("master:99999", "master:5")
    proc.process("9", "2", [root, start, *reversed(chain), *([data] * 1000)])
    begun = process_time()
    assert len(in_use(SHOP, proc.home)["tank/zb/shop/0"]) == 1000
    assert process_time() - begun < 5


def test_a_second_mount_of_our_own_is_told_without_a_process(proc: Proc) -> None:
    with (proc.home / "self/mountinfo").open("a") as mountinfo:
        mountinfo.write("41 20 0:50 /sub /mnt/by\\040hand rw - zfs tank/zb/shop/0 rw\n")
    assert in_use(SHOP, proc.home) == {"tank/zb/shop/0": ["tank/zb/shop/0 is also mounted at /mnt/by hand"]}


def test_a_snapshot_that_zfs_mounted_itself_goes_and_one_that_somebody_did_stays(proc: Proc) -> None:
    usual = "41 30 0:51 / /zb/shop/0/.zfs/snapshot/a rw - zfs tank/zb/shop/0@a rw"
    by_hand = "42 20 0:52 / /mnt/b rw - zfs tank/zb/shop/0@b rw"
    with (proc.home / "self/mountinfo").open("a") as mountinfo:
        mountinfo.write(f"{usual}\n{by_hand}\n")
    found = in_use({"tank/zb/shop/0@a": "", "tank/zb/shop/0@b": "/mnt/b"}, proc.home)
    assert found == {"tank/zb/shop/0@b": ["tank/zb/shop/0@b is also mounted at /mnt/b"]}


def test_another_kind_of_file_system_may_call_itself_what_it_likes(proc: Proc) -> None:
    """Any user can mount a tmpfs in a namespace of his own, under any name."""
    proc.process("9", "2", [other("", "")[0], "130 120 0:9 / /zb/shop/0 rw - tmpfs tank/zb/shop/0 rw"])
    assert in_use(SHOP, proc.home) == {}


def test_the_server_that_is_to_be_ended_does_not_count(proc: Proc) -> None:
    server = proc.process("9", "2", other("", ""))
    helper = proc.process("10", "2", other("", ""))
    for process in (server, helper):
        (process / "cwd").symlink_to("/zb/shop/0/data")
    assert set(in_use(SHOP, proc.home)) == set(SHOP)
    assert in_use(SHOP, proc.home, apart_from=9) == {}


def test_who_stands_in_it_here_is_told(proc: Proc) -> None:
    (proc.process("7", "1", [], "bash") / "cwd").symlink_to("/zb/shop/0/data")
    names = {"tank/zb/shop": "/zb/shop", **SHOP}
    assert in_use(names, proc.home) == {"tank/zb/shop": ["/zb/shop is in use by bash (pid 7)"]}


def test_all_processes_are_looked_at_once(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who lists .zfs/snapshot/*/ has ZFS mount all of them."""
    stands = proc.process("9", "1", [])
    (stands / "cwd").symlink_to("/zb/7/deep/er")
    asked: list[Path] = []
    paths = open_files._paths
    monkeypatch.setattr(open_files, "_paths", lambda of: (asked.append(of), paths(of))[1])
    found = in_use({f"tank/zb@{n}": f"/zb/{n}" for n in range(50)}, proc.home)
    assert found == {"tank/zb@7": ["/zb/7 is in use by sleep (pid 9)"]}
    assert len(asked) == 1


def test_what_vanishes_or_cannot_be_read_is_left_out(proc: Proc) -> None:
    (proc.home / "6").mkdir()
    (proc.process("7", "2", []) / "mountinfo").unlink()
    gone = proc.process("8", "2", other("", ""))
    (gone / "comm").unlink()
    (said,) = in_use(SHOP, proc.home)["tank/zb/shop/0"]
    assert "a process that ends (pid 8)" in said


def test_huge_lists_are_read_up_to_a_limit(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_holders, "MOST_READ", 4096)
    monkeypatch.setattr(mount_holders, "MOST_IN_ALL", 6000)
    root, data = other("", "")
    filler = [root] + ["5 1 0:9 / /x rw - zfs tank/filler rw"] * 200
    proc.process("9", "2", [root, data, *filler])
    assert in_use(SHOP, proc.home)  # it comes first
    proc.process("8", "3", [*filler, data])
    assert "pid 8" not in str(in_use(SHOP, proc.home))
    for pid in range(100, 110):
        proc.process(str(pid), str(pid), filler)
    assert in_use(SHOP, proc.home)


def test_names_and_paths_of_any_bytes(proc: Proc) -> None:
    lines = "\n".join(other("", "")).replace(" /zb/shop/0 rw", " /zb/\\012\udcff\x1b rw")
    of = proc.process("9", "2", [])
    (of / "mountinfo").write_bytes(f"{lines}\n".encode(errors="surrogateescape"))
    (said,) = in_use(SHOP, proc.home)["tank/zb/shop/0"]
    assert "/zb/\n\udcff\x1b in the" in said
