"""The configuration as text: tables of new instances behind what is there, which stays as it is. Pure."""

import re
from collections.abc import Iterator, Sequence

from zbackup.features.init.plan.presets import cost
from zbackup.features.init.setup import DestinationSetup, Newcomer
from zbackup.model.errors import Refused

HEADER = """\
# zbackup's configuration. `zbackup init` wrote it and adds new servers at its end. It changes nothing else.
# Every setting: zbackup.toml(5). After a change: zbackup check; systemctl reload zbackup

# Times without a zone ("2026-05-01 10:02") are read in this zone. Default: the machine's own.
# timezone = "Europe/Berlin"

# Whom the daemon tells of problems. Try it with: zbackup notify --test
# [[notify.webhook]]
# url = "https://ntfy.sh/our-databases"
# kind = "ntfy"
"""

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f\"\\]")


def quoted(text: str) -> str:
    """A TOML string. Raise Refused for what no TOML file can hold: bytes that are no UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode("utf-8", "backslashreplace").decode()
        raise Refused(f"{shown} is no UTF-8, and a configuration file can hold nothing else") from None
    return '"' + _CONTROL.sub(lambda c: _ESCAPES.get(c[0]) or f"\\u{ord(c[0]):04x}", text) + '"'


def listed(texts: Sequence[str]) -> str:
    """A TOML list of strings."""
    return f"[{', '.join(map(quoted, texts))}]"


def whole(existing: str, newcomers: Sequence[Newcomer]) -> str:
    """The text of the configuration with the new instances; `existing` is its beginning, unchanged."""
    if not newcomers:
        return existing
    begin = existing or HEADER
    gap = "" if begin.endswith("\n") else "\n"
    return begin + gap + "".join(f"\n{instance(each)}" for each in newcomers)


def instance(new: Newcomer) -> str:
    """The tables of one instance."""
    return "\n".join(_lines(new)) + "\n"


def _lines(new: Newcomer) -> Iterator[str]:
    server, table = new.server, f"instance.{new.name}"
    yield f"# {server.engine} {_said(server.version)}"
    yield f"[{table}]"
    yield f'engine = "{server.engine}"'
    yield f"datasets = {listed(new.datasets)}  # with everything below, in one atomic snapshot"
    if server.socket:
        yield f"socket = {quoted(server.socket)}"
    else:
        yield f"host = {quoted(server.host)}"
        yield f"port = {server.port}"
    if new.password:
        yield f'user = "{new.user}"  # may lock and look, and reads no row'
        yield f"password = {{ file = {quoted(new.password)} }}"
    yield 'lock = "auto"  # the gentlest that is exact'
    yield ""
    yield f"# {new.preset.name}: {new.preset.reach};"
    yield f"# {cost(new.preset)}."
    yield f"[{table}.retention]"
    yield "keep = ["
    yield from (f"    {quoted(rule)}," for rule in new.preset.keep)
    yield "]"
    yield f'window = "{new.preset.window}"  # every moment of these stays restorable'
    yield ""
    yield f"[{table}.schedule]"
    yield f'snapshot = "{new.preset.snapshot}"'
    yield f'prune = "{new.preset.prune}"'
    yield 'drill = "weekly"  # restore a backup, check its tables, remove it'
    if new.copies:
        yield f'ship = "{new.preset.snapshot}"'
        yield ""
        yield from _copies(table, new.copies)
    else:
        yield ""
        yield "# Snapshots on the server's own pool are lost with the pool. Copies on another host or pool:"
        yield f"# [[{table}.ship]]"
        yield '# to = "ssh://zrecv@backuphost/tank/backups/db1"'
    yield from _service(table, new)


def _copies(table: str, copies: DestinationSetup) -> Iterator[str]:
    yield f"[[{table}.ship]]"
    yield f"to = {quoted(copies.to)}"
    yield f"name = {quoted(copies.name)}"
    yield 'initial = "allow"  # the first copy sends everything'
    yield from (f"{key} = {value}" for key, value in copies.settings)
    if copies.table:
        yield f"[{table}.ship.{copies.kind}]"
        yield from (f"{key} = {value}" for key, value in copies.table)


def _service(table: str, new: Newcomer) -> Iterator[str]:
    if new.server.process.unit:
        yield ""
        yield "# How `zbackup switch` stops and starts the server."
        yield f"[{table}.service]"
        yield f"unit = {quoted(new.server.process.unit)}"
    yield ""
    yield "# `zbackup copy` writes tables back into production, by an account of its own, which may write:"
    yield f"# [{table}.copy_back]"


def _said(version: str) -> str:
    """Return what a server says of itself, harmless in a comment."""
    return (
        "".join(c for c in version if c.isascii() and c.isprintable())[:80]
        or "of a version that is not known"
    )
