"""Commands that pass the gate, and that nothing else does."""

import shlex
from dataclasses import fields, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.samples import PLAIN
from zbackup.model.clock_reading import Reading
from zbackup.model.errors import Refused
from zbackup.model.record import PREFIX, PROPERTIES, to_properties
from zbackup.model.shipping import COMMITTED
from zbackup.plan.ship.gate import LONGEST, GateOrder, Policy, Power, decide, still_to_mark
from zbackup.zfs.streams import LIGHT_COLUMNS

ROOT = "tank/backups"
FULL = replace(
    PLAIN,
    gtid="é" * 9000,
    log_id="x",
    log_from="a:1",
    log_to="a:2",
    lock_wait_ms=1,
    lock_held_ms=2,
    clock=Reading("boot", 1.0, True),
    since=PLAIN.taken,
)
"""A record in which nothing is left out, and something is too long for one property."""

APPEND: frozenset[Power] = frozenset({"receive"})
READ: frozenset[Power] = frozenset({"read"})
ALL: frozenset[Power] = frozenset({"receive", "read", "destroy"})

SAFE = "-o readonly=on -o canmount=noauto -o setuid=off -o exec=off -o devices=off -x mountpoint"
LIST = "zfs list -Hp -r -t filesystem,volume,snapshot -s createtxg -o name,guid,zbackup:backup --"
UUID, KEY = "3e11fa47-71ca-11e1", f"00000000.0000000012.none.{'ab' * 16}.binlog.000012"
HASHES = f"{'ab' * 32}.{'cd' * 16}"
CHUNK = f"{0:016}-{64:016}.{HASHES}.{10**15:016}.none.open"
APPENDING = (
    f"zbackup-log list {ROOT}/db1",
    f"{LIST} {ROOT}/db1",
    f"{LIST} {ROOT}",
    f"zfs list -Hp -r -t filesystem,volume,snapshot -s createtxg -o {LIGHT_COLUMNS} -- {ROOT}/db1",
    f"zfs get -Hp -o value keystatus,encryptionroot -- {ROOT}",
    f"zfs get -Hp -o value guid -- '{ROOT}/db1/tank/my db@zb-1'",
    f"zfs get -Hp -t snapshot -r -s local,received -o name,property,value all -- {ROOT}",
    f"zfs receive -s -u {SAFE} -- {ROOT}/db1/tank",
    f"zfs receive -A -- {ROOT}/db1/tank",
    f"zfs create -u -o canmount=off -o mountpoint=none -o readonly=on -- {ROOT}/db1",
    f"zfs set zbackup:version=1 zbackup:gtid.0=a zbackup:committed=2024 {ROOT}/a@a {ROOT}/a/b@a",
    f"zbackup-log append {ROOT}/db1 {UUID} {KEY} {CHUNK}",
    f"zbackup-log claim {ROOT}/db1 {UUID} 00000001 {'ab' * 16}",
)
READING = (
    f"zbackup-log read {ROOT}/db1 {UUID} {KEY} 0 64",
    f"zfs send -L -e -c -- {ROOT}/db1/tank@a",
    f"zfs send -L -c -- {ROOT}/db1/tank@a",
    f"zfs send -- {ROOT}/db1/tank@a",
    f"zfs send -w -i {ROOT}/db1/tank@a -- {ROOT}/db1/tank@b",
    f"zfs send -nvP -L -e -c -i '{ROOT}/db1/tank#a' -- {ROOT}/db1/tank@b",
    "zfs send -t 1-e604ea4bf-e0-789c63",
)
DESTROYING = (f"zfs destroy {ROOT}/db1/tank@a", f"zbackup-log remove {ROOT}/db1 {UUID} {KEY}")


def policy(powers: frozenset[Power], root: str = ROOT) -> Policy:
    return Policy(root=root, powers=powers)


def allowed(line: str, powers: frozenset[Power], root: str = ROOT) -> GateOrder | None:
    try:
        return decide(line, policy(powers, root))
    except Refused as why:
        assert "\n" not in str(why) and str(why).isprintable()
        return None


