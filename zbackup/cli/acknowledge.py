"""zbackup acknowledge"""

from typing import Annotated

import typer

from zbackup import app
from zbackup.cli import json_shapes, output
from zbackup.cli.command_context import OneInstance, on_one
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.jobs.journal import Journal
from zbackup.jobs.watch.operator_file import with_acknowledgement
from zbackup.jobs.watch.status import InstanceStatus, inspect
from zbackup.model.errors import NotFound, UsageError
from zbackup.model.moment import local_text, parse_time_to_come
from zbackup.model.operator_notes import Acknowledgement
from zbackup.plan.health.acknowledged import problems_of
from zbackup.proc.lock import lock_owner

HELP = """Acknowledge an instance's present problems: nobody is notified of them until a time.

They are still shown, as acknowledged, with the reason. Any other problem, and one of these that gets worse,
calls as before. Once the time is over, what is still there calls again.

\b
zbackup acknowledge shop --until "2024-05-03 09:00" --reason "disk is ordered"
zbackup acknowledge shop --until +2d --reason "log was purged by hand"
zbackup acknowledge shop --withdraw
"""

Until = Annotated[
    str,
    typer.Option("--until", metavar="TIME", help='"2024-05-03 09:00", "18:00" or "+2d".', show_default=False),
]
Reason = Annotated[
    str,
    typer.Option(
        "--reason", metavar="TEXT", help="The reason, shown by status and check.", show_default=False
    ),
]
Withdraw = Annotated[bool, typer.Option("--withdraw", help="Forget what was acknowledged.")]


def command(
    options: Options,
    instance: OneInstance = None,
    until: Until = "",
    reason: Reason = "",
    withdraw: Withdraw = False,
) -> None:
    settings = load(options.config)
    chosen = app.choose_one(settings, instance).name
    file = app.operator_file(settings)
    if withdraw:
        file.change(lambda notes: with_acknowledgement(notes, chosen, None))
        data: dict[str, object] = {"instance": chosen, "until": None, "problems": []}
        output.emit(options, "acknowledge", data, lambda: f"{chosen}: nothing is acknowledged any more")
        return
    if not until or not reason.strip():
        raise UsageError('say until when and why: --until +2d --reason "disk is ordered"')
    status = _inspected(options, chosen)
    end = parse_time_to_come(until, settings.timezone, status.looked)
    problems = problems_of(status.findings)
    if not problems:
        raise NotFound(f"{chosen} is ok: there is nothing to acknowledge")
    known = Acknowledgement(until=end, reason=" ".join(reason.split()), problems=problems)
    file.change(lambda notes: with_acknowledgement(notes, chosen, known))
    data = {"instance": chosen, "until": end, "problems": json_shapes.pairs(problems)}
    names = ", ".join(map(str, problems))
    said = f"{chosen}: acknowledged until {local_text(end, settings.timezone)}: {names}"
    output.emit(options, "acknowledge", data, lambda: said)


def _inspected(options: Options, name: str) -> InstanceStatus:
    """Return the instance's status, without what was acknowledged before."""
    settings = load(options.config)
    with on_one(options, "acknowledge", name) as ctx:
        expected = app.expected(settings, settings.instance[name], ctx.clock.now())
        runs = bool(lock_owner(app.daemon_lock(settings)))
        return inspect(ctx, expected, Journal(settings.daemon.state_dir).read(), daemon_runs=runs)
