"""zbackup install-service"""

import os
from typing import Annotated

import typer

from zbackup.cli import output
from zbackup.cli.options import Options
from zbackup.cli.output import tell
from zbackup.features.init import words
from zbackup.features.init.jobs import host
from zbackup.features.init.jobs.act import install
from zbackup.features.init.plan import service
from zbackup.model.errors import Refused

HELP = """Install the systemd units, the user zbackup and its directories, as the Debian package brings them.

For an installation from the wheel or the checkout. The units start the zbackup that this command was called
as.
Starts nothing: zbackup init does, or systemctl enable --now zbackup-helper.socket zbackup-drill.socket
zbackup; the web page by systemctl enable --now zbackup-read.socket zbackup-web.

\b
zbackup install-service --print    what it would do
zbackup install-service
"""

Print = Annotated[bool, typer.Option("--print", help="Show the steps, change nothing.")]
Replace = Annotated[
    bool, typer.Option("--replace", help="Replace units that are not as this version brings them.")
]


def command(options: Options, print_only: Print = False, replace: Replace = False) -> None:
    if os.geteuid() != 0:
        raise Refused("zbackup install-service writes to /etc/systemd/system: run it as root")
    facts = host.inspect()
    if not facts.systemd:
        raise Refused(f"nothing was installed: {service.by_hand(facts)}")
    host.require_roots_program(facts.program)
    wanted = service.install(host.texts(), facts, host.there(), replace=replace)
    for line in words.numbered(wanted):
        tell(line)
    if not print_only:
        install(wanted)
    rows = [words.shape(step, done=not print_only) for step in wanted]
    done = (
        "nothing to do: the service's files are in place"
        if not wanted
        else "the service's files are in place"
    )
    output.emit(options, "install-service", rows, lambda: "" if print_only and wanted else done)
