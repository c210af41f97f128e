# ruff: noqa: E501 (commands are one line each)
"""What the fake zfs must answer as the real one does: commands in a row, from a new pool on.

`recorded.json` holds what a real zfs said. tests/fast/test_fake_zfs.py holds the fake to that, and
tests/platform/test_fake_zfs.py the real zfs of the lab. Recorded anew by
`tests/lab/lab run --disk 4G --share tests/fast -- python -m tests.fast.record`.
"""

import json
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

RECORDED = Path(__file__).with_name("recorded.json")
POOL = "POOL"
"""Stands for the name of the pool."""

_CHANGING = frozenset(
    ("guid", "createtxg", "creation", "used", "written", "referenced", "available", "receive_resume_token")
)
"""Columns and properties whose values differ from run to run."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a command came to."""

    status: int
    stdout: str
    stderr: str


Answer = Callable[[tuple[str, ...]], Said]
"""Runs a command."""
Stream = Callable[[tuple[str, ...], tuple[str, ...], bool], tuple[Said, Said]]
"""Pipes one into the other; the stream is cut off in its middle if that is asked for."""

SCRIPT = """
# making
zfs create -u -o mountpoint=none POOL/a
zfs create -u -o mountpoint=none POOL/a
zfs create -u POOL/none/b
zfs create -u -o zbackup:x=1 -o canmount=noauto -- POOL/a/in
zfs list -H -o name -- POOL/a
zfs list -H -o name -- POOL/none
zfs list -H -o name -- POOL/a@none
zfs list -H -o name -- POOL/none@none
zfs list -H -o name -- nopool
zfs list -H -o name -- nopool/a
zfs list -Hp -t filesystem -r -o name,guid,snapdir -- POOL/a
zfs list -Hp -t filesystem -r -o name,guid,snapdir -- POOL/none
zfs list -H -t volume -r -o name -- POOL/a
zfs list -H -t filesystem -r -o name,origin -- POOL/a
# properties
zfs set zbackup:one=1 zbackup:two=2 POOL/a
zfs set zbackup:one=1 POOL/none
zfs set zbackup:one=1 POOL/a@none
zfs get -Hp -s local,received -o property,value all -- POOL/a
zfs get -Hp -s local,received -o property,value all -- POOL/a/in
zfs get -Hp -t filesystem -r -s local,received -o name,property,value all -- POOL/a
zfs inherit zbackup:one POOL/a
zfs inherit zbackup:one POOL/a
zfs inherit zbackup:one POOL/none
zfs get -Hp -o value zbackup:two,zbackup:one -- POOL/a
zfs get -Hp -o value mountpoint,canmount,readonly,origin,encryption,encryptionroot,keystatus -- POOL/a
zfs get -Hp -o value guid -- POOL/a
zfs get -Hp -o value guid -- POOL/none
zfs get -Hp -o value guid -- POOL/a@none
zfs get -Hp -o value receive_resume_token -- POOL/a
zfs get -Hp -o value receive_resume_token -- POOL/none
zfs get -Hp -o value used -- POOL/none
# snapshots
zfs snapshot -o zbackup:s=1 -- POOL/a@s1 POOL/a/in@s1
zfs snapshot -- POOL/a@s1
zfs snapshot -- POOL/a@s2 POOL/a/in@s1
zfs snapshot -- POOL/none@s1
zfs snapshot -- POOL/a@s2 POOL/none@s2
zfs list -Hp -t snapshot -d 1 -o name,guid,createtxg,creation,used,written,userrefs,clones -- POOL/a
zfs list -Hp -t snapshot -r -o name,userrefs,clones -- POOL/a
zfs list -Hp -t snapshot -d 1 -o name -- POOL/none
zfs list -Hp -t snapshot -o name,userrefs -- POOL/a@s1 POOL/a/in@s1
zfs list -Hp -t snapshot -o name -- POOL/a@s1 POOL/a@none
zfs get -Hp -s local,received -o name,property,value all -- POOL/a@s1 POOL/a/in@s1
zfs get -Hp -s local,received -o name,property,value all -- POOL/a@none
zfs get -Hp -t snapshot -d 1 -s local,received -o name,property,value all -- POOL/a
zfs get -Hp -o name,value guid -- POOL/a@s1 POOL/a/in@s1
zfs set zbackup:m=1 POOL/a@s1
zfs set zbackup:n=1 zbackup:o=2 POOL/a@s1 POOL/a/in@s1
zfs inherit zbackup:m POOL/a@s1
zfs get -Hp -s local,received -o name,property,value all -- POOL/a@s1
# holds
zfs hold -- tag POOL/a@s1
zfs hold -- tag POOL/a@s1
zfs hold -- other POOL/a@s1
zfs hold -- tag POOL/a@none
zfs hold -- tag POOL/none@s1
zfs holds -H -- POOL/a@s1 POOL/a/in@s1
zfs holds -H -- POOL/a@none
zfs destroy POOL/a@s1
zfs destroy -nvp POOL/a@s1
zfs list -Hp -t snapshot -o name,userrefs -- POOL/a@s1
zfs release -- none POOL/a@s1
zfs release -- tag POOL/a@none
zfs release -- other POOL/a@s1
# bookmarks
zfs bookmark -- POOL/a@s1 POOL/a#b1
zfs bookmark -- POOL/a@s1 POOL/a#b1
zfs bookmark -- POOL/a@none POOL/a#b2
zfs list -Hp -r -t filesystem,snapshot,bookmark -o name,guid,createtxg,encryption,encryptionroot,pbkdf2salt -- POOL/a
zfs destroy -- POOL/a#none
zfs destroy -- POOL/a#b1
# clones
zfs userspace -nHp -t all -o type,name,quota,objquota -- POOL/a@s1
zfs projectspace -Hp -o type,name,quota,objquota -- POOL/a@s1
zfs clone -o canmount=noauto -o zbackup:part=1 -- POOL/a@s1 POOL/c
zfs clone -- POOL/a@s1 POOL/c
zfs clone -- POOL/a@none POOL/d
zfs clone -- POOL/a@s1 POOL/none/d
zfs list -H -t filesystem -r -o name,origin -- POOL/c
zfs list -Hp -t snapshot -d 1 -o name,clones -- POOL/a
zfs get -Hp -s local,received -o property,value all -- POOL/c
zfs release -- tag POOL/a@s1
zfs destroy POOL/a@s1
zfs destroy -nvp POOL/a@s1
zfs destroy POOL/a
zfs destroy POOL/none
zfs destroy POOL/a@none
# who was before
zfs promote POOL/a
zfs promote POOL/none
zfs snapshot -- POOL/c@s1
zfs snapshot -- POOL/a@s2
zfs promote POOL/c
zfs destroy POOL/c@s1
zfs promote POOL/c
zfs list -H -t filesystem -r -o name,origin -- POOL
zfs list -Hp -t snapshot -r -o name,clones -- POOL
zfs get -Hp -s local,received -o name,property,value all -- POOL/c@s1
zfs promote POOL/a
# names
zfs rename -- POOL/c POOL/a
zfs rename -- POOL/none POOL/e
zfs rename -- POOL/c POOL/none/e
zfs rename -- POOL/a POOL/f
zfs list -H -t filesystem -r -o name,origin -- POOL
zfs rename -- POOL/f POOL/a
# mounts
zfs create -u -o mountpoint=MOUNT/m -o canmount=noauto -- POOL/m
zfs unmount -- POOL/m
zfs mount -- POOL/m
zfs mount -- POOL/m
zfs mount -- POOL/none
zfs mount -- POOL/a
zfs unmount -- POOL/m
zfs unmount -- POOL/none
zfs get -Hp -o value mountpoint -- POOL/m
zfs create -u -o mountpoint=MOUNT/n -o canmount=noauto -- POOL/n
zfs create -u -o canmount=noauto -- POOL/n/in
zfs mount -- POOL/n
zfs mount -- POOL/n/in
zfs set mountpoint=MOUNT/o POOL/n
zfs get -Hp -o value mounted,mountpoint -- POOL/n
zfs get -Hp -o value mounted,mountpoint -- POOL/n/in
zfs set canmount=on POOL/n
zfs unmount -- POOL/n
zfs unmount -- POOL/n/in
zfs unmount -- POOL/n
zfs set mountpoint=MOUNT/p POOL/n
zfs get -Hp -o value mounted,mountpoint -- POOL/n
zfs set mountpoint=none POOL/n
zfs set mountpoint=MOUNT/q POOL/n
zfs get -Hp -o value mounted,mountpoint -- POOL/n
zfs set canmount=noauto POOL/n
zfs get -Hp -o value mounted -- POOL/n
zfs mount -- POOL/n
zfs mount -- POOL/n/in
zfs rename -- POOL/n POOL/r
zfs get -Hp -o value mounted,mountpoint -- POOL/r
zfs get -Hp -o value mounted,mountpoint -- POOL/r/in
zfs unmount -- POOL/r/in
zfs inherit mountpoint POOL/r
zfs get -Hp -s local,received -o property,value all -- POOL/r
zfs set mountpoint=MOUNT/q POOL/r
zfs mount -- POOL/r
zfs destroy POOL/r/in
zfs destroy POOL/r
# streams
zfs create -u -o mountpoint=none -o canmount=off -o readonly=on -- POOL/v
zfs create -u -o mountpoint=none -o canmount=off -o readonly=on -- POOL/v/home
zfs create -u -o mountpoint=none -o canmount=off -o readonly=on -- POOL/v/home
zfs send -L -c -- POOL/a/in@s1 | zfs receive -s -u -o readonly=on -o zbackup:x=2 -x mountpoint -- POOL/v/home/in
zfs send -L -c -- POOL/a/in@s1 | zfs receive -s -u -o readonly=on -x mountpoint -- POOL/v/home/in
zfs send -L -c -- POOL/a/in@s1 | zfs receive -u -- POOL/v/none/in
zfs list -Hp -r -t filesystem,volume,snapshot -s createtxg -o name,guid,encryption,encryptionroot,pbkdf2salt,keystatus,receive_resume_token,zbackup:backup,zbackup:x -- POOL/v
zfs get -Hp -s local,received -o property,value all -- POOL/v/home/in
zfs snapshot -- POOL/a/in@s2
zfs snapshot -- POOL/a/in@s3
zfs send -L -c -i POOL/a/in@s2 -- POOL/a/in@s3 | zfs receive -s -u -- POOL/v/home/in
zfs send -L -c -i POOL/a/in@s1 -- POOL/a/in@s2 | zfs receive -s -u -- POOL/v/home/in
zfs bookmark -- POOL/a/in@s2 POOL/a/in#two
zfs destroy POOL/a/in@s2
zfs send -L -c -i POOL/a/in#two -- POOL/a/in@s3 | zfs receive -s -u -- POOL/v/home/in
zfs list -Hp -t snapshot -d 1 -o name,clones -- POOL/v/home/in
zfs send -L -c -- POOL/a/in@none | zfs receive -s -u -- POOL/v/home/none
zfs list -H -o name -- POOL/v/home/none
zfs send -L -c -- POOL/m@s1 | zfs receive -s -u -- POOL/v/home/m
zfs mount -- POOL/m
FILL
zfs snapshot -- POOL/m@s1
CUT zfs send -L -c -- POOL/m@s1 | zfs receive -s -u -o zbackup:x=3 -- POOL/v/home/m
zfs list -H -o name -- POOL/v/home/m
zfs list -Hp -t snapshot -d 1 -o name -- POOL/v/home/m
zfs get -Hp -o value receive_resume_token -- POOL/v/home/m
zfs get -Hp -s local,received -o property,value all -- POOL/v/home/m
zfs send -L -c -- POOL/m@s1 | zfs receive -s -u -- POOL/v/home/m
zfs send -nvP -t nonsense
zfs send -nvP -t TOKEN:POOL/v/home/m
zfs send -nvP -- POOL/m@s1
zfs send -nvP -- POOL/m@none
zfs send -t TOKEN:POOL/v/home/m | zfs receive -s -u -o zbackup:x=3 -- POOL/v/home/m
zfs list -Hp -t snapshot -d 1 -o name -- POOL/v/home/m
zfs get -Hp -o value receive_resume_token -- POOL/v/home/m
zfs receive -A -- POOL/v/home/m
FILL
zfs snapshot -- POOL/m@s2
CUT zfs send -L -c -i POOL/m@s1 -- POOL/m@s2 | zfs receive -s -u -- POOL/v/home/m
zfs list -Hp -t snapshot -d 1 -o name -- POOL/v/home/m
zfs get -Hp -o value receive_resume_token -- POOL/v/home/m
zfs send -L -c -i POOL/m@s1 -- POOL/m@s2 | zfs receive -s -u -- POOL/v/home/m
zfs destroy POOL/v/home/m@s1
zfs destroy POOL/v/home/m
zfs destroy POOL/m@s2
zfs send -t TOKEN:POOL/v/home/m | zfs receive -s -u -- POOL/v/home/m
zfs send -nvP -t TOKEN:POOL/v/home/m
zfs receive -A -- POOL/v/home/m
zfs list -Hp -t snapshot -d 1 -o name -- POOL/v/home/m
zfs destroy POOL/v/home/m@s1
zfs destroy POOL/v/home/m
CUT zfs send -L -c -- POOL/m@s1 | zfs receive -s -u -- POOL/v/home/again
zfs receive -A -- POOL/v/home/again
zfs list -H -o name -- POOL/v/home/again
zfs receive -A -- POOL/none
# ends
zfs destroy POOL/v/home
zfs destroy POOL/v/home/in
zfs destroy POOL/m@s1
zfs unmount -- POOL/m
zfs destroy POOL/m
zfs list -H -o name -- POOL/m
"""


