"""The options every command takes, before or after its name, and what they add up to."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

from zbackup.cli import logs
from zbackup.cli.logs import LogFormat

FLAGS = ("--json", "--quiet", "-q", "--debug")
VALUED = ("--config", "--log-format")

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration file (default: $ZBACKUP_CONFIG, else /etc/zbackup/config.toml).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result, or the error, as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no notes.")]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Log every step, and show tracebacks of errors."),
]
LogStyle = Annotated[
    LogFormat,
    typer.Option("--log-format", help="How log lines look (auto: JSON under systemd)."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options that hold for every command."""

    config: Path | None = None
    json: bool = False
    quiet: bool = False
    debug: bool = False
    log_format: LogFormat = "auto"

    def over(self, other: "Options") -> "Options":
        """These options, and of `other` whatever is not given here."""
        default = Options()
        chosen = {
            f.name: mine
            if (mine := getattr(self, f.name)) != getattr(default, f.name)
            else getattr(other, f.name)
            for f in fields(self)
        }
        return Options(**chosen)


def common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Make a command of `function(options, ...)`: add the common options to what it takes by itself.

    Typer reads a command's parameters from its signature, so that is what is extended here. Options given
    before the name of the command are merged with those behind it.
    """

    def command(ctx: typer.Context, **values: Any) -> None:
        own = Options(**{name: values.pop(name) for name in _COMMON})
        merged = own.over(ctx.obj) if isinstance(ctx.obj, Options) else own
        # Click makes one context for each level of commands and hands obj down.
        ctx.obj = merged
        logs.set_up(debug=merged.debug, log_format=merged.log_format)
        function(merged, **values)

    _, *rest = inspect.signature(function, eval_str=True).parameters.values()
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *rest, *(_parameter(name) for name in _COMMON)]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    command.__name__, command.__doc__ = function.__name__, function.__doc__
    return command


_COMMON: dict[str, Any] = {
    "config": ConfigFile,
    "json": AsJson,
    "quiet": Quiet,
    "debug": Debug,
    "log_format": LogStyle,
}


def _parameter(name: str) -> inspect.Parameter:
    default = getattr(Options(), name)
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_COMMON[name])
