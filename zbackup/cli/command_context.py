"""From a command line to work on instances: which ones, with what progress, and what fails of it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

import typer

from zbackup import app
from zbackup.cli import completion, logs, output
from zbackup.cli.options import Options
from zbackup.cli.progress import shown
from zbackup.config.load import load
from zbackup.jobs.context import Context
from zbackup.model.errors import ZbackupError

Result = TypeVar("Result")

OneInstance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE",
        help="Its name in the configuration; may be left out when there is one.",
        autocompletion=completion.instances,
        show_default=False,
    ),
]
AnyInstance = Annotated[
    str | None,
    typer.Argument(
        metavar="INSTANCE",
        help="Its name in the configuration (default: all of them).",
        autocompletion=completion.instances,
        show_default=False,
    ),
]


At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="DESTINATION",
        help="What is at this destination, instead of what is on this host.",
        autocompletion=completion.destinations,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """An instance's turn, and what came of it."""

    context: Context
    result: Result


@dataclass(frozen=True, slots=True)
class Failed:
    """An instance's turn that ended with an error."""

    instance: str
    error: ZbackupError


@contextmanager
def on_one(options: Options, job: str, name: str | None, server: Path | None = None) -> Iterator[Context]:
    """The context of the one instance meant, with the program `server` to recover with if one is given.

    Raise UsageError or NotFound when it is not clear which instance.
    """
    settings = load(options.config)
    instance = app.choose_one(settings, name)
    if server:
        recovery = instance.recovery.model_copy(update={"server": (str(server),)})
        instance = instance.model_copy(update={"recovery": recovery})
    logs.bind(job=job, instance=instance.name)
    with shown(options) as progress:
        yield app.context(settings, instance, progress)


@contextmanager
def on_all(options: Options, job: str) -> Iterator[list[Context]]:
    """The contexts of all instances, and of each dataset of their clones, for work that looks across them."""
    settings = load(options.config)
    logs.bind(job=job)
    with shown(options) as progress:
        own = [app.context(settings, instance, progress) for instance in app.choose(settings, None)]
        yield [each for context in own for each in context.everywhere()]


def on_each(
    options: Options, job: str, name: str | None, action: Callable[[Context], Result]
) -> list[Done[Result] | Failed]:
    """Do it for the instance named, or for every one. One that fails does not keep the next from its turn.

    When there is but one, its error is raised as it is.
    """
    settings = load(options.config)
    chosen = app.choose(settings, name)
    outcomes: list[Done[Result] | Failed] = []
    for instance in chosen:
        logs.bind(job=job, instance=instance.name)
        try:
            with shown(options) as progress:
                context = app.context(settings, instance, progress)
                outcomes.append(Done(context, action(context)))
        except ZbackupError as error:
            if len(chosen) == 1:
                raise
            outcomes.append(Failed(instance.name, error))
    return outcomes


def conclude(
    options: Options,
    command: str,
    outcomes: Sequence[Done[Result] | Failed],
    *,
    shape: Callable[[Done[Result]], dict[str, Any]],
    text: Callable[[list[Done[Result]]], str],
) -> None:
    """Print what was done and what failed; leave with the first failure's exit status if there is one."""
    done = [o for o in outcomes if isinstance(o, Done)]
    failed = [o for o in outcomes if isinstance(o, Failed)]
    if options.json:
        rows = [
            {"instance": o.instance, "error": output.describe_error(o.error)}
            if isinstance(o, Failed)
            else {"instance": o.context.instance} | shape(o)
            for o in outcomes
        ]
        output.emit(options, command, rows, str)
    elif done:
        output.say(text(done))
    for each in failed:
        output.print_error(each.error, as_json=False, about=each.instance)
    if failed:
        raise typer.Exit(failed[0].error.exit_status)
