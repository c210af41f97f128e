"""No text reaches a server as a part of a statement but by the functions that quote."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.unit.parsed import sources
from tests.unit.provenance import Program, Scope

MYSQL = "zbackup/engines/mysql/"
SINKS = frozenset(
    ("execute", "rows", "one", "read", "write", "stream", "script", "hand_in", "load", "read_strictly")
)
COPY, UNDO = "zbackup/features/copyback/mysql/", "zbackup/features/undo/mysql/"
PRODUCTION, SQL = MYSQL + "production/", MYSQL + "sql/quoting.py"
QUOTING = {
    **{name: {SQL} for name in ("identifier", "qualified", "hexadecimal", "byte_literal", "printed_xa_id")},
    "literal": {SQL, UNDO + "reverse.py"},
    "key_literal": {PRODUCTION + "statements.py"},
    "quoted_name": {PRODUCTION + "tables.py"},
    "given": {MYSQL + "server/settings.py"},
    "checked": {COPY + "definition.py"},
    "_word": {PRODUCTION + "tables.py", COPY + "creation.py", MYSQL + "clone/settling.py"},
    "_privilege": {MYSQL + "server/privileges.py"},
}
"""Functions whose result is one token, or the tokens that were meant, whatever they are given. Two
literals are of a column's value. The last two let only letters through; `given` numbers,
ON, OFF and listed words."""
GIVEN = {
    COPY + "plan_table.py": {"wish.where"},
    COPY + "plan_rows.py": {"wish.where"},
    COPY + "session.py": {"self.wish.where"},
    COPY + "compare.py": {"wish.where"},
    MYSQL + "recovery/adopt.py": {"script"},
}
"""What an administrator has written as SQL: --where of copies, and the script that masks."""
DOOR = MYSQL + "server/connection.py"
"""It hands on what others give it."""
POSITIONS = "zbackup/model/log.py"
"""Whose offsets are numbers."""
FILES = frozenset(("file", "note", "sink", "source", "self._sink", "of_mongodb"))
"""What else has methods of these names."""
_STATEMENT = re.compile(
    r"\s*(/\*M?!\d*\s*)?(SELECT|INSERT|UPDATE|DELETE|ALTER|CREATE|DROP|SET|GRANT|REVOKE|KILL|USE|SHOW|FLUSH|LOCK|"
    r"CHANGE|START|STOP|RESET|RENAME|LOAD|TRUNCATE|CHECK|PURGE|XA|PREPARE|INSTALL)\b "
)


def program() -> Program:
    mysql = {
        file: tree for file, tree in sources().items() if file.startswith((MYSQL, POSITIONS)) or _talks(tree)
    }
    return Program(mysql, QUOTING, GIVEN)


def _talks(tree: ast.Module) -> bool:
    """Tell whether a module of another room has to do with MySQL's sessions."""
    names = (node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(name.startswith("zbackup.engines.mysql") for name in names)


def found_in(known: Program) -> list[str]:
    """Statements, and parts of statements, that are not only constants, numbers and what is quoted."""
    wrong = []
    for module, tree in known.sources.items():
        for node, scope in _with_scopes(tree, Scope(module, None)):
            said = _told(known, module, node)
            if said is not None and (origin := known.origin(said, scope)):
                wrong.append(f"{module}:{said.lineno}: {ast.unparse(said)[:50]} <- {origin}")
    return wrong


def _told(known: Program, module: str, node: ast.AST) -> ast.expr | None:
    """The statement that a session gets here, or that is put together here."""
    match node:
        case ast.Call(func=ast.Attribute() as called) if _is_session(known, module, called):
            return next(iter((*node.args, *(keyword.value for keyword in node.keywords))), None)
        case ast.Call(func=ast.Name(id="partial"), args=[ast.Attribute() as called, first, *_]):
            return first if _is_session(known, module, called) else None
        case ast.JoinedStr() | ast.BinOp() if _is_statement(node):
            return node
    return None


def _is_session(known: Program, module: str, called: ast.Attribute) -> bool:
    """Tell whether it may be a method of a session with a server."""
    owner = ast.unparse(called.value)
    return (
        called.attr in SINKS
        and module != DOOR
        and owner not in FILES
        and known.imports[module].get(owner, "").replace(".", "/") + ".py" not in known.sources
    )


def _with_scopes(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Raise) or (
            isinstance(child, ast.Call) and _name(child) in {"note", *QUOTING}
        ):
            continue
        inner = Scope(scope.module, child) if isinstance(child, ast.FunctionDef) else scope
        yield child, inner
        yield from _with_scopes(child, inner)


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _is_statement(node: ast.AST) -> bool:
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else getattr(node, "left", None)
    value = getattr(first, "value", "")
    text = value.decode("latin1") if isinstance(value, bytes) else value
    return isinstance(text, str) and bool(_STATEMENT.match(text))


def test_nothing_reaches_a_server_that_is_not_quoted() -> None:
    assert found_in(program()) == []


SEEN = """
from functools import partial
from zbackup.engines.mysql.sql.quoting import identifier
def shown(connection, row, names):
    {}
"""


def _with_shown(text: str) -> Program:
    """A module that has this in a function, and the one that quotes."""
    module = MYSQL + "shown.py"
    return Program({module: ast.parse(SEEN.format(text)), SQL: sources()[SQL]}, QUOTING, {})


@pytest.mark.parametrize(
    "text",
    [
        "connection.execute(f\"DROP TABLE {row['t']}\")",
        "connection.execute('DROP TABLE ' + row['t'])",
        "connection.execute('DROP TABLE %s' % row['t'])",
        "connection.execute('DROP TABLE {}'.format(row['t']))",
        "connection.write(b'DROP TABLE ' + row['t'].encode())",
        "connection.rows('SHOW TABLES FROM ' + ', '.join(names))",
        "connection.rows(row['statement'])",
        "text = 'USE '; text += row['t']; connection.execute(text)",
        "return f'DROP TABLE {row}'",
        "connection.execute(made(row))\n\ndef made(row): return f'USE {row}'",
        "for name, _ in {row: 1}.items(): connection.execute(f'USE {name}')",
        "connection.execute(f'USE `{row}`')",
        'connection.execute("SET NAMES \'" + row + "\'")',
        "partial(connection.execute, row['t'])()",
        "connection.execute(statement=row['t'])",
        "made = ['USE ']; made.insert(1, row['t']); connection.execute(' '.join(made))",
        "made = {}; made.update(a=row['t']); connection.execute(' '.join(made.values()))",
        "connection.execute(f'USE {hexadecimal(row)}')\n\nhexadecimal = str",
    ],
)
def test_what_is_not_quoted_is_found(text: str) -> None:
    assert found_in(_with_shown(text)) != []


@pytest.mark.parametrize(
    "text",
    [
        "connection.execute('DROP TABLE t')",
        "connection.execute(f'DROP TABLE {identifier(row)}')",
        "connection.execute('DROP TABLE ' + ', '.join(identifier(n) for n in names))",
        "connection.execute(f'KILL {int(row)}')",
        "connection.rows('SELECT %s', (row,))",
        "connection.execute(made(row))\n\ndef made(row): return f'USE {identifier(row)}'",
        "for name, _ in {identifier(row): row}.items(): connection.execute(f'USE {name}')",
        "raise ValueError(f'DROP TABLE {row}')",
    ],
)
def test_what_is_quoted_is_let_through(text: str) -> None:
    assert found_in(_with_shown(text)) == []


def test_a_session_gets_its_statements_in_calls_alone() -> None:
    """A method that has another name, or is handed on, would not be seen: but for `partial`, which is."""
    wrong = []
    for module, tree in program().sources.items():
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        seen = {id(call.func) for call in calls} | {
            id(call.args[0]) for call in calls if _name(call) == "partial" and len(call.args) > 1
        }
        wrong += [
            f"{module}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr in ("execute", "write") and id(node) not in seen
        ]
    assert wrong == []


def test_each_function_that_quotes_is_there_once() -> None:
    """Nothing else doubles a quote: where it does, a second way to quote has come.

    But for names as people type them, which no statement is made of: it would not be let through above.
    """
    places = set()
    for module, tree in sources().items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="replace"),
                    args=[ast.Constant(value=old), ast.Constant(value=new)],
                ) if old in ("'", "`", '"') and str(new).startswith((old, "\\")):
                    places.add(module)
    assert places == {MYSQL + "sql/quoting.py", "zbackup/model/table_name.py"}
