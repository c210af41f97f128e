"""Writes the reference pages that are made from the code: python docs/reference/generate.py

A unit test compares the pages with what this would write, so that they stay true.
"""

import contextlib
import io
import os
import re
import sys
import textwrap
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from zbackup.cli.command_groups import GROUPS
from zbackup.cli.main import invoke, meanings
from zbackup.cli.main import table as exit_status_table
from zbackup.cli.options import FLAGS, VALUED
from zbackup.config.clones import ClonePool, CloneSettings, MaskSettings, Replica
from zbackup.config.cluster import ClusterSettings
from zbackup.config.copying import CopyBack
from zbackup.config.lock import Lock
from zbackup.config.notify import HealthNotify, Mail, Webhook
from zbackup.config.recovery import RecoverySettings
from zbackup.config.retention import RetentionSettings
from zbackup.config.s3 import S3
from zbackup.config.schedule import Daemon, Notify, Schedule
from zbackup.config.service import ServiceSettings
from zbackup.config.settings import Instance, Settings
from zbackup.config.ship import Ship, SshSettings
from zbackup.config.tls import Tls
from zbackup.config.web import Web
from zbackup.model.errors import ZbackupError

HERE = Path(__file__).parent
COMMANDS = (
    ("init",), ("install-service",), ("mount",),
    ("check",), ("snapshot",), ("list",), ("restore",), ("log",), ("prune",), ("window",), ("ship",),
    ("archive",),
    ("clone",), ("clone", "create"), ("clone", "list"), ("clone", "show"), ("clone", "dsn"), ("clone", "env"),
    ("clone", "reset"), ("clone", "snapshot"), ("clone", "promote"), ("clone", "extend"),
    ("clone", "protect"), ("clone", "stop"), ("clone", "start"), ("clone", "destroy"), ("copy",), ("undo",),
    ("switch",), ("verify",), ("received",), ("fleet",), ("key",), ("release",), ("gate",), ("status",),
    ("daemon",),
    ("pause",),
    ("resume",), ("acknowledge",), ("notify",), ("web",),
)  # fmt: skip
GLOBAL = frozenset((*FLAGS, *VALUED, "--help", "--version", "--install-completion", "--show-completion"))
SUB_TABLES = (
    "lock",
    "recovery",
    "clones",
    "retention",
    "schedule",
    "notify",
    "tls",
    "service",
    "ship",
    "copy_back",
)


def pages() -> dict[str, str]:
    """File name -> text of every generated page."""
    return {"commands.md": commands(), "exit-status.md": exit_status(), "configuration.md": configuration()}


def commands() -> str:
    root = _help(())
    usage, _, rest = root.partition("\n\nOptions:\n")
    options = rest.partition("\n\n")[0]
    listed = rest[rest.index(f"{next(iter(GROUPS))}:") : rest.index("Exit status:")].rstrip()
    parts = [
        "# Commands",
        "What `--help` says. What all commands share stands here once: [global options](#global-options) and "
        "[exit statuses](#exit-statuses). Results go to stdout, everything else to stderr; "
        "progress is drawn on a terminal, and elsewhere long work says every few seconds how far it "
        "is. What `--json` prints is in [json.md](json.md).",
        "Shell completion of commands, options, instances and clones: `zbackup --install-completion`.",
        "## Global options",
        "They may stand before or after the name of a command.",
        f"```text\n{_entries(options, shared=True)}\n```",
        "## Exit statuses",
        "[Exit statuses](exit-status.md) has them with the kinds of errors that `--json` names. Where a "
        "command has a special reason for a status, its section says so.",
        f"```text\n{textwrap.dedent(exit_status_table())}\n```",
        "## zbackup",
        f"```text\n{usage}\n\n{listed}\n```",
    ]
    for command in COMMANDS:
        parts += [f"## zbackup {' '.join(command)}", f"```text\n{_own(_help(command))}\n```"]
    return "\n\n".join(parts) + "\n"


def _own(text: str) -> str:
    """Leave the global options out of a command's help."""
    return "\n\n".join(kept for block in text.split("\n\n") if (kept := _without_global(block)))


def _without_global(block: str) -> str:
    """Return the block; a list of options without those that every command has, "" if no other is in it."""
    title, _, listed = block.partition("\n")
    if not listed.startswith("  -"):
        return block
    own = _entries(listed, shared=False)
    return f"{title}\n{own}" if own else ""


def _entries(listed: str, *, shared: bool) -> str:
    """Return the entries of a list of options that every command has, or the others."""
    entries = re.split(r"\n(?=  -)", listed)
    return "\n".join(entry for entry in entries if _is_shared(entry) == shared)


def _is_shared(entry: str) -> bool:
    names = re.findall(r"(?:^|, )(--?[a-z-]+)", entry.strip().split("  ")[0])
    return bool(GLOBAL.intersection(names))