@pytest.mark.parametrize("line", APPENDING)
def test_what_a_sender_runs_passes_as_it_is(line: str) -> None:
    order = allowed(line, APPEND)
    assert order is not None and list(order.argv) == shlex.split(line)


@pytest.mark.parametrize("line", READING + DESTROYING)
def test_an_append_only_key_neither_reads_streams_nor_destroys(line: str) -> None:
    assert allowed(line, APPEND) is None
    assert allowed(line, ALL) is not None


CONDEMNING = "zfs set zbackup:condemned=2024 tank/backups/a@b"


def test_only_who_may_destroy_marks_what_is_to_go() -> None:
    assert allowed(CONDEMNING, APPEND) is None and allowed(CONDEMNING, READ) is None
    order = allowed(CONDEMNING, ALL)
    assert order is not None and still_to_mark(order, {"tank/backups/a@b": {COMMITTED: "x"}}) == order.argv


@pytest.mark.parametrize("line", APPENDING[7:] + DESTROYING)
def test_a_read_only_key_changes_nothing(line: str) -> None:
    assert allowed(line, READ) is None


@pytest.mark.parametrize("line", APPENDING[:7] + READING)
def test_a_read_only_key_reads(line: str) -> None:
    assert allowed(line, READ) is not None


@pytest.mark.parametrize("line", APPENDING + READING[:4] + DESTROYING)
@pytest.mark.parametrize(
    "root", ["tank/back", "tank/backups2", "backups", "tank/backups/other", "tank/backups/db"]
)
def test_another_root_lets_none_of_it_pass(line: str, root: str) -> None:
    """Also where one name begins with the other."""
    assert allowed(line, ALL, root) is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        "sh",
        "bash -c 'zfs list'",
        "/sbin/zfs list -- tank/backups",
        "zpool destroy tank",
        "scp -t /",
        "internal-sftp",
        "zfs",
        "zfs rollback tank/backups/a@b",
        "zfs rename tank/backups/a tank/backups/b",
        "zfs promote tank/backups/a",
        "zfs inherit readonly tank/backups/a",
        "zfs mount tank/backups/a",
        "zfs share tank/backups/a",
        "zfs hold tag tank/backups/a@b",
        "zfs release tag tank/backups/a@b",
        "zfs allow everyone destroy tank/backups/a",
        "zfs program tank x",
        "zfs clone tank/backups/a@b tank/backups/c",
        "zfs snapshot tank/backups/a@b",
        "zfs bookmark tank/backups/a@b tank/backups/a#b",
        "zfs change-key tank/backups/a",
        "zfs recv -s -u tank/backups/a",
        f"zfs create -u -o canmount=off -o mountpoint=none -o readonly=on -- {ROOT}/db1/log",
        f"zfs receive -s -u {SAFE} -- {ROOT}/db1/log",
        f"zfs receive -s -u {SAFE} -- {ROOT}/db1/log/x",
        f"zbackup-log claim {ROOT} {UUID} 00000001 {'ab' * 16}",
        f"zbackup-log claim {ROOT}/db1 {UUID} 1 {'ab' * 16}",
        f"zbackup-log claim {ROOT}/db1 ../x 00000001 {'ab' * 16}",
        f"zbackup-log claim {ROOT}/db1 {UUID} 00000001 ../x",
        f"zbackup-log append tank/backups {UUID} {KEY} {CHUNK}",
        f"zbackup-log append tank/backups/db1@a {UUID} {KEY} {CHUNK}",
        f"zbackup-log append tank/backups/../x {UUID} {KEY} {CHUNK}",
        f"zbackup-log append tank/other {UUID} {KEY} {CHUNK}",
        f"zbackup-log append tank/backups/db1 .. {KEY} {CHUNK}",
        f"zbackup-log append tank/backups/db1 a/b {KEY} {CHUNK}",
        f"zbackup-log append tank/backups/db1 {UUID} ../{KEY} {CHUNK}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY}/x {CHUNK}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY[:-13]}../x.000012 {CHUNK}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY} {CHUNK} {CHUNK}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY} {CHUNK.replace('open', 'gone')}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY} {64:016}-{0:016}{CHUNK[33:]}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY} {0:016}-{10**12:016}{CHUNK[33:]}",
        f"zbackup-log append tank/backups/db1 {UUID} {KEY} -1{CHUNK[16:]}",
        f"zbackup-log read tank/backups/db1 {UUID} {KEY} 0 99999999999999999999",
        f"zbackup-log read tank/backups/db1 {UUID} {KEY} 0 -1",
        f"zbackup-log read tank/backups/db1 {UUID} {KEY} 0",
        "zbackup-log list",
        "zbackup-log list tank/backups",
        "zbackup-log list tank/backups/db1 --help",
        "zbackup-log truncate tank/backups/db1",
        "zbackup-log",
        "zbackup log",
        "zbackup archive",
        "zfs destroy tank/backups/a",
        "zfs destroy -r tank/backups/a@b",
        "zfs destroy tank/backups/a@b%c",
        "zfs destroy tank/backups/a@b,c",
        "zfs destroy tank/backups/a@%",
        "zfs destroy tank/backups/a#b",
        "zfs destroy tank/backups/a@b tank/backups/a@c",
        "zfs list -- tank/backups ; zfs destroy tank/backups/a@b",
        "zfs list -- tank/backups && true",
        "zfs list -- $(reboot)",
        "zfs list -- `reboot`",
        "zfs list -- tank/backups | sh",
        "zfs list -- tank/backups > /etc/passwd",
        "zfs list -- tank/backups/../other",
        "zfs list -- tank/backups/./a",
        "zfs list -- tank/backups/",
        "zfs list -- tank/backups//a",
        "zfs list -- /tank/backups",
        "zfs list -- tank/backups/a@b@c",
        "zfs list -- tank/backups@a/../../x",
        "zfs list -- tank/backups/\u0430",  # a Cyrillic letter
        "zfs list -- 'tank/backups/a\u200b'",
        "zfs list -- tank/backups2",
        "zfs list -- tank/backups tank",
        "zfs list --",
        "zfs list",
        "zfs list tank/backups -o name,mountpoint -r tank",
        "zfs list tank tank/backups/a",
        "zfs list -o",
        "zfs list -j -- tank/backups",
        "zfs list --json -- tank/backups",
        "zfs list -o 'name,$(x)' -- tank/backups",
        "zfs list -o -- tank/backups",
        "zfs get -- tank/backups",
        "zfs get all tank",
        f"zfs receive -s -u -F {SAFE} -- tank/backups/a",
        f"zfs receive -F -u {SAFE} -- tank/backups/a",
        f"zfs receive -s -F {SAFE} -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o",
        "zfs receive -s -u tank/backups/a",
        "zfs receive -A -- tank/backups/a tank/backups/b",
        f"zfs receive -s -u {SAFE} -F -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -- -F tank/backups/a",
        f"zfs receive -s -u {SAFE} -- tank/backups/a -F",
        f"zfs receive -s -u {SAFE} -d -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o mountpoint=/etc -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o exec=on -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o sharenfs=on -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o canmount=on -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o readonly=off -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o zbackup:committed=1 -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -o origin=tank/other@a -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -x readonly -- tank/backups/a",
        f"zfs receive -s -u {SAFE} -- tank/backups",
        f"zfs receive -s -u {SAFE} -- tank/backups/a@b",
        f"zfs receive -s -u {SAFE} -- tank/backups2/a",
        f"zfs receive -s -u {SAFE} --",
        f"zfs receive -s {SAFE} -- tank/backups/a",
        f"zfs receive -u {SAFE} -- tank/backups/a",
        "zfs receive -s -u -- tank/backups/a",
        "zfs receive -s -u -o readonly=on -x mountpoint -- tank/backups/a",
        "zfs receive -A -F -- tank/backups/a",
        "zfs receive -A -- tank/backups",
        "zfs receive -A -- tank/other",
        "zfs create -u -o canmount=off -o mountpoint=none -o readonly=on -- tank/backups",
        "zfs create -u -o canmount=off -o mountpoint=/ -o readonly=on -- tank/backups/a",
        "zfs create -u -o canmount=off -o mountpoint=none -o readonly=on -o exec=on -- tank/backups/a",
        "zfs create -u -p -o canmount=off -o mountpoint=none -o readonly=on -- tank/backups/a",
        "zfs create -u -- tank/backups/a",
        "zfs create -p -o canmount=off -o mountpoint=none -o readonly=on -- tank/backups/a",
        "zfs create -V 1G tank/backups/a",
        "zfs set mountpoint=/ tank/backups/a",
        "zfs set zbackup:version=1 tank/backups/a",
        "zfs set zbackup:clone=1 tank/backups/a@b",
        "zfs set zbackup:committed.0=1 tank/backups/a@b",
        "zfs set other:thing=1 tank/backups/a@b",
        "zfs set readonly=off zbackup:version=1 tank/backups/a@b",
        "zfs set zbackup:version=1 tank/backups/a@b readonly=off",
        "zfs set zbackup:version=1 tank/backups/a@b tank/backups/a@b",
        "zfs set zbackup:version= tank/backups/a@b",
        f"zfs set zbackup:version={'x' * 8192} tank/backups/a@b",
        "zfs set -u zbackup:version=1 tank/backups/a@b",
        "zfs set 'zbackup:version=1\n2' tank/backups/a@b",
        "zfs set 'zbackup:version=\x1b[2J' tank/backups/a@b",
        "zfs send -R -- tank/backups/a@b",
        "zfs send -p -- tank/backups/a@b",
        "zfs send -R tank/backups/a@b",
        "zfs send -I tank/backups/a@a -- tank/backups/a@b",
        "zfs send -i tank/other@a -- tank/backups/a@b",
        "zfs send -i @a -- tank/backups/a@b",
        "zfs send -- tank/other@b",
        "zfs send -- tank/backups/a",
        "zfs send -t tank/other@b",
        "zfs send -t 1-a-b-c extra",
        f"zfs list -- tank/backups/{'x' * 256}",
        f"zfs list -- {'tank/backups ' * (LONGEST // 10)}",
    ],
)  # fmt: skip
def test_nothing_else_passes_not_even_for_a_trusted_key(line: str) -> None:
    assert allowed(line, ALL) is None


