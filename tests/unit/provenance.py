"""Where the texts of statements come from: each part of one is traced through the product's sources.

A text is safe that is made of constants, numbers, and what the quoting functions return. A name is traced to
what it is assigned, a parameter to all calls, an attribute to all that it is given, a call to what the
function returns: by name alone, so that whatever shares a name must be safe, too.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

Function = ast.FunctionDef | ast.AsyncFunctionDef

KEEPS = frozenset(
    ("encode", "decode", "strip", "rstrip", "lstrip", "removeprefix", "removesuffix", "upper", "lower",
     "format", "replace", "fromkeys", "split", "splitlines", "join", "partition", "items", "values",
     "keys", "get", "ljust")
)  # fmt: skip
"""Methods whose result is as safe as what they are called on and with."""
COLLECTS = frozenset(
    ("list", "tuple", "set", "frozenset", "sorted", "reversed", "iter", "next", "map", "filter",
     "enumerate", "zip", "dict", "str", "bytes", "repr", "chain", "cast", "min", "max")
)  # fmt: skip
PUTS = frozenset(("append", "add", "extend", "insert", "update", "setdefault"))
"""Methods that put what they are given into a collection."""
MADE_OF: dict[type[ast.expr], tuple[str, ...]] = {
    ast.Constant: (),
    ast.Compare: (),
    ast.JoinedStr: ("values",),
    ast.BoolOp: ("values",),
    ast.BinOp: ("left", "right"),
    ast.IfExp: ("body", "orelse"),
    ast.NamedExpr: ("value",),
    ast.Starred: ("value",),
    ast.Subscript: ("value",),
    ast.UnaryOp: ("operand",),
    ast.Lambda: ("body",),
    ast.ListComp: ("elt",),
    ast.SetComp: ("elt",),
    ast.GeneratorExp: ("elt",),
    ast.DictComp: ("key", "value"),
    ast.Tuple: ("elts",),
    ast.List: ("elts",),
    ast.Set: ("elts",),
    ast.Dict: ("keys", "values"),
}
"""The parts of an expression that are in its value."""
KEYS = "keys of"
"""A call that no source has: of the keys of a mapping, in which a loop gives them a name."""
NUMBERS = frozenset(("int", "float", "len", "sum", "range", "bool", "abs", "round", "floor", "ceil"))
HARMLESS_TYPES = frozenset(("int", "float", "bool"))


@dataclass
class Scope:
    """A function, or a module where it is None."""

    module: str
    function: Function | None

    def __hash__(self) -> int:
        return hash((self.module, id(self.function)))


Part = tuple[ast.expr, Scope]


@dataclass
class Program:
    """`quoting` are functions whose results are safe, with their modules; `given` are expressions that are
    meant to be statements, by their module."""

    sources: dict[str, ast.Module]
    quoting: Mapping[str, set[str]]
    given: Mapping[str, set[str]]
    functions: dict[str, list[tuple[Function, str]]] = field(default_factory=lambda: defaultdict(list))
    methods: set[int] = field(default_factory=set)
    imports: dict[str, dict[str, str]] = field(default_factory=dict)
    calls: dict[str, list[tuple[ast.Call, Scope]]] = field(default_factory=lambda: defaultdict(list))
    attributes: dict[str, list[tuple[ast.expr, Scope]]] = field(default_factory=lambda: defaultdict(list))
    annotated: dict[str, list[ast.expr]] = field(default_factory=lambda: defaultdict(list))
    fields: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, dict[str, ast.expr]] = field(default_factory=lambda: defaultdict(dict))
    literals: set[str] = field(default_factory=set)
    parts: "dict[tuple[int, Scope], list[Part] | None]" = field(default_factory=dict)
    proven: set[tuple[int, Scope]] = field(default_factory=set)

    def __post_init__(self) -> None:
        for module, tree in self.sources.items():
            self.imports[module] = _imports(tree)
            for node in tree.body:
                self._note_name(module, node)
            self._walk(tree, Scope(module, None))
        for calls in list(self.calls.values()):
            for call, scope in calls:
                self._note_fields(call, scope)

    def _note_name(self, module: str, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.names[module][name] = value
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)):
                self.names[module] |= {ast.unparse(n): v for n, v in zip(names, values, strict=False)}
                return
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self.names[module][name] = value
            case _:
                return
        if isinstance(value, ast.Subscript) and ast.unparse(value.value) == "Literal":
            self.literals.add(name)

    def _walk(self, node: ast.AST, scope: Scope) -> None:
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, Function):
                self.functions[child.name].append((child, scope.module))
                inner = Scope(scope.module, child)
            elif isinstance(child, ast.ClassDef):
                self._note_class(child, scope)
            elif isinstance(child, ast.Call):
                self._note_call(child, scope)
            elif isinstance(child, ast.Assign):
                for target in child.targets:
                    if isinstance(target, ast.Subscript):
                        target = target.value
                    if isinstance(target, ast.Attribute):
                        self.attributes[target.attr].append((child.value, scope))
            self._walk(child, inner)

    def _note_class(self, node: ast.ClassDef, scope: Scope) -> None:
        order = []
        self.methods |= {id(each) for each in node.body if isinstance(each, Function)}
        for each in node.body:
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                order.append(each.target.id)
                self.annotated[each.target.id].append(each.annotation)
                if each.value is not None and not isinstance(each.value, ast.Call):
                    self.attributes[each.target.id].append((each.value, scope))
        self.fields[node.name] = order

    def _note_call(self, call: ast.Call, scope: Scope) -> None:
        name = _name_of(call.func)
        if name == "partial" and call.args:
            inner = ast.Call(func=call.args[0], args=call.args[1:], keywords=call.keywords)
            self.calls[_name_of(inner.func)].append((ast.copy_location(inner, call), scope))
        self.calls[name].append((call, scope))

    def _note_fields(self, call: ast.Call, scope: Scope) -> None:
        name = _name_of(call.func)
        if name not in self.fields and name not in ("replace", "cls"):
            return
        for keyword in call.keywords:
            if keyword.arg:
                self.attributes[keyword.arg].append((keyword.value, scope))
        for attribute, value in zip(self.fields.get(name, ()), call.args, strict=False):
            self.attributes[attribute].append((value, scope))

    # Judging

    def origin(self, node: ast.expr, scope: Scope) -> str:
        """Name the first thing that it is made of and that is not safe; "" if there is none."""
        waiting: list[Part] = [(node, scope)]
        met: set[tuple[int, Scope]] = set()
        while waiting:
            part = waiting.pop()
            key = (id(part[0]), part[1])
            if key in met or key in self.proven:
                continue
            met.add(key)
            if key not in self.parts:
                self.parts[key] = self._parts(*part)
            parts = self.parts[key]
            if parts is None:
                return f"{part[1].module}:{part[0].lineno}: {ast.unparse(part[0])[:60]}"
            waiting += parts
        self.proven |= met
        return ""

    def _parts(self, node: ast.expr, scope: Scope) -> "list[Part] | None":
        """What an expression is made of; None for what nobody can tell."""
        given = self.given.get(scope.module, ())
        if given and isinstance(node, ast.Attribute | ast.Name) and ast.unparse(node) in given:
            return []
        if type(node) in MADE_OF:
            found = [getattr(node, name) for name in MADE_OF[type(node)]]
            parts = [part for each in found for part in (each if isinstance(each, list) else [each])]
            return [(part, scope) for part in parts if part is not None]
        match node:
            case ast.FormattedValue(value=value):
                return [] if _is_number_format(node) else [(value, scope)]
            case ast.Call():
                return self._of_call(node, scope)
            case ast.Attribute():
                return self._of_attribute(node, scope)
            case ast.Name(id=name):
                return [] if name in COLLECTS else self._of_name(name, scope)
        return None

    def _keys_of(self, node: ast.expr, scope: Scope) -> "list[Part] | None":
        """What the keys of a mapping are made of."""
        match node:
            case ast.Dict(keys=keys):
                return [(key, scope) for key in keys if key is not None]
            case ast.DictComp(key=key):
                return [(key, scope)]
            case ast.Call(func=ast.Name(id="zip"), args=[first, *_]):
                return [(first, scope)]
            case ast.Call(func=ast.Name(id="dict"), args=[first]):
                return [(_keys(first), scope)]
            case ast.Call():
                parts = self._results(node.func, scope.module)
            case ast.Name() | ast.Attribute() | ast.IfExp():
                parts = self._parts(node, scope)
            case _:
                return None
        return None if parts is None else [(_keys(part), inner) for part, inner in parts]

    def _of_call(self, node: ast.Call, scope: Scope) -> "list[Part] | None":
        name = _name_of(node.func)
        if name == KEYS:
            return self._keys_of(node.args[0], scope)
        if name in NUMBERS or self._quotes(node.func, scope.module):
            return []
        arguments = [(each, scope) for each in (*node.args, *(k.value for k in node.keywords))]
        if name in ("map", "filter") and isinstance(node.func, ast.Name):
            return self._results(node.args[0], scope.module)
        if (name in COLLECTS and isinstance(node.func, ast.Name)) or name in self.fields:
            return arguments
        meant = self._meant(node.func, scope.module)
        if isinstance(node.func, ast.Attribute) and name in KEEPS and (name == "join" or not meant):
            return [(node.func.value, scope), *arguments]
        return self._results(node.func, scope.module)

    def _meant(self, called: ast.expr, module: str) -> list[tuple[Function, str]]:
        """The functions that a call may mean: methods by their name alone."""
        name = _name_of(called)
        every = self.functions.get(name, [])
        plain = [(f, m) for f, m in every if id(f) not in self.methods]
        if isinstance(called, ast.Name):
            here = [(f, m) for f, m in plain if m == module]
            file = self.imports[module].get(name, "").rpartition(".")[0].replace(".", "/") + ".py"
            return here or [(f, m) for f, m in plain if m == file]
        if isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
            file = self.imports[module].get(called.value.id, "").replace(".", "/") + ".py"
            if file in self.sources:
                return [(f, m) for f, m in plain if m == file]
        return [(f, m) for f, m in every if id(f) in self.methods]

    def _quotes(self, called: ast.expr, of: str) -> bool:
        """Tell whether a call in that module is of functions that quote, and of no others of their names."""
        places = self.quoting.get(_name_of(called), set())
        meant = self._meant(called, of)
        return bool(meant) and all(module in places for _, module in meant)

    def _results(self, called: ast.expr, of: str) -> "list[Part] | None":
        """What the functions return that a call in that module may mean."""
        if self._quotes(called, of):
            return []
        found: list[Part] = []
        meant = self._meant(called, of)
        for function, module in meant:
            if _is_harmless(function.returns, self.literals):
                continue
            scope = Scope(module, function)
            values = [
                node.value
                for node in _own(function)
                if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom) and node.value is not None
            ]
            if not values:
                return None
            found += [(value, scope) for value in values]
        return found if meant else None

    def _of_attribute(self, node: ast.Attribute, scope: Scope) -> "list[Part] | None":
        name = node.attr
        if name in self.functions and any(_is_property(f) for f, _ in self.functions[name]):
            return self._results(node, scope.module)
        module = self.imports[scope.module].get(_name_of(node.value), "").replace(".", "/") + ".py"
        if isinstance(node.value, ast.Name) and module in self.sources:
            value = self.names.get(module, {}).get(name)
            return None if value is None else [(value, Scope(module, None))]
        annotated = self.annotated.get(name, [])
        if annotated and all(_is_harmless(each, self.literals) for each in annotated):
            return []
        return list(self.attributes[name]) if self.attributes.get(name) else None

    def _of_name(self, name: str, scope: Scope) -> "list[Part] | None":
        for function in self._around(scope):
            inner = Scope(scope.module, function)
            if name in _parameters(function):
                assigned = [(value, inner) for value in _assigned(function, name)]
                given = self._of_parameter(function, name, inner)
                return None if given is None else given + assigned
            if values := list(_assigned(function, name)):
                return [(value, inner) for value in values]
        outside = Scope(scope.module, None)
        if values := list(
            _assigned(ast.Module(body=_outside(self.sources[scope.module]), type_ignores=[]), name)
        ):
            return [(value, outside) for value in values]
        if name in self.names[scope.module]:
            return [(self.names[scope.module][name], outside)]
        module, _, imported = self.imports[scope.module].get(name, "").rpartition(".")
        module = module.replace(".", "/") + ".py"
        if imported in self.names.get(module, {}):
            return [(self.names[module][imported], Scope(module, None))]
        return None

    def _around(self, scope: Scope) -> Iterator[Function]:
        """The function, and those that it is defined in."""
        if scope.function is None:
            return
        yield scope.function
        for function in ast.walk(self.sources[scope.module]):
            if not isinstance(function, Function) or function is scope.function:
                continue
            if any(inner is scope.function for inner in ast.walk(function)):
                yield function

    def _of_parameter(self, function: Function, name: str, scope: Scope) -> "list[Part] | None":
        parameters = _parameters(function)
        if _is_harmless(parameters[name].annotation, self.literals):
            return []
        if name in ("self", "cls"):
            return None
        at = [each for each in parameters if each not in ("self", "cls")].index(name)
        is_rest = function.args.vararg is not None and function.args.vararg.arg == name
        given: list[Part] = []
        for call, inner in self.calls.get(function.name, []):
            if all(each is not function for each, _ in self._meant(call.func, inner.module)):
                continue
            by_name = [k.value for k in call.keywords if k.arg == name]
            given += [(value, inner) for value in by_name or call.args[at : None if is_rest else at + 1]]
        if name in (defaults := _defaults(function)):
            given.append((defaults[name], Scope(scope.module, None)))
        return given or None


def _imports(tree: ast.Module) -> dict[str, str]:
    """The full names of what a module imports of the product."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("zbackup")
        for alias in node.names
    }


