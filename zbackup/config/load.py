"""TOML in, settings out. All problems are reported at once."""

import os
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from zbackup.config.lines import Problem, line_numbers, line_of, syntax_error
from zbackup.config.problems import dotted, explain
from zbackup.config.rules import broken_rules
from zbackup.config.settings import Settings
from zbackup.model.errors import ConfigError

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