@pytest.mark.parametrize(
    ("line", "longer"),
    [
        (f"zfs list -- {ROOT}/{'x' * (254 - len(ROOT))}", "x"),
        (f"zfs set zbackup:version={'x' * 8191} {ROOT}/a@b", ""),
        (f"zfs list --{' ' * (LONGEST - 11 - len(ROOT))}{ROOT}", ""),
    ],
)
def test_what_is_as_long_as_may_be_passes(line: str, longer: str) -> None:
    assert allowed(line, ALL) is not None
    assert not longer or allowed(line + longer, ALL) is None
    assert allowed("zfs list -- " + "x" * LONGEST, ALL) is None


def test_a_root_may_be_as_long_as_a_dataset_s_name() -> None:
    assert policy(ALL, "t" * 255).root
    with pytest.raises(Refused):
        policy(ALL, "t" * 256)


@given(st.text())
@example("zfs list -- tank/backups\nzfs destroy tank/backups/a@b")
@example("zfs list -- tank/backups\0")
@example("zfs list -- tank/backups\u2028")
@example("zfs list -- 'tank/backups")
@example("zfs list -- \udcff")
def test_what_no_sender_writes_is_refused_in_one_line(line: str) -> None:
    assert allowed(line, ALL) is None or line.startswith("zfs ")


def test_the_names_of_a_records_properties_are_known() -> None:
    assert all(getattr(FULL, f.name) not in (None, "") for f in fields(FULL) if f.compare), (
        "the sample has everything"
    )
    written = {key.removeprefix(PREFIX).partition(".")[0] for key in to_properties(FULL)}
    assert written == PROPERTIES


@pytest.mark.parametrize("root", ["", "tank/", "/tank", "tank//a", "tank/../a", "tank@a", "-r", "tank/a,b"])
def test_a_root_that_is_no_dataset_is_refused(root: str) -> None:
    with pytest.raises(Refused, match="not the name of a dataset"):
        policy(ALL, root)
