"""Output of zfs around streams, and the commands of both ends."""

import shlex
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import PLAIN
from zbackup.model.shipping import (
    LONG_PARTS,
    PARTS,
    Origin,
    Partial,
    ReceivedSnapshot,
    bookmark_name,
    bookmarked,
    commit_properties,
    copy_of,
    hold_tag,
    holder_of,
)
from zbackup.plan.ship.gate import LONGEST
from zbackup.zfs.streams import (
    LIGHT_COLUMNS,
    MOST_AT_ONCE,
    ResumeToken,
    ZfsStreams,
    _in_pieces,
    estimate,
    receive_argv,
    resume_argv,
    send_argv,
    sources,
    target_datasets,
)


def test_sources_have_their_snapshots_and_bookmarks_and_volumes_are_left_out() -> None:
    listing = (
        "tank/my db\t1\t5\taes-256-gcm\ttank\t77\n"
        "tank/my db@a b\t11\t20\taes-256-gcm\ttank\t-\n"
        "tank/my db#zbackup-ship:x:11\t11\t20\t-\t-\t-\n"
        "tank/my db/log\t2\t6\toff\t-\t0\n"
        "tank/my db/volume@s\t13\t21\toff\t-\t-\n"
    )
    one, two = sources(listing)
    assert (one.name, one.encrypted, two.name, two.encrypted) == ("tank/my db", True, "tank/my db/log", False)
    assert (one.encryption_root, one.salt, two.encryption_root, two.salt) == ("tank", "77", "", "")
    assert one.origins == (
        Origin(name="tank/my db@a b", guid=11, createtxg=20),
        Origin(name="tank/my db#zbackup-ship:x:11", guid=11, createtxg=20),
    )
    assert one.origin(11) == one.origins[0], "a snapshot before its bookmark"
    assert (one.origin(12), two.origins) == (None, ())


def test_lines_are_what_lies_below_with_their_copies_in_order() -> None:
    listing = (
        "v/b/shop\t1\toff\t-\t0\t-\t-\t-\t-\t-\n"
        "v/b/shop/tank\t2\toff\t-\t0\t-\t-\t-\t-\t-\n"
        "v/b/shop/tank/my db\t3\taes-256-gcm\tv/b\t78\tavailable\t1-token\t-\t-\t-\n"
        'v/b/shop/tank/my db@s1\t31\toff\t-\t-\t-\t-\tb1\t["31","32"]\t2026-11-21\n'
        "v/b/shop/tank/my db@s2\t33\toff\t-\t-\t-\t-\t-\tnot json\t-\n"
    )
    container, line = target_datasets(listing, "v/b/shop")
    assert (container.name, container.copies, container.partial) == ("tank", (), None)
    assert (line.name, line.encrypted, line.partial) == ("tank/my db", True, Partial(token="1-token"))
    assert line.copies == (
        ReceivedSnapshot(name="s1", guid=31, backup="b1", parts=(31, 32), marked=True),
        ReceivedSnapshot(name="s2", guid=33),
    )
    assert line.bases == (33,), "only the newest can be continued"
    assert (line.dataset, line.encryption_root, line.salt) == ("v/b/shop/tank/my db", "v/b", "78")
    assert (container.encrypted, container.encryption_root, container.salt) == (False, "", "")


def test_what_is_received_below_is_locked_by_the_key_of_its_encryption_root() -> None:
    rows = {
        "v/b/shop": "1\taes-256-gcm\tv/b\t7\t{}\t-\t-\t-\t-",
        "v/b/shop/db": "2\taes-256-gcm\tv/b/shop/db\t8\tunavailable\t-\t-\t-\t-",
    }
    for status, locked in (("available", ""), ("unavailable", "v/b")):
        listing = "".join(f"{name}\t{row.format(status)}\n" for name, row in rows.items())
        found = ZfsStreams(lambda *_, text=listing, **__: text).received_below("v/b/shop")
        assert ([each.name for each in found[0]], found[1]) == (["db"], locked)


def test_the_size_is_the_last_that_is_said() -> None:
    said = "full\ttank/a@s\t123\nsize\t4096\n"
    assert (estimate(said), estimate("nothing")) == (4096, 0)


def test_streams_are_sent_as_they_are_on_disk_and_received_harmless() -> None:
    assert send_argv("t/a@s", None, raw=False) == ("zfs", "send", "-L", "-c", "--", "t/a@s")
    assert send_argv("t/a@s", "t/a#b", raw=True) == ("zfs", "send", "-w", "-i", "t/a#b", "--", "t/a@s")
    assert resume_argv("1-x", raw=False) == ("zfs", "send", "-t", "1-x")
    assert resume_argv("1-x", raw=True) == ("zfs", "send", "-w", "-t", "1-x")
    argv = receive_argv("v/b")
    assert "-F" not in argv and {"-s", "-u", "readonly=on", "exec=off", "setuid=off"} <= set(argv)


SAID = """resume token contents:
nvlist version: 0
\tobject = 0x2
\ttoguid = 0x1f
\ttoname = tank/a@s{more}
\tcompressok = 1
full\ttank/a@s\t100
size\t4096
"""