def steps() -> list[str]:
    """The lines of the script, without remarks."""
    return [line for line in SCRIPT.splitlines() if line and not line.startswith("#")]


def play(
    pool: str, mount: str, answer: Answer, stream: Stream, fill: Callable[[str], None]
) -> list[dict[str, object]]:
    """Run the script; `fill` writes a file of 4 MiB into the directory that it is given."""
    played: list[dict[str, object]] = []
    for line in steps():
        if line == "FILL":
            fill(f"{mount}/m")
            continue
        cut = line.startswith("CUT ")
        ends = [_argv(end, pool, mount, answer) for end in line.removeprefix("CUT ").split(" | ")]
        said = stream(ends[0], ends[1], cut) if len(ends) == 2 else (answer(ends[0]),)
        columns = _columns(ends[0])
        played.append(
            {"line": line, "said": [_comparable(one, columns, pool, mount, ends[0]) for one in said]}
        )
    return played


def recorded() -> list[dict[str, object]]:
    """What the real one said."""
    found: list[dict[str, object]] = json.loads(RECORDED.read_text())
    return found


def _argv(line: str, pool: str, mount: str, answer: Answer) -> tuple[str, ...]:
    words = []
    for word in shlex.split(line):
        named = word.replace(POOL, pool).replace("MOUNT", mount)
        if named.startswith("TOKEN:"):
            asked = ("zfs", "get", "-Hp", "-o", "value", "receive_resume_token", "--", named[6:])
            named = answer(asked).stdout.strip()
        words.append(named)
    return tuple(words)


