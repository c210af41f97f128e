"""The command line: commands, global options, and how every failure ends."""

import contextlib
import gc
import inspect
import signal
import sys
import traceback
from collections.abc import Collection, Sequence
from importlib import import_module
from types import FrameType
from typing import Annotated, NoReturn

import typer

from zbackup.cli import logs
from zbackup.cli.command_groups import GroupedCommands, with_titles
from zbackup.cli.options import FLAGS, VALUED, Options, common_options
from zbackup.cli.output import (
    INTERRUPTED,
    AlreadyPrinted,
    defect,
    describe_end,
    print_document,
    print_error,
    tell,
)
from zbackup.cli.tables import aligned
from zbackup.model import errors
from zbackup.model.errors import UsageError, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.printable import printable
from zbackup.registry import COMMANDS, SUMMARIES

# Those that no error class stands for.
_OTHER = {0: "Done", 130: "Interrupted (Ctrl-C, SIGTERM or SIGHUP)"}


def meanings() -> dict[int, list[tuple[str, str]]]:
    """Exit status -> the errors that end with it, each with the first sentence of its description."""
    found: dict[int, list[tuple[str, str]]] = {}
    for name, kind in vars(errors).items():
        if inspect.isclass(kind) and issubclass(kind, errors.ZbackupError):
            sentence = " ".join((kind.__doc__ or "").split()).split(". ")[0].rstrip(".")
            found.setdefault(kind.exit_status, []).append((name, sentence))
    return dict(sorted(found.items()))


def table() -> str:
    """Number and meaning: a line for each kind of error, special cases of another left out."""
    rows = []
    for status, kinds in meanings().items():
        general = [text for name, text in kinds if _general(name)]
        rows += [(status, text) for text in general or [text for _, text in kinds]]
    rows += list(_OTHER.items())
    return aligned(
        [[f"  {status}", text] for status, text in sorted(rows, key=lambda row: row[0])], right=(0,)
    )


def _general(name: str) -> bool:
    kind = getattr(errors, name)
    return kind.__base__ in (errors.ZbackupError, Exception)


VERSION = "--version"
HELP_OPTIONS = ("-h", "--help")

HELP = """Consistent ZFS snapshots and point-in-time recovery for MySQL, MariaDB and MongoDB.

\b
zbackup init                             find the servers here, set everything up, prove it
zbackup check                            is everything set up for a backup that can be restored?
zbackup snapshot                         take one
zbackup restore --to "yesterday 10:02"   a server with everything committed before that moment
zbackup clone create --name dev1         production's data for a developer, writable and harmless
zbackup copy good shop.orders            one table of a recovered server, back into production
zbackup undo TRANSACTION                 the rows that one transaction changed, put back
zbackup clone list                       the servers that restore and clone create made
zbackup switch shop good                 a recovered server in production's place
zbackup ship                             copies on another host, another pool or S3
zbackup daemon                           all of it on schedule
"""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata

        print(f"zbackup {metadata.version('zbackup')}")
        raise typer.Exit


