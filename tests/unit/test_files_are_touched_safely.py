"""Files are touched through zbackup.proc.secure_files alone, outside of the few modules named here.

What engines and jobs work with lies below directories that database users own, and they run as root.
"""

import ast

import pytest

from tests.unit.parsed import sources

ROOMS = ("engines", "jobs", "catalog", "destinations", "zfs", "plan", "model")
ALLOWED = {
    # What the kernel says, which nobody can put anything in the place of.
    "engines/mysql/server/server_facts.py": {"read_bytes"},
    "engines/stall.py": {"read_text"},
    "jobs/drills/guard.py": {"read_text"},
    "jobs/watch/check.py": {"read_text"},
    # Names of notes in the clone's own directory, which is root's; what lies behind them is only counted.
    "engines/mysql/clone/outside_directories.py": {"glob"},
    "features/switch/inspect.py": {"glob", "rglob"},
    "zfs/datasets.py": {"read_bytes", "read_text"},
    "zfs/facts.py": {"read_text"},
}

METHODS = {
    *("read_text", "read_bytes", "write_text", "write_bytes", "open", "touch", "mkdir", "rmdir", "unlink"),
    *("chmod", "lchmod", "symlink_to", "hardlink_to", "iterdir", "glob", "rglob", "walk"),
}
ONE_ARGUMENT = {"rename", "replace"}
"""As methods of a path: those of text and of datasets take more."""
OF_OS = {
    *("open", "chown", "lchown", "truncate", "chmod", "mkdir", "makedirs", "rename", "replace", "remove"),
    *("unlink", "rmdir", "link", "symlink", "mkfifo", "mknod", "listdir", "utime", "removedirs", "renames"),
}
NO_FILES = {"secure_files", "ctx.recovery"}
"""Whose methods of such names are others."""
OF_SHUTIL = {"disk_usage", "which"}
"""All else is banned."""


def touched(source: ast.Module) -> set[str]:
    """Names of what is called in this source and touches files by name."""
    found = set()
    nodes = list(ast.walk(source))
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        if isinstance(call.func, ast.Name) and call.func.id == "open":
            found.add("open")
        if not isinstance(call.func, ast.Attribute):
            continue
        name, value = call.func.attr, call.func.value
        if not isinstance(value, ast.Name) and name not in METHODS | ONE_ARGUMENT:
            continue
        owner = ast.unparse(value)
        if owner in NO_FILES:
            continue
        if owner == "os":
            found |= {name} & OF_OS
        elif owner == "shutil":
            found |= {name} - OF_SHUTIL
        elif name in METHODS or (name in ONE_ARGUMENT and len(call.args) == 1 and not call.keywords):
            found.add(name)
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return found | {a.name for node in imports if node.module in ("os", "shutil") for a in node.names} - {
        "path"
    }


def test_files_are_touched_in_one_way() -> None:
    rooms = tuple(f"{room}/" for room in ROOMS)
    names = {file.removeprefix("zbackup/"): source for file, source in sources().items()}
    modules = {name: source for name, source in names.items() if name.startswith(rooms)}
    assert len(modules) > 150
    found = {name: touched(source) - ALLOWED.get(name, set()) for name, source in modules.items()}
    assert {name: calls for name, calls in found.items() if calls} == {}


@pytest.mark.parametrize(
    "line",
    [
        "path.write_text(text)",
        "(home / 'x').unlink(missing_ok=True)",
        "fresh.replace(file)",
        "begun.rename(copy)",
        "open(path, 'w')",
        "path.open('ab')",
        "os.truncate(path, 3)",
        "os.chown(path, 0, 0)",
        "self.place.run.mkdir(parents=True)",
        "shutil.rmtree(path)",
        "shutil.copyfile(a, b)",
        "from shutil import rmtree",
    ],
)
def test_what_is_banned(line: str) -> None:
    assert touched(ast.parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "text.replace('a', 'b')",
        "at.replace(microsecond=0)",
        "replace(clone, name='x')",
        "ctx.zfs.rename(a, b)",
        "secure_files.unlink(path)",
        "shutil.disk_usage(path)",
        "os.geteuid()",
        "path.stat()",
    ],
)
def test_what_is_not(line: str) -> None:
    assert not touched(ast.parse(line))
