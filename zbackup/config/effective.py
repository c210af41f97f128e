"""The effective configuration as pairs of a name and a text, without anything that opens a door."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel

from zbackup.config.secret import SecretRef
from zbackup.config.settings import Settings

HIDDEN = "(hidden)"
_DOORS = ("uri", "proxy", "session_token", "access_key", "secret_key", "password", "options", "env")
"""Settings of which nothing is shown but that they are there."""
_PROGRAMS = ("on_success", "on_failure", "on_warning", "run", "start", "stop")
"""Programs of the user's own: tokens and addresses like a ping's stand among their arguments."""


def effective(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Every setting that has a value, defaults too, in the order of the reference."""
    return tuple(_of("", settings))


def _of(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if value is None or value == () or value == {}:
        return
    last = name.rpartition(".")[2]
    if isinstance(value, SecretRef) or last in _DOORS:
        yield name, HIDDEN
    elif last in _PROGRAMS and isinstance(value, tuple):
        yield name, f"{value[0]}, {HIDDEN}" if value[1:] else value[0]
    elif isinstance(value, BaseModel):
        for field in type(value).model_fields:
            yield from _of(f"{name}.{field}" if name else field, getattr(value, field))
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _of(f"{name}.{key}", each)
    elif isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value):
        for number, each in enumerate(value):
            yield from _of(f"{name}.{getattr(each, 'label', number)}", each)
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    text = str(value)
    # The path of such an address is often a key: whoever has it may call it.
    parts = urlsplit(text) if text.startswith(("http://", "https://")) else None
    return f"{parts.scheme}://{parts.hostname}/{HIDDEN}" if parts else text
