"""Output of zfs and the kernel, turned into nouns."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zbackup.model.snapshot import Dataset
from zbackup.zfs import parse

MOUNTINFO = r"""22 1 0:20 / / rw,relatime - overlay overlay rw,lowerdir=/
40 22 0:41 / /srv/my\040db rw,noatime shared:5 - zfs tank/my\040db rw,xattr,noacl
41 40 0:42 / /srv/my\040db/bin\134log\011x rw - zfs tank/my\040db/log rw
42 22 0:43 / /srv/café rw - zfs tank/cafe rw
43 22 0:41 /sub /srv/bound rw - zfs tank/my\040db rw
44 22 0:44 / /srv/nbsp x rw - zfs tank/nbsp rw
45 22 0:45 / /srv/new\012line rw master:1 propagate_from:2 - zfs tank/nl rw
46 22 0:46 / /srv/zfs rw - ext4 /dev/sda1 rw
47 22 0:47 / /second rw - zfs tank/nbsp rw
48 22 0:48 / /srv/dash\040-\040dash rw - zfs tank/dash rw"""


def test_mounts_of_zfs_are_found_with_their_odd_names() -> None:
    found = parse.zfs_mounts(MOUNTINFO.replace("nbsp x", "nbsp\u00a0x").split("\n"))
    assert found == {
        "tank/my db": "/srv/my db",
        "tank/my db/log": "/srv/my db/bin\\log\tx",
        "tank/cafe": "/srv/café",
        "tank/nbsp": "/srv/nbsp\u00a0x",
        "tank/nl": "/srv/new\nline",
        "tank/dash": "/srv/dash - dash",
    }


def test_a_bind_mount_of_a_directory_is_not_the_dataset() -> None:
    assert parse.zfs_mounts([r"43 22 0:41 /sub /srv/bound rw - zfs tank/db rw"]) == {}


names = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=20
)


def kernel_writes(text: str) -> str:
    """As seq_path(9) does it for mountinfo: only these are escaped."""
    return "".join(f"\\{ord(c):03o}" if c in " \t\n\\#" else c for c in text)


@given(st.dictionaries(names, names, max_size=5))
def test_whatever_can_be_a_path_is_read_back(mounts: dict[str, str]) -> None:
    lines = [
        f"{40 + n} 22 0:{n} / /{kernel_writes(where)} rw - zfs {kernel_writes(name)} rw\n"
        for n, (name, where) in enumerate(mounts.items())
    ]
    assert parse.zfs_mounts(lines) == {name: f"/{where}" for name, where in mounts.items()}


def test_datasets_know_where_they_are_mounted() -> None:
    found = parse.datasets(
        "tank/my db\t17\thidden\t-\ntank/off\t18\tdisabled\ttank/a@b\n", {"tank/my db": "/srv/my db"}
    )
    assert found == [
        Dataset(name="tank/my db", guid=17, mountpoint="/srv/my db"),
        Dataset(name="tank/off", guid=18, mountpoint=None, snapdir="disabled", origin="tank/a@b"),
    ]


def test_snapshots_are_in_order_of_creation_with_their_own_properties() -> None:
    listing = (
        "tank/my db@b\t2\t20\t1714564920\t512\t1024\t1\ttank/c,tank/zbackup/d\n"
        "tank/my db@a\t1\t10\t1714564800\t-\t0\t0\t-\n"
        "tank/my db@c\t3\t30\t1714565000\t0\t0\t0\t\n"
    )
    values = "tank/my db@b\tzbackup:lock\tnone\ntank/my db@b\tused\t512\ntank/my db@a\tzbackup:x\t\n"
    a, b, c = parse.snapshots(listing, values)
    assert [s.name for s in (a, b, c)] == ["a", "b", "c"]
    assert (b.dataset, b.guid, b.createtxg) == ("tank/my db", 2, 20)
    assert b.created == datetime(2024, 5, 1, 12, 2, tzinfo=UTC)
    assert (b.used, b.written, b.holds, b.clones) == (512, 1024, 1, ("tank/c", "tank/zbackup/d"))
    assert b.properties == (("zbackup:lock", "none"),)
    assert (a.used, a.clones, a.properties) == (0, (), (("zbackup:x", ""),))
    assert c.clones == ()


def test_only_user_properties_are_user_properties() -> None:
    listing = "t\tcompression\tlz4\nt\tcom.sun:a\t1\nt\tzbackup:b\ta: b\tc\nt/u\tzbackup:b\t2\n"
    assert parse.user_properties(listing) == {
        "t": {"com.sun:a": "1", "zbackup:b": "a: b\tc"},
        "t/u": {"zbackup:b": "2"},
    }


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r"])
def test_only_a_newline_ends_a_line(odd: str) -> None:
    listing = f"t\tcom.example:note\tone{odd}two\nt\tzbackup:b\t2\n"
    assert parse.user_properties(listing) == {"t": {"com.example:note": f"one{odd}two", "zbackup:b": "2"}}


def test_a_value_of_several_lines_hides_nothing_and_invents_nothing() -> None:
    """Somebody else's property may hold newlines; a line of it is not an answer of its own."""
    listing = "t\tcom.example:note\tone\ntwo\nt\tzbackup:b\t2\n"
    assert parse.user_properties(listing)["t"]["zbackup:b"] == "2"


def test_what_a_destroy_would_free() -> None:
    assert parse.reclaimed("destroy\ttank/my db@a\ndestroy\ttank/my db@b\nreclaim\t40960\n") == 40960
    assert parse.reclaimed("") == 0


def test_holds_are_pairs_of_snapshot_and_tag() -> None:
    listing = "tank/my db@a b\tmy tag\tSat Nov 21 07:00 2026\ntank/my db@c\tx\tSat Nov 21 07:00 2026\n"
    assert parse.holds(listing) == [("tank/my db@a b", "my tag"), ("tank/my db@c", "x")]
