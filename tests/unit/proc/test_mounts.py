"""Lines of mountinfo, and which paths a command line names."""

from zbackup.proc.mount_namespace import named_paths
from zbackup.proc.mounts import Mount, is_below, mountpoint_above, mounts

MOUNTINFO = """\
36 35 98:0 /mnt1 /mnt/my\\040data rw,noatime master:1 - ext3 /dev/root rw,errors=continue
37 36 0:45 / / ro,nosuid shared:1 master:2 propagate_from:3 - zfs tank/a\\040b rw
38 36 0:46 / /plain rw - tmpfs tmpfs rw
"""


def test_each_line_is_a_mount_with_and_without_optional_fields() -> None:
    assert mounts(MOUNTINFO) == [
        Mount("/mnt/my data", ("rw", "noatime"), "ext3", 36, "/mnt1", "/dev/root", 35, 0, 1),
        Mount("/", ("ro", "nosuid"), "zfs", 37, "/", "tank/a b", 36, 1, 2),
        Mount("/plain", ("rw",), "tmpfs", 38, "/", "tmpfs", 36),
    ]


def test_no_path_makes_a_line_of_its_own() -> None:
    """The kernel escapes none of these, and a user may mount with FUSE where he likes."""
    forged = "36 35 0:9 / /x rw - zfs tank/db rw"
    text = f"41 35 0:50 / /home/u/a\r{forged}\u2028{forged}\x0b{forged} rw - fuse.x y rw\n"
    (found,) = mounts(text)
    assert found.number == 41


def test_below_means_whole_names() -> None:
    assert is_below("/a/b", "/a") and is_below("/a", "/a") and is_below("/a", "/")
    assert not is_below("/ab", "/a") and not is_below("/", "/a")


def test_the_innermost_mount_holds_a_path() -> None:
    assert mountpoint_above("/a/b/c", ["/", "/a", "/a/b", "/a/bc"]) == "/a/b"
    assert mountpoint_above("/x", ["/a"]) == "/"


def test_paths_are_found_in_words_and_in_options() -> None:
    argv = ["/usr/sbin/mysqld", "--datadir=/d", "--port=1", "--key=FILE:/k", "relative/x", "--x=a=/y"]
    assert named_paths(argv) == ("/usr/sbin/mysqld", "/d", "/k", "/y")