def _keys(mapping: ast.expr) -> ast.Call:
    return ast.copy_location(ast.Call(func=ast.Name(id=KEYS), args=[mapping], keywords=[]), mapping)


def _outside(tree: ast.Module) -> list[ast.stmt]:
    """What is in no function or class of a module."""
    return [node for node in tree.body if not isinstance(node, Function | ast.ClassDef)]


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_number_format(node: ast.FormattedValue) -> bool:
    """A date or number, by its format."""
    spec = node.format_spec
    return isinstance(spec, ast.JoinedStr) and ast.unparse(spec).strip("f'\"")[-1:] in (
        "d",
        "f",
        "g",
        "S",
        "x",
    )


def _is_harmless(annotation: ast.expr | None, literals: set[str]) -> bool:
    if annotation is None:
        return False
    parts = {part.strip() for part in ast.unparse(annotation).strip("'\"").split("|")}
    return all(p in HARMLESS_TYPES | literals | {"None"} or p.startswith("Literal[") for p in parts)


def _is_property(function: Function) -> bool:
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def _own(function: Function) -> Iterator[ast.AST]:
    """What is in it, and not in functions that are defined in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def _parameters(function: Function) -> dict[str, ast.arg]:
    a = function.args
    every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs]
    return {each.arg: each for each in every}


def _defaults(function: Function) -> dict[str, ast.expr]:
    a = function.args
    every = [*a.posonlyargs, *a.args]
    found = {each.arg: value for each, value in zip(every[::-1], a.defaults[::-1], strict=False)}
    return found | {e.arg: v for e, v in zip(a.kwonlyargs, a.kw_defaults, strict=True) if v is not None}


def _assigned(where: ast.AST, name: str) -> Iterator[ast.expr]:
    """What a name is bound to, there: a part of it where it is one of several; and what is put into it."""
    for node in ast.walk(where):
        for target, value in _bound(node):
            yield from _part(target, value, name)
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner))], value=value) if owner == name:
                yield value
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=attr)):
                if owner == name and attr in PUTS:
                    yield from (*node.args, *(keyword.value for keyword in node.keywords))


def _bound(node: ast.AST) -> list[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return [(target, value)]
        case ast.AugAssign(target=target, value=value) | ast.NamedExpr(target=target, value=value):
            return [(target, value)]
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            return [(target, value)]
        case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
            return [(target, value)]
    return []


def _part(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    match target:
        case ast.Name(id=found) if found == name:
            yield value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            for at, part in enumerate(parts):
                if not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(part)):
                    continue
                if isinstance(value, ast.Tuple) and len(value.elts) == len(parts):
                    yield from _part(part, value.elts[at], name)
                elif isinstance(value, ast.Call) and _name_of(value.func) == "zip" and at < len(value.args):
                    yield from _part(part, value.args[at], name)
                elif isinstance(value, ast.Call) and _name_of(value.func) == "items" and at == 0:
                    assert isinstance(value.func, ast.Attribute)
                    yield _keys(value.func.value)
                elif isinstance(value, ast.Call) and _name_of(value.func) == "enumerate" and at == 0:
                    yield ast.copy_location(ast.Constant(0), value)
                else:
                    yield value
        case ast.Starred(value=inner):
            yield from _part(inner, value, name)
