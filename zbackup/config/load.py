"""TOML in, settings out. All problems are reported at once."""

import difflib
import os
import tomllib
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from zbackup.config.lines import Path_, Problem, line_numbers, line_of, syntax_error
from zbackup.config.rules import broken_rules
from zbackup.config.secret import SecretRef
from zbackup.config.settings import Settings
from zbackup.model.errors import ConfigError

_EXPECTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


# Below these stands what gives power to whoever knows it: passwords, URLs that anybody may write to, and a
# private key in the place of the public one.
_SECRET = {"notify", "webhook", "mail", "ping", "url", "token", "password", "uri", "public_key"}


def dotted(path: Path_) -> str:
    """A key path as people write it; a URL in the place of a key may be a secret, and is not repeated."""
    return "".join(f"[{p + 1}]" if isinstance(p, int) else f".{_unless_url(p)}" for p in path).lstrip(".")


def _unless_url(key: str) -> str:
    return "..." if "/" in key and ("." in key or ":" in key) else key


def explain(error: ErrorDetails, root: type[BaseModel]) -> str:
    """What stands behind the key path: expected, got, did you mean."""
    path, context = error["loc"], error.get("ctx", {})
    kind = error["type"]
    if kind == "extra_forbidden":
        near = _nearest_key(str(path[-1]), _model_at(path[:-1], root))
        meant = _as_a_rule(path, error["input"]) or _belongs_above(path, root) or _did_you_mean(near)
        return "unknown key" + meant
    if kind == "missing":
        return f"missing; {_description(path, root)}"
    got = "" if _may_be_secret(path, root) else _show(error["input"])
    near = str(context.get("near", ""))
    if kind == "literal_error":
        near = _nearest_value(error["input"], str(context["expected"]))
    if kind == "tuple_type":
        return f"expected {_list(path, error['input'], root)}{got and f', got {got}'}"
    return f"expected {_expected(error)}{got and f', got {got}'}{_did_you_mean(near)}"


def _may_be_secret(path: Path_, root: type[BaseModel]) -> bool:
    """Whether what stands there may be a secret, written where a reference to one belongs."""
    if _SECRET & set(path):
        return True
    tables = ((_model_at(path[:n], root), str(path[n])) for n in range(len(path)))
    fields = (model.model_fields[key] for model, key in tables if model and key in model.model_fields)
    return any(_contains_secret(field.annotation) for field in fields)


def _contains_secret(annotation: Any) -> bool:
    return annotation is SecretRef or any(_contains_secret(each) for each in get_args(annotation))


