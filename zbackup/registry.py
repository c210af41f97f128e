"""Where each command and each annex is. Modules are imported by these names, and only when they are needed:

the whole house takes half a second to import, and a host that receives pays that for every remote command.
The core calls an annex through here alone.
"""

from importlib import import_module
from types import ModuleType

COMMANDS = {
    "init": "zbackup.features.init.command",
    "check": "zbackup.cli.check",
    "snapshot": "zbackup.cli.snapshot",
    "list": "zbackup.cli.listing",
    "log": "zbackup.cli.log",
    "restore": "zbackup.cli.restore",
    "prune": "zbackup.cli.prune",
    "window": "zbackup.cli.window",
    "ship": "zbackup.cli.ship",
    "archive": "zbackup.cli.archive",
    "key": "zbackup.cli.key",
    "copy": "zbackup.features.copyback.command",
    "undo": "zbackup.features.undo.command",
    "switch": "zbackup.features.switch.command",
    "status": "zbackup.cli.status",
    "daemon": "zbackup.cli.daemon",
    "gate": "zbackup.cli.gate",
    "verify": "zbackup.cli.verify",
    "received": "zbackup.cli.received",
    "fleet": "zbackup.features.fleet.command",
    "release": "zbackup.cli.release",
    "helper": "zbackup.cli.helper",
    "install-service": "zbackup.features.init.install_service",
    "mount": "zbackup.cli.mount",
    "notify": "zbackup.cli.notify",
    "pause": "zbackup.cli.pause",
    "resume": "zbackup.cli.resume",
    "acknowledge": "zbackup.cli.acknowledge",
    "clone": "zbackup.cli.clone",
    "web": "zbackup.features.webpage.command",
}
"""Commands in the order of the help, and their modules."""

SUMMARIES = {
    "init": "Set zbackup up on this host: from running database servers to proven backups.",
    "check": "Check that backups can be taken and restored.",
    "snapshot": "Take a consistent snapshot.",
    "list": "List the backups and what they can restore.",
    "log": "Show what happened: which transaction did what to which table, and when.",
    "restore": "Restore to a moment or another target, as a new server.",
    "prune": "Delete the backups that the retention policy no longer needs.",
    "window": "Show which moments can be restored, and every gap with its cause.",
    "ship": "Copy backups to another host, another pool or S3.",
    "archive": "Archive the binary log or oplog off the host while it is written.",
    "key": "Make a key pair for backups that their own host cannot read, or test the private key.",
    "copy": "Copy tables or collections out of a clone, back into production.",
    "undo": "Take back what one transaction changed, and nothing else.",
    "switch": "Let a recovered clone take production's place.",
    "status": "Show the state of the instances.",
    "daemon": "Take, prune, ship and test backups on schedule, until told to stop.",
    "gate": "Let another host store its backups here, and do nothing else: the forced command of an ssh key.",
    "verify": "Verify backups: compare those at a destination with those here, or restore one as a drill.",
    "received": "Show the state of the backups that other hosts have sent here, and of this host.",
    "fleet": "Show every host and instance that ships to an address, the worst first.",
    "release": "Release what is kept: backups with a date, and snapshots held for a destination that is "
    "gone.",
    "helper": "Do what only root may, for the daemon: remove clones that were never finished or whose "
    "lease ended.",
    "install-service": "Install the systemd units, the user zbackup and its directories, as the Debian "
    "package brings them.",
    "mount": "Mount datasets at their mountpoints, without following other users' symbolic links.",
    "notify": "Test the notifications: a message to every webhook and mail address of [notify].",
    "pause": "Pause an instance's scheduled jobs for a while.",
    "resume": "End a pause: the daemon begins the instance's scheduled jobs again within half a minute.",
    "acknowledge": "Acknowledge an instance's present problems: nobody is notified of them until a time.",
    "clone": "Dev clones, and the servers that restores made.",
    "web": "Serve a web page: what can be restored, where the gaps are and why, clones, jobs.",
}
"""The first sentence of each command's help, so that `zbackup --help` imports none of them."""


def annex(name: str) -> ModuleType:
    """The module of this name in an annex, such as "fleet.command"."""
    return import_module(f"zbackup.features.{name}")
