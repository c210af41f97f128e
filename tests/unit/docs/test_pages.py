"""No page can rot: what README and docs tell people to type is understood by the program that there is."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import typer

from tests.unit.docs.pages import PROJECT, Block, Command, commands, settings
from zbackup.cli.main import build
from zbackup.config.load import parse
from zbackup.model.errors import ConfigError

COMMANDS = sorted(set(commands()), key=str)
SETTINGS = list(settings())
LEAST_COMMANDS, LEAST_SETTINGS = 250, 25
"""More are on the pages now: a reader that finds none proves nothing."""


@cache
def root() -> Any:
    return typer.main.get_command(build())


def understood(words: tuple[str, ...]) -> None:
    """Parse the words as the program does, and do nothing. Raise what it would say."""
    command, name, rest = root(), "zbackup", list(words)
    parent: Any = None
    while True:
        context = command.make_context(name, rest, parent=parent)
        rest = [*context._protected_args, *context.args]
        if not hasattr(command, "resolve_command") or not rest:
            return
        name, command, rest = command.resolve_command(context, rest)
        parent = context


def named(words: tuple[str, ...]) -> tuple[Any, list[str]]:
    """The command that is meant, and the words behind its name. AssertionError where there is no such."""
    command, rest = root(), list(words)
    while hasattr(command, "commands") and rest:
        assert rest[0].startswith("-") or rest[0] in command.commands, f"there is no command {rest[0]}"
        if rest[0].startswith("-"):
            break
        command = command.commands[rest.pop(0)]
    return command, rest


def options_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)


@pytest.mark.parametrize("command", [c for c in COMMANDS if c.whole], ids=str)
def test_every_command_in_a_block_is_understood(command: Command) -> None:
    try:
        understood(command.words)
    except typer.Exit:
        pass  # --version, --help
    except typer.TyperException as wrong:
        pytest.fail(f"{command}: {wrong.format_message()}")


@pytest.mark.parametrize("command", [c for c in COMMANDS if not c.whole], ids=str)
def test_every_command_in_the_running_text_has_the_options_it_is_given(command: Command) -> None:
    found, rest = named(command.words)
    known = {*options_of(found), *options_of(root()), "--help", "-h"}
    assert {word.partition("=")[0] for word in rest if word.startswith("-")} <= known, str(command)


@pytest.mark.parametrize(("block", "raw"), SETTINGS, ids=[block.where for block, _ in SETTINGS])
def test_every_block_of_settings_loads(block: Block, raw: dict[str, Any]) -> None:
    try:
        parse("\n".join(f"{key} = {_toml(value)}" for key, value in raw.items()), block.where)
    except ConfigError as refused:
        pytest.fail(f"{block.where}\n{block.text}\n{refused}")


def test_the_reader_finds_what_is_there() -> None:
    """Of a line with the sign of a shell or of a unit, with a pipe, in quotes and over several lines."""
    assert len(COMMANDS) >= LEAST_COMMANDS and len(SETTINGS) >= LEAST_SETTINGS
    mentioned = {word for c in COMMANDS for word in c.words[:1]}
    assert set(root().commands) - mentioned <= {"helper"} | {"init"}
    for name in ("status", "gate", "clone"):
        assert any(c.whole and c.words[:1] == (name,) for c in COMMANDS), name


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f'"{key}" = {_toml(item)}' for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{_escaped(str(value))}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def test_the_page_on_privileges_knows_every_command() -> None:
    page = (PROJECT / "docs/how-to/least-privilege.md").read_text()
    told = set(re.findall(r"`(?:zbackup )?([a-z-]+)", page.partition("## Command by command")[2]))
    assert set(root().commands) - told == set()
