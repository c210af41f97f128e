"""zbackup resume"""

from zbackup import app
from zbackup.cli import output
from zbackup.cli.command_context import OneInstance
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.jobs.watch.operator_file import with_pause

HELP = """End a pause: the daemon begins the instance's scheduled jobs again within half a minute.

\b
zbackup resume shop
"""


def command(options: Options, instance: OneInstance = None) -> None:
    settings = load(options.config)
    chosen = app.choose_one(settings, instance)
    file = app.operator_file(settings)
    was = file.read().pause_of(chosen.name, app.clock().now()) is not None
    file.change(lambda notes: with_pause(notes, chosen.name, None))
    said = "goes on" if was else "was not paused"
    output.emit(
        options, "resume", {"instance": chosen.name, "was_paused": was}, lambda: f"{chosen.name} {said}"
    )