def test_a_token_is_believed_only_when_it_names_one_snapshot() -> None:
    def saying(text: str) -> ZfsStreams:
        def runner(argv: object, *, mutates: bool = True, timeout: float = 600) -> str:
            return text

        return ZfsStreams(runner)

    assert saying(SAID.format(more="")).token("1-x") == ResumeToken(guid=0x1F, left=4096)
    assert saying(SAID.format(more="\n\ttoguid = 0x2f")).token("1-x") is None
    assert saying("nothing").token("1-x") is None


def test_only_a_bookmark_can_be_destroyed() -> None:
    def never(argv: object, *, mutates: bool = True, timeout: float = 600) -> str:
        raise AssertionError(argv)

    for name in ("tank/a", "tank/a@s"):
        with pytest.raises(ValueError, match="is not a bookmark"):
            ZfsStreams(never).destroy_bookmark(name)


@given(st.dictionaries(st.text(min_size=1), st.text(max_size=30_000), max_size=12))
def test_properties_are_set_in_their_order_in_commands_that_are_short_enough(wanted: dict[str, str]) -> None:
    pieces = _in_pieces(wanted)
    assert [pair for piece in pieces for pair in piece] == list(wanted.items())
    for piece in pieces:
        size = sum(len(key.encode()) + len(value.encode()) for key, value in piece)
        assert len(piece) <= 1 or size <= MOST_AT_ONCE


GUIDS = tuple(range(2**64 - 400, 2**64))
MANY = commit_properties(PLAIN, GUIDS, "2026-11-21")


def listed(properties: dict[str, str], columns: str) -> str:
    """What `zfs list` says of the first snapshot of the backup that has these properties."""
    known = {"name": "v/shop/db@s", "guid": str(GUIDS[0]), "encryption": "off"} | properties
    return "\t".join(known.get(column, "-") for column in columns.split(",")) + "\n"


def test_what_a_backup_of_400_datasets_consists_of_is_found_by_one_command_more() -> None:
    assert max(len(value) for value in MANY.values()) <= 8191
    asked = []

    def runner(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        asked.append(argv)
        columns = argv[argv.index("-o") + 1]
        dataset = "v/shop/db\t1\toff" + "\t-" * 7 + "\n" if columns == LIGHT_COLUMNS else ""
        return dataset + listed(MANY, columns)

    (found,) = ZfsStreams(runner).target_datasets("v/shop")
    assert found.copies == (
        ReceivedSnapshot(name="s", guid=GUIDS[0], backup=PLAIN.backup, parts=GUIDS, marked=True),
    )
    assert len(asked) == 2


@pytest.mark.parametrize("lost", [name for name in LONG_PARTS if name in MANY])
def test_without_one_of_its_pieces_it_is_none(lost: str) -> None:
    left = {key: value for key, value in MANY.items() if key != lost}
    assert (copy_of("s", 1, MANY).parts, copy_of("s", 1, left).parts) == (GUIDS, ())


def test_who_knows_one_property_only_sees_no_commit() -> None:
    assert PARTS not in MANY


@pytest.mark.parametrize(("last", "whole"), [(10**18 - 1, True), (10**18, False)])
def test_what_fits_into_one_property_is_in_one(last: int, whole: bool) -> None:
    """For a zbackup that knows no other."""
    guids = (*range(10**17, 10**17 + 389), last)
    properties = commit_properties(PLAIN, guids, "2026-11-21")
    assert (PARTS in properties, copy_of("s", 1, properties).parts) == (whole, guids)
    assert not whole or len(properties[PARTS]) == 8191


def test_so_many_snapshots_are_marked_by_commands_that_pass_a_gate_and_each_is_committed_last() -> None:
    marked = [f"v/shop/{'d' * 150}{n:05}@s" for n in range(3000)]
    written: dict[str, list[str]] = {name: [] for name in marked}

    def runner(argv: Sequence[str], *, mutates: bool = True, timeout: float = 600) -> str:
        assert len(shlex.join(argv)) <= LONGEST
        for name in (word for word in argv if "@" in word):
            written[name] += [word.partition("=")[0] for word in argv if "=" in word]
        return ""

    properties = commit_properties(PLAIN, range(2**63, 2**63 + 3000), "2026-11-21")
    ZfsStreams(runner).mark(marked, properties)
    assert all(keys == list(properties) for keys in written.values())


names = st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,39}", fullmatch=True)


@given(names, st.integers(1, 2**64 - 1))
def test_a_bookmark_says_what_it_is_of(destination: str, guid: int) -> None:
    assert bookmarked(bookmark_name(destination, guid)) == (destination, guid)
    assert bookmarked("my-own") is None


@given(st.text(), st.from_regex(r"[a-z0-9][a-z0-9_-]{0,39}", fullmatch=True), names)
def test_a_hold_says_whose_it_is_and_is_never_too_long(host: str, instance: str, destination: str) -> None:
    found = holder_of(hold_tag(host, instance, destination))
    assert found and (found.instance, found.destination) == (instance, destination)
    assert holder_of("zbackup-ship") is None
    assert len(hold_tag("h" * 300 + host, "i" * 40, "d" * 40).encode()) < 238
