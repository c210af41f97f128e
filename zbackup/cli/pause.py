"""zbackup pause"""

from typing import Annotated

import typer
from pydantic_core import PydanticCustomError

from zbackup import app
from zbackup.cli import output
from zbackup.cli.command_context import OneInstance
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.config.units import duration
from zbackup.jobs.watch.operator_file import with_pause
from zbackup.model.errors import UsageError
from zbackup.model.moment import end_after, local_text
from zbackup.model.operator_notes import Pause

HELP = """Pause an instance's scheduled jobs for a while.

For the hours of a migration, or while a pool is repaired. What runs is finished, and commands that you
type still work. status, metrics and the monitoring plugin say warning meanwhile. It ends by itself.

\b
zbackup pause shop --for 2h
zbackup pause shop --for 30m --reason "moving to the new rack"
zbackup resume shop                 before its time
"""

For = Annotated[
    str, typer.Option("--for", metavar="TIME", help='How long: "30m", "2h" or "1d".', show_default=False)
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", help="The reason, shown by status and check.", show_default=False
    ),
]


def command(options: Options, for_: For, instance: OneInstance = None, reason: Reason = "") -> None:
    settings = load(options.config)
    chosen = app.choose_one(settings, instance)
    clock = app.clock()
    pause = Pause(until=end_after(clock.now(), seconds_of(for_)), reason=" ".join(reason.split()))
    app.operator_file(settings).change(lambda notes: with_pause(notes, chosen.name, pause))
    until = local_text(pause.until.replace(microsecond=0), settings.timezone)
    data = {"instance": chosen.name, "until": pause.until, "reason": pause.reason or None}
    output.emit(options, "pause", data, lambda: f"{chosen.name} is paused until {until}")


def seconds_of(text: str) -> float:
    """A length of time from the command line. Raise UsageError."""
    try:
        seconds = duration(text)
    except PydanticCustomError:
        seconds = 0
    if seconds <= 0:
        raise UsageError(f'"{text}" is no length of time: write "30m", "2h" or "1d"')
    return seconds
