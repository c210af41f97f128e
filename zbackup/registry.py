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


def annex(name: str) -> ModuleType:
    """The module of this name in an annex, such as "fleet.command"."""
    return import_module(f"zbackup.features.{name}")