def _help(command: tuple[str, ...]) -> str:
    said = io.StringIO()
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        with contextlib.redirect_stdout(said):
            invoke([*command, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width
    return "\n".join(line.rstrip() for line in said.getvalue().strip().splitlines())


def exit_status() -> str:
    rows = [
        f"| {number} | `{name}` | {sentence}. |"
        for number, kinds in meanings().items()
        for name, sentence in kinds
    ]
    return f"""# Exit statuses

Every failure is one line on stderr, and an exit status by its kind. With `--json` the kind is also in the
document on stdout ([json.md](json.md)).

| Status | Kind | Meaning |
|---:|---|---|
| 0 | | Done. |
{chr(10).join(rows)}
| 130 | | Interrupted: Ctrl-C, SIGTERM or SIGHUP. What was begun is undone as after any failure. |

An error that none of these names stands for (a defect in zbackup) ends with {ZbackupError.exit_status}
and asks for `--debug`. When a command works on several instances and some fail, the others are still done,
and the status is that of the first failure; after Ctrl-C what was done
before is printed. `zbackup check` ends with the status of the first critical
finding (with 1 where that has none of its own, such as a pool that lacks a disk), and
`zbackup received` and `zbackup fleet` with 1 when something is critical.
"""


def configuration() -> str:
    sections = [
        ("The top of the file", "", Settings, ("instance", "cluster", "daemon", "clones", "notify", "web")),
        ("`[daemon]`", Daemon.__doc__, Daemon, ()),
        ("`[notify]`", HealthNotify.__doc__, HealthNotify, ("webhook", "mail")),
        ("`[[notify.webhook]]`", Webhook.__doc__, Webhook, ()),
        ("`[[notify.mail]]`", Mail.__doc__, Mail, ()),
        ("`[clones]`", ClonePool.__doc__, ClonePool, ()),
        ("`[web]`", Web.__doc__, Web, ()),
        ("`[instance.NAME]`", "", Instance, SUB_TABLES),
        ("`[instance.NAME.tls]`", Tls.__doc__, Tls, ()),
        ("`[instance.NAME.lock]`", Lock.__doc__, Lock, ()),
        ("`[instance.NAME.recovery]`", RecoverySettings.__doc__, RecoverySettings, ()),
        ("`[instance.NAME.clones]`", CloneSettings.__doc__, CloneSettings, ()),
        ("`[instance.NAME.clones.replica]`", Replica.__doc__, Replica, ()),
        ("A step of `mask`", MaskSettings.__doc__, MaskSettings, ()),
        ("`[instance.NAME.copy_back]`", CopyBack.__doc__, CopyBack, ()),
        ("`[instance.NAME.retention]`", RetentionSettings.__doc__, RetentionSettings, ()),
        ("`[instance.NAME.schedule]`", Schedule.__doc__, Schedule, ()),
        ("`[instance.NAME.notify]`", Notify.__doc__, Notify, ()),
        ("`[instance.NAME.service]`", ServiceSettings.__doc__, ServiceSettings, ()),
        ("`[[instance.NAME.ship]]`", Ship.__doc__, Ship, ("ssh", "s3")),
        ("`[instance.NAME.ship.ssh]`", SshSettings.__doc__, SshSettings, ()),
        ("`[instance.NAME.ship.s3]`", S3.__doc__, S3, ()),
        ("`[cluster.NAME]`", ClusterSettings.__doc__, ClusterSettings, ()),
    ]
    text = """# Configuration

One TOML file, found at `--config FILE`, else `$ZBACKUP_CONFIG`, else `/etc/zbackup/config.toml`.
`config.example.toml` shows every setting. All problems are reported at once, each with file, line, key, what
was expected and what was found.

- A duration is written `"30s"`, `"5m"`, `"1h30m"` or `"500ms"`;
  a size `"256MiB"` or `"1GiB"` (powers of 1024).
- A retention rule is `"hourly"`, `"daily"`, `"weekly"`, `"monthly"`, `"quarterly"`, `"yearly"` or
  `"every 5 minutes"`, and then `"for 2 days"` or `"forever"`; a span of time is `"7 days"`.
- An instance's name has at most 40 of a-z, 0-9, `-` and `_`.
- A password is never written in the file. `password` says where it is:
  `{ file = "/etc/zbackup/NAME.password" }` (owned by root or the user who runs zbackup, mode 600;
  or root's, mode 640, with the daemon's group `zbackup`), `{ env = "NAME" }`,
  or `{ credential = "NAME" }` for systemd's `LoadCredential=NAME:...`. It is read only
  when zbackup connects, so a restore works without it.
- No dataset may belong to two instances.
"""
    for title, about, model, tables in sections:
        text += f"\n## {title}\n\n" + (f"{about}\n\n" if about else "")
        text += "| Key | Default | Meaning |\n|---|---|---|\n"
        text += "".join(_setting(name, model, tables) for name in model.model_fields)
    return text


def _setting(name: str, model: type[BaseModel], tables: tuple[str, ...]) -> str:
    if name in tables:
        return ""
    field = model.model_fields[name]
    words = (field.description or "").replace("|", "\\|")
    if choices := _choices(field.annotation):
        words += " (" + ", ".join(f"`{c}`" for c in choices) + ")"
    return f"| `{name}` | {_default(field.default, field.is_required(), name)} | {words} |\n"


def _choices(annotation: Any) -> tuple[str, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _default(value: object, required: bool, name: str) -> str:
    if required:
        return "required"
    if value is None or value is PydanticUndefined or value == ():
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`" if name == "max_share" else f'`"{value:g}s"`'
    if name in ("memory", "segment", "verify_read") and isinstance(value, int):
        return f'`"{_size(value)}"`'
    if isinstance(value, tuple):
        return '`"' + "-".join(map(str, value)) + '"`'
    return f"`{value}`" if isinstance(value, int) else f'`"{value}"`'


def _size(value: int) -> str:
    return f"{value // 1024**3}GiB" if value % 1024**3 == 0 else f"{value // 1024**2}MiB"


def write() -> None:
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
    sys.stdout.write(f"wrote {', '.join(pages())}\n")
