"""zbackup helper"""

import os
from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import logs
from zbackup.cli.options import Options
from zbackup.config.load import find, load
from zbackup.jobs.watch.root_helper import obey, obey_drill
from zbackup.model.errors import Refused, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.progress import Silent
from zbackup.proc.helper_socket import answer, hear, hung_up
from zbackup.registry import annex

HELP = """Do what only root may, for the daemon: remove clones that were never finished or whose lease ended.

For zbackup-helper.socket, not for people: it answers one question from the connection on its standard input.
The daemon runs as a user of its own, and on Linux nobody but root can unmount. The configuration must be one
that only root can write. With --drills, for zbackup-drill.socket, it makes a drill on schedule instead: it
starts a server as the user who owns the files.

With --read, for zbackup-read.socket, it needs no root and changes nothing: it answers zbackup web what the
page shows. With --clones, for zbackup-cloner.socket, it makes, resets, extends and destroys clones for that
page, and restores, where [web] clones = true.

\b
systemctl enable --now zbackup-helper.socket
systemctl enable --now zbackup-read.socket zbackup-cloner.socket
"""


# A drill comes after all else.
NICE = 10


def command(
    options: Options,
    drills: Annotated[
        bool, typer.Option("--drills", help="Make the drill on schedule that is asked for, and nothing else.")
    ] = False,
    read: Annotated[
        bool, typer.Option("--read", help="Answer what the web page asks, and change nothing.")
    ] = False,
    clones: Annotated[
        bool, typer.Option("--clones", help="Do what the web page asks for with clones, and nothing else.")
    ] = False,
) -> None:
    if clones:
        annex("webpage.cloner").serve_one(options, _require_trust)
        return
    if read:
        annex("webpage.reader").serve_one(options)
        return
    logs.set_up(debug=options.debug, log_format=options.log_format, events=True)
    connection, uid, said = hear(0)
    logs.bind(asked_by=str(uid))
    try:
        _require_trust(options)
        settings = load(options.config)
        contexts = {i.name: app.context(settings, i, Silent()) for i in settings.instance.values()}
        if drills:
            os.nice(NICE)
            found = obey_drill(
                said,
                contexts,
                app.drill_limits(settings),
                lambda: "the daemon is gone" if hung_up(connection) else "",
            )
        else:
            found = obey(said, contexts)
    except ZbackupError as failure:
        answer(connection, {"refused": " ".join(str(failure).split())})
        log.warning("helper.refused", why=str(failure))
        raise typer.Exit(failure.exit_status) from None
    answer(connection, found)
    log.info("helper.done", **found)


def _require_trust(options: Options) -> None:
    """Raise Refused when others than root can write the configuration, and so name datasets in it."""
    path = find(options.config).resolve()
    for each in (path, *path.parents):
        facts = each.stat()
        if facts.st_uid != 0 or (facts.st_mode & 0o022 and not facts.st_mode & 0o1000):
            raise Refused(f"{each} can be changed by others than root, so {path} is not believed")
