"""zbackup notify"""

import socket
from typing import Annotated

import typer

from zbackup.cli import output
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.model.errors import NotDelivered, NotFound, UsageError, ZbackupError
from zbackup.model.finding import Finding

HELP = """Test the notifications: a message to every webhook and mail address of [notify].

Each says whether it took the message; one that did not makes the command end with 12.

\b
zbackup notify --test
"""

Test = Annotated[bool, typer.Option("--test", help="Send a test message to all of them.")]


def command(options: Options, test: Test = False) -> None:
    # Mail and HTTP take as long to read as a small command does.
    from zbackup.daemon.webhooks_and_mail import Notice, channels, name_of, send

    settings = load(options.config)
    wanted = channels(settings.notify)
    if not test:
        raise UsageError(
            "say what is to be done: zbackup notify --test sends a test message to all of [notify]"
        )
    if not wanted:
        raise NotFound(
            'no notification is configured: add [[notify.webhook]] url = "..." or [[notify.mail]] to = "..."'
        )
    found = Finding(severity="warning", subject="test", text="this is a test, and nothing is wrong")
    host = socket.gethostname()
    notice = Notice(occasion="problem", instance="test", host=host, health="warning", findings=(found,))
    rows = []
    for channel in wanted:
        try:
            send(channel, notice)
            rows.append({"channel": name_of(channel), "delivered": True, "why": None})
        except ZbackupError as failure:
            rows.append({"channel": name_of(channel), "delivered": False, "why": str(failure)})
    text = "\n".join(f"{r['channel']}: {'delivered' if r['delivered'] else 'FAILED'}" for r in rows)
    output.emit(options, "notify", rows, lambda: text)
    for row in rows:
        if row["why"]:
            output.tell(str(row["why"]))
    if not all(row["delivered"] for row in rows):
        raise typer.Exit(NotDelivered.exit_status)