def _columns(argv: Sequence[str]) -> list[str]:
    if argv[1] == "holds":
        return ["name", "tag", "creation"]
    return (
        argv[argv.index("-o") + 1].split(",")
        if "-o" in argv and "=" not in argv[argv.index("-o") + 1]
        else []
    )


def _comparable(said: Said, columns: list[str], pool: str, mount: str, argv: Sequence[str]) -> list[object]:
    """Without what differs from run to run: numbers, tokens, and the pool's name."""
    out = [_named(_cells(row, columns, argv), pool, mount) for row in said.stdout.split("\n") if row]
    # Properties and holds come in an order of their own.
    if argv[1] == "holds" or (argv[1] == "get" and "all" in argv):
        out.sort()
    err = re.sub(r"1-[0-9a-f]{6,}-[0-9a-f-]+", "TOKEN", said.stderr).partition("usage:")[0]
    if argv[1] == "send":
        out = [re.sub(r"[0-9a-f]{6,}|(?<=size\t)[0-9]+", "#", row) for row in out]
    return [said.status, out, _named(err, pool, mount)]


def _cells(row: str, columns: list[str], argv: Sequence[str]) -> str:
    cells = row.split("\t")
    asked = argv[argv.index("--") - 1].split(",") if argv[1] == "get" and "--" in argv else []
    changing = bool(_CHANGING & set(asked))
    for number, column in enumerate(columns[: len(cells)]):
        if (column in _CHANGING or (column == "value" and changing)) and cells[number] != "-":
            cells[number] = "#"
    return "\t".join(cells)


def _named(text: str, pool: str, mount: str) -> str:
    return text.replace(pool, POOL).replace(mount, "MOUNT")
