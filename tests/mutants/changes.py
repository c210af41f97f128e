"""Small changes of a module's source, each of which some test should find. Pure."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_OTHER: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_SAID = ("log", "ctx.progress")
"""What is called on these is told to people, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a source, in words, of what is from `line` to `end`; `node` is its place in the tree, and
    `way` one of those for it."""

    line: int
    end: int
    what: str
    node: int
    way: int


def changes(source: str) -> Iterator[Change]:
    """Every change that is known here."""
    for number, node in enumerate(ast.walk(ast.parse(source))):
        for way, (what, part, _) in enumerate(_of(node)):
            said = ast.unparse(node).splitlines()[0]
            yield Change(part.lineno, part.end_lineno or part.lineno, f"{what}: {said}", number, way)


def changed(source: str, change: Change) -> str:
    """The whole source, with this change."""
    return ast.unparse(changed_tree(source, change))


def changed_tree(source: str, change: Change) -> ast.Module:
    """The same, with the lines that everything was on."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[change.node]
    list(_of(node))[change.way][2](node)
    return ast.fix_missing_locations(tree)


def _of(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, Callable[[ast.AST], None]]]:
    """In words, what of it is changed, and how."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHER:
            yield "the other comparison", node, _compare
        case ast.BoolOp():
            yield "and for or" if isinstance(node.op, ast.Or) else "or for and", node, _bool
        case ast.If() | ast.IfExp() | ast.While():
            if not _is_type_checking(node):
                yield "always", node.test, _always
                yield "never", node.test, _never
        case ast.comprehension(ifs=[first, *_]):
            yield "no filter", first, _unfiltered
        case ast.FunctionDef() | ast.For() | ast.With():
            for place, statement in enumerate(node.body):
                if _acts(statement):
                    yield f"not done ({ast.unparse(statement).splitlines()[0]})", statement, _without(place)


def _acts(statement: ast.stmt) -> bool:
    """Whether it does something, other than to tell of it."""
    if isinstance(statement, ast.Raise):
        return True
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return False
    return not ast.unparse(statement.value.func).startswith(_SAID)


def _is_type_checking(node: ast.If | ast.IfExp | ast.While) -> bool:
    return ast.unparse(node.test) == "TYPE_CHECKING"


def _compare(node: ast.AST) -> None:
    assert isinstance(node, ast.Compare)
    node.ops = [_OTHER[type(node.ops[0])]()]


def _bool(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()


def _always(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = _evaluated(node.test, ast.Or(), value=True)


def _never(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.IfExp | ast.While)
    node.test = _evaluated(node.test, ast.And(), value=False)


def _evaluated(test: ast.expr, op: ast.boolop, *, value: bool) -> ast.expr:
    """The condition is looked at all the same: what it names with := is there."""
    return ast.BoolOp(op, [test, ast.Constant(value)])


def _unfiltered(node: ast.AST) -> None:
    assert isinstance(node, ast.comprehension)
    node.ifs = []


def _without(place: int) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.FunctionDef | ast.For | ast.With)
        node.body[place] = ast.Pass()

    return change