def main(
    _: Options,
    version: Annotated[
        bool, typer.Option(VERSION, help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options before the name of a command."""


def build(only: str | None = None) -> typer.Typer:
    """The whole command line, or that of one command.

    Help is plain text: it reads the same in a terminal, a pipe and the docs.
    """
    app = typer.Typer(
        cls=GroupedCommands,
        rich_markup_mode=None,
        context_settings={"help_option_names": list(HELP_OPTIONS), "max_content_width": 100},
    )
    epilog = "\b\nExit status:\n" + table()
    app.callback(help=HELP, epilog=epilog)(common_options(main))
    if only in HELP_OPTIONS:
        for name, summary in SUMMARIES.items():
            app.command(name, help=summary)(lambda: None)
        return app
    for name in _wanted(only):
        module = import_module(COMMANDS[name])
        if name == "clone":
            app.add_typer(module.build(), name=name)
        else:
            groups = getattr(module, "OPTION_GROUPS", None)
            shown_as = with_titles(groups) if groups else None
            app.command(name, help=module.HELP, cls=shown_as)(common_options(module.command))
    return app


def _wanted(only: str | None) -> Collection[str]:
    """The commands to build: none for the version, and all where it is not clear which."""
    return () if only == VERSION else (only,) if only in COMMANDS else COMMANDS


def run(argv: Sequence[str] | None = None) -> NoReturn:
    """The console entry: run a command line and leave with its exit status."""
    gc.disable()
    _end_orderly_when_told()
    words = list(sys.argv[1:] if argv is None else argv)
    sys.exit(invoke(words))


def invoke(words: list[str]) -> int:
    """Run one command line; return its exit status. Whatever fails is said in one line on stderr."""
    debug, as_json = (_given(words, option) for option in ("--debug", "--json"))
    try:
        return _dispatch(words)
    except AlreadyPrinted as told:
        return _end(told.by, debug=debug, as_json=False)
    except (Exception, KeyboardInterrupt) as end:  # noqa: BLE001  the outermost door: a defect of ours is one line too
        return _end(end, debug=debug, as_json=as_json)


def _end(end: BaseException, *, debug: bool, as_json: bool) -> int:
    """Say what ended the work, and return the exit status for it."""
    match end:
        case KeyboardInterrupt() | typer.Abort():
            _print_interrupted(as_json=as_json)
            return INTERRUPTED
        case ZbackupError():
            if debug:
                _print_traceback()
            print_error(end, as_json=as_json)
            return end.exit_status
    if debug:
        _print_traceback()
    _print_defect(end, as_json=as_json)
    return ZbackupError.exit_status


def _dispatch(words: list[str]) -> int:
    logs.set_up()
    command = typer.main.get_command(build(_named(words)))
    if not gc.isenabled():
        # What imports made stays to the end. To look for garbage in it takes a quarter of a short command.
        gc.freeze()
        gc.enable()
    try:
        status = command.main(words, prog_name="zbackup", standalone_mode=False)
    except typer.TyperException as failure:
        raise UsageError(_usage(failure)) from failure
    if status == INTERRUPTED:
        # What Typer makes of Ctrl-C within a command.
        raise KeyboardInterrupt
    return status if isinstance(status, int) else 0


def _named(words: list[str]) -> str | None:
    """The command's name, which only options of every command may precede, or the option that asks for help
    or the version; None where that is not clear."""
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word in (VERSION, *HELP_OPTIONS):
            return word
        if word in VALUED:
            next(rest, None)
        elif word not in FLAGS and word.partition("=")[0] not in VALUED:
            return None
    return None


def _usage(failure: typer.TyperException) -> str:
    """What Typer has against the command line, with where to read how it is done right."""
    context = getattr(failure, "ctx", None)
    path = context.command_path if context is not None else "zbackup"
    return f"{failure.format_message().rstrip('.')}; see {path} --help"


def _print_traceback() -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(printable(traceback.format_exc(), lines=True))


def _print_interrupted(*, as_json: bool) -> None:
    if as_json:
        with contextlib.suppress(ZbackupError):
            print_document({"error": describe_end(KeyboardInterrupt())})
    tell("interrupted")


def _print_defect(failure: BaseException, *, as_json: bool) -> None:
    log.debug("defect", kind=type(failure).__name__)
    if as_json:
        with contextlib.suppress(ZbackupError):
            print_document({"error": describe_end(failure)})
    print_error(defect(failure), as_json=False)


def _given(words: list[str], option: str) -> bool:
    """Whether an option is on the command line, also when that cannot be understood as a whole."""
    return option in (words[: words.index("--")] if "--" in words else words)


def _end_orderly_when_told() -> None:
    """Being told to stop unwinds like Ctrl-C does, so that locks are released and clones removed."""

    def stop(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