def _expected(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    match error["type"]:
        case "expected":
            return str(context["expected"])
        case "literal_error":
            return str(context["expected"]).replace("'", '"')
        case "greater_than_equal":
            return f"at least {context['ge']}"
        case "less_than_equal":
            return f"at most {context['le']}"
        case kind:
            return _EXPECTED.get(kind, error["msg"])


def _list(path: Path_, value: object, root: type[BaseModel]) -> str:
    """How the list is written that should stand there."""
    if isinstance(value, dict):
        return f"[[{dotted(path)}]] with two brackets, as there may be several of it"
    model = _model_at(path[:-1], root)
    field = model.model_fields.get(str(path[-1])) if model else None
    return f"a list such as {field.examples[0]}" if field and field.examples else "a list"


def _as_a_rule(path: Path_, value: object) -> str:
    """What others write as `hourly = 24`."""
    units = {"hourly": "hours", "daily": "days", "weekly": "weeks", "monthly": "months", "yearly": "years"}
    unit = units.get(str(path[-1]))
    if unit is None or path[-2:-1] != ("retention",) or not isinstance(value, int) or isinstance(value, bool):
        return ""
    return f'; write keep = ["{path[-1]} for {value} {unit}"], one rule for each'


def _show(value: object) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _did_you_mean(near: str) -> str:
    return f'; did you mean "{near}"?' if near else ""


def _nearest_value(value: object, expected: str) -> str:
    words = [w.strip("'") for w in expected.replace(" or ", ", ").split(", ")]
    return next(iter(difflib.get_close_matches(str(value).lower(), words, n=1, cutoff=0.5)), "")


def _nearest_key(key: str, model: type[BaseModel] | None) -> str:
    """A key of this table that is spelled like it, or the very key in a table below."""
    if model is None:
        return ""
    like = difflib.get_close_matches(key.lower().replace("-", "_"), list(model.model_fields), n=1, cutoff=0.6)
    below = [f"{name}.{key}" for name, sub in _sub_tables(model) if key in sub.model_fields]
    return next(iter(like or below), "")


def _belongs_above(path: Path_, root: type[BaseModel]) -> str:
    """TOML takes a key to the table that was begun last: one that was added at the end is in a wrong one."""
    for depth in range(len(path) - 2, -1, -1):
        model = _model_at(path[:depth], root)
        if model and path[-1] in model.model_fields:
            return (
                f"; it belongs to [{dotted(path[:depth])}]" if depth else "; it belongs above the first table"
            )
    return ""


def _sub_tables(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        for kind in _models_in(field.annotation):
            yield name, kind


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _model_at(path: Path_, root: type[BaseModel]) -> type[BaseModel] | None:
    """The model of the table at `path`; a name of an instance stands where no field does."""
    model: type[BaseModel] | None = root
    for key in path:
        found = dict(_sub_tables(model)) if model else {}
        model = found.get(str(key), model if _contains_names(model, key) else None)
    return model


def _contains_names(model: type[BaseModel] | None, key: str | int) -> bool:
    return model is not None and key not in model.model_fields


def _description(path: Path_, root: type[BaseModel]) -> str:
    model = _model_at(path[:-1], root)
    field = model.model_fields.get(str(path[-1])) if model else None
    return (field.description or "required") if field else "required"


DEFAULT = Path("/etc/zbackup/config.toml")
VARIABLE = "ZBACKUP_CONFIG"


def find(option: Path | None) -> Path:
    """The configuration file to use: --config, else $ZBACKUP_CONFIG, else /etc/zbackup/config.toml."""
    if option is not None:
        return option
    return Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else DEFAULT


def load(option: Path | None = None) -> Settings:
    """Read and check the configuration. Raise ConfigError with every problem in it."""
    path = find(option)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        hint = f"name one with --config or ${VARIABLE}, or begin with config.example.toml"
        raise ConfigError([f"{path}: no such configuration file; {hint}"]) from error
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"{path}: not UTF-8 text"]) from error
    return parse(text, str(path))


def parse(text: str, file: str = "config.toml") -> Settings:
    """The settings in `text`; `file` is how messages call it. Raise ConfigError with every problem."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line, why = syntax_error(text, str(error))
        raise ConfigError([f"{file}:{line}: {why}" if line else f"{file}: {why}"]) from error
    found = broken_rules(raw)
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(_with_instances(raw))
    except ValidationError as failure:
        errors = failure.errors(include_url=False)
        found = [(e["loc"], explain(e, Settings)) for e in errors if not _is_misspelled(e, errors)] + found
    if settings is None or found:
        raise ConfigError(_in_order(found, text, file))
    return settings


def _with_instances(raw: dict[str, Any]) -> dict[str, Any]:
    """A host that only receives names what is received there, and has no instance; all others forgot it."""
    web = raw.get("web")
    receives = isinstance(web, dict) and bool(web.get("fleet") or web.get("fleet_reports"))
    return {**raw, "instance": {}} if receives and "instance" not in raw else raw


def _is_misspelled(error: ErrorDetails, all_: list[ErrorDetails]) -> bool:
    """Whether [instance] is missing only because it is there by another name, which is said already."""
    unknown = [str(e["loc"][0]) for e in all_ if e["type"] == "extra_forbidden" and len(e["loc"]) == 1]
    missing = error["type"] == "missing" and error["loc"] == ("instance",)
    return missing and bool(get_close_matches("instance", unknown))


def _in_order(found: list[Problem], text: str, file: str) -> list[str]:
    """One line a problem, from the top of the file down."""
    lines = line_numbers(text)
    placed = sorted(((line_of(path, lines), path, what) for path, what in found), key=lambda each: each[0])
    return list(dict.fromkeys(f"{file}:{line or 1}: {dotted(path)}: {what}" for line, path, what in placed))
