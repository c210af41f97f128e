"""Whatever command a message tells its reader to run, each name in it is one word of a shell's.

Read in the sources: where text says a command and a value follows it, that value comes from command_line().
"""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.unit.parsed import sources

_COMMAND = re.compile(
    r"""(?:^|[\s(:;"'`{])                     # where a command may begin
    (?:(?:zfs|zpool)\ (?!receive|send)[a-z-]+ # "zfs receive" is what the gate talks of
    |zbackup\ (?!copies|takes|was|data|segment|of|web\ runs|has)[a-z-]+
    |umount|chgrp|chmod|chown|systemctl|kill|nsenter|zbackup-)
    (?:\ [^;()\n]*?)?[\ ='"]$                   # and what it has so far""",
    re.VERBOSE,
)
_SENTENCE = re.compile(r"[.,:;]\s+|[()\n]")
NO_COMMANDS = {
    # What a process that holds a lock calls itself.
    ("jobs/ship/ship.py", "zbackup ship to "),
    # What the gate was asked to run, and does not.
    ("plan/ship/gate.py", "zfs set "),
    # "a zbackup of an older version works with ..."
    ("proc/run_directory.py", "a zbackup "),
}
MAY_QUOTE = {
    "model/command_line.py": "the one place",
    "proc/ssh.py": "what a remote shell is given to run",
    "config/units.py": "splits",
    "plan/ship/gate.py": "splits",
    "cli/log.py": "splits",
}


def unquoted(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, the text before it, and each value that stands unquoted behind the beginning of a command."""
    inside: set[int] = set()  # parts of f-strings, which ast.walk comes to after those
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, node.values))
        for text, value in _values(node) if id(node) not in inside else ():
            quoted = isinstance(value, ast.Call) and ast.unparse(value.func) == "command_line"
            if _is_command(text) and not quoted:
                yield node.lineno, text, ast.unparse(value) if isinstance(value, ast.AST) else value


def _values(node: ast.AST) -> Iterator[tuple[str, ast.expr | str]]:
    """Text, and the value that follows it: in an f-string, a template of format(), or by `+`."""
    match node:
        case ast.JoinedStr(values=parts):
            text = ""
            for part in parts:
                if isinstance(part, ast.FormattedValue):
                    yield text, part.value
                text += str(part.value) if isinstance(part, ast.Constant) else "\0"
        case ast.Constant(value=str() as text):
            for place in re.finditer(r"\{\w*\}", text):
                yield text[: place.start()], place[0]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            end = left.values[-1] if isinstance(left, ast.JoinedStr) else left
            if isinstance(end, ast.Constant) and isinstance(end.value, str):
                yield end.value, right


def _is_command(text: str) -> bool:
    return bool(_COMMAND.search(_SENTENCE.split(text)[-1]))


def test_no_name_stands_unquoted_in_a_command() -> None:
    found = [
        f"{name}:{line}: {text[-60:]!r} {{{value}}}"
        for name, tree in sources().items()
        for line, text, value in unquoted(tree)
        if not any(name == f"zbackup/{file}" and text.endswith(end) for file, end in NO_COMMANDS)
    ]
    assert found == []


def test_shells_words_are_made_in_one_place() -> None:
    imports = {name for name, tree in sources().items() for node in ast.walk(tree) if _imports_shlex(node)}
    assert imports == {f"zbackup/{name}" for name in MAY_QUOTE}


def _imports_shlex(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(each.name == "shlex" for each in names)
        case ast.ImportFrom(module="shlex"):
            return True
    return False


def test_no_message_says_how_to_destroy_all_that_is_below_a_dataset() -> None:
    """There may be backups: `zfs destroy` without -r refuses then."""
    found = [
        f"{name}:{node.lineno}"
        for name, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.expr) and _destroys_all(node)
    ]
    assert found == []


def _destroys_all(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return bool(re.search(r"destroy -[a-z]*[rR]", text))
        case ast.Call(func=ast.Name(id="command_line"), args=words):
            said = {w.value for w in words if isinstance(w, ast.Constant)}
            return "destroy" in said and bool({"-r", "-R", "-rf"} & said)
    return False


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("f'destroy it (zfs destroy {name})'", ["name"]),
        ("f'so: zfs set recordsize={size} {name}'", ["size", "name"]),
        ("f'so: zfs set {command_line(a)} {name}'", ["name"]),
        ("f'zbackup clone destroy {clone.name} removes it'", ["clone.name"]),
        ("f'zfs list -o space,quota -r {root}'", ["root"]),
        ("f'zbackup verify --at {x} --drill'", ["x"]),
        ("f\"zfs release '{tag}' '{snapshot}'\"", ["tag", "snapshot"]),
        ("'zfs destroy ' + name", ["name"]),
        ("f'{a}: zfs destroy ' + command_line(name)", []),
        ("'{}: zfs destroy {}'.format(why, name)", ["{}"]),
        ("f'run zfs destroy, then look at {name}'", []),
        ('f\'{command_line("zfs", "destroy", name)} removes {name}\'', []),
    ],
)
def test_the_reading_itself(source: str, found: list[str]) -> None:
    assert [value for *_, value in unquoted(ast.parse(source))] == found
