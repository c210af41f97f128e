"""Whatever is mounted is mounted by proc.mounting: nothing else in the product mounts, nor tells root to."""

import ast
import re
import shlex
from collections.abc import Iterator

import pytest

from tests.unit.parsed import HOUSE, sources
from zbackup.features.init.plan import service
from zbackup.features.init.setup import HostFacts
from zbackup.model.root_directories import ROOTS_ALONE, RUN

MAY_MOUNT = {
    "zbackup/proc/mounting.py": "the one way",
    "zbackup/proc/mounts.py": "the system calls",
    "zbackup/proc/mount_namespace.py": "a recovered server's own namespace, which the host does not see",
    "zbackup/proc/enter_namespace.py": "the same",
}
CALLS = {"mount", "unmount", "detach", "bind", "change", "mount_on", "unmount_from"}
ASKED_BY = {"zbackup/zfs/mounting.py": {"mount_on", "unmount_from"}}
PROGRAMS = {"mount", "umount", "mount.zfs", "zfs_mount"}

_NAMED = re.compile(r"\b(chown|chmod|zfs (un)?mount -|zfs mount|mount -[a-z]|zfs create[^;]*mountpoint=/)")
MAY_NAME = {
    "zbackup/config/secret.py": "a file in the administrator's own configuration",
    "zbackup/features/init/command.py": "the configuration, in a directory of root's",
    "zbackup/features/fleet/report_file.py": "no path: who writes the report, changes it",
    "zbackup/cli/mount.py": "the help that says what zfs mount does",
}


def faults(tree: ast.AST, where: str = "x") -> Iterator[str]:
    """What in a module mounts past the one way."""
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=words) | ast.List(elts=words):
                yield from _argv([w.value if isinstance(w, ast.Constant) else None for w in words])
            case ast.Call(func=ast.Attribute(attr="_zfs" | "_run"), args=words):
                yield from _argv(["zfs", *(w.value if isinstance(w, ast.Constant) else None for w in words)])
            case ast.ImportFrom(module="zbackup.proc.mounts" | "zbackup.proc.mounting", names=names):
                allowed = ASKED_BY.get(where, set())
                yield from (n.name for n in names if n.name in CALLS - allowed and where not in MAY_MOUNT)
            case ast.Attribute(attr="umount" | "umount2" | "move_mount" | "fsmount"):
                if where not in MAY_MOUNT:
                    yield node.attr


def _argv(words: list[object]) -> Iterator[str]:
    """An argument list that is written down, as far as it is: None is what is put together."""
    match words:
        case [str() as program, *_] if program in PROGRAMS and len(words) > 1:
            yield program
        case ["zfs", "mount" | "unmount" | "umount" | "share" as verb, *rest] if rest != ["--", None]:
            yield f"zfs {verb}"
        case ["zfs", "create" | "rename" | "receive" as verb, *rest] if rest and not {"-u", "-A"} & {*rest}:
            if "canmount=off" not in rest:  # what is never mounted
                yield f"zfs {verb} without -u"
        case ["zfs", "load-key", *rest] if rest:
            yield "zfs load-key"


MODULES = sorted(sources())


def test_nothing_mounts_but_by_open_directories() -> None:
    found = {name: bad for name in MODULES if (bad := list(faults(sources()[name], name)))}
    assert found == {}


@pytest.mark.parametrize(
    "line",
    [
        'run(("zfs", "mount", name))', 'run(("zfs", "mount", "-a"))', 'run(["mount", "-t", "zfs", a, b])',
        'run(("umount", "--", at))', 'self._zfs("mount", "-o", "x", name)', 'self._zfs("create", "--", name)',
        'self._zfs("rename", "--", a, b)', "from zbackup.proc.mounts import mount", "_C.umount2(x, 0)",
        "from zbackup.proc.mounting import mount_on", 'run(("zfs", "receive", "-s", "--", x))',
    ],
)  # fmt: skip
def test_what_would_mount_is_found(line: str) -> None:
    assert list(faults(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        'self._zfs("create", "-u", "--", name)', 'self._zfs("rename", "-u", "--", a, b)',
        "from zbackup.proc.mounts import is_below", 'run(("zfs", "receive", "-s", "-u", "--", x))',
        'failed(("zfs", "mount", "--", name))',
    ],
)  # fmt: skip
def test_what_would_not_is_let_be(line: str) -> None:
    assert not list(faults(ast.parse(line)))


def _texts(tree: ast.AST) -> Iterator[str]:
    """The strings of a module but its docstrings, f-strings as a whole."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef)
        and node.body and isinstance(node.body[0], ast.Expr)
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


def test_nothing_tells_root_to_mount_or_to_give_away_what_others_steer() -> None:
    """A name that is typed is resolved when it is typed; zbackup mount opens it safely."""
    found = {
        name: bad
        for name in MODULES
        if name not in MAY_NAME and (bad := [t for t in _texts(sources()[name]) if _NAMED.search(t)])
    }
    assert found == {}


def _made() -> dict[str, list[str]]:
    """Directory -> mode, user and group, as the package makes it."""
    text = (HOUSE / "systemd/zbackup.tmpfiles.conf").read_text()
    lines = [shlex.split(line, comments=True) for line in text.splitlines()]
    return {words[1]: words[2:5] for words in lines if words}


def test_the_package_makes_what_root_mounts_below_and_writes_in() -> None:
    made = _made()
    assert {made[name] == ["0755", "root", "root"] for name in ROOTS_ALONE} == {True}
    assert {name for name, facts in made.items() if facts == ["0755", "root", "root"]} == set(ROOTS_ALONE)


def test_the_wheel_s_installation_makes_the_same_ones() -> None:
    """`install-service`, and `init` with it: the file as it is, and systemd-tmpfiles at once."""
    texts = {name: (HOUSE / "systemd" / name).read_text() for name in (*service.UNITS, *service.SETTINGS)}
    facts = HostFacts(systemd=True, user=False, program="/usr/bin/zbackup", units={}, active=False)
    steps = service.install(texts, facts, {})
    (written,) = (s for s in steps if s.path == "/etc/tmpfiles.d/zbackup.conf")
    assert written.content == texts["zbackup.tmpfiles.conf"]
    assert ("systemd-tmpfiles", "--create", "zbackup.conf") in [s.argv for s in steps]
    assert '"systemd/zbackup.tmpfiles.conf"' in (HOUSE / "packaging/deb.py").read_text()
    assert "systemd-tmpfiles --create zbackup.conf" in (HOUSE / "packaging/debian/postinst").read_text()


def test_a_purge_removes_those_of_them_that_stay_and_are_empty() -> None:
    removed = (HOUSE / "packaging/debian/postrm").read_text()
    assert all(f"{name} " in removed for name in ROOTS_ALONE if name != RUN)  # /run goes with the machine
