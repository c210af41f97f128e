"""Decide what the holder of a key may run on the host that receives its backups. Pure: no shell, no ZFS, no
clock.

A command is allowed only when it has exactly one of the shapes below: every option, value and name is on a
list, and nothing is passed on that was not recognised. What an append-only key may do adds to what is there,
and can neither destroy, overwrite, rename, mount or share it, nor change what a committed backup says of
itself.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from zbackup.model.archive_order import LOG, LOG_COMMAND, LogOrder, parse_log_order
from zbackup.model.errors import Refused
from zbackup.model.record import PREFIX, PROPERTIES
from zbackup.model.retention import CONDEMNED
from zbackup.model.shipping import COMMITTED, CONTAINER, LONG_PARTS, PARTS, RECEIVED

LONGEST = 120_000
"""Characters of a command; what is passed on must fit into one argument list (execve(2))."""

NOT_RECEIVED = frozenset({"mountpoint"})
"""Properties that must be left out of every stream."""

Power = Literal["receive", "read", "destroy"]
POWERS: Mapping[str | None, frozenset[Power]] = {
    None: frozenset({"receive", "read", "destroy"}),
    "--append-only": frozenset({"receive"}),
    "--read-only": frozenset({"read"}),
}
"""The powers of a key by the option of `zbackup gate`, None for none."""

Kind = Literal["run", "receive", "mark", "resume", "log"]

_PART = r"(?!\.{1,2}(?:/|$))[A-Za-z0-9_.: -]+"
_DATASET = re.compile(rf"{_PART}(?:/{_PART})*")
_SHORT = re.compile(r"[A-Za-z0-9_.: -]+")
_COLUMNS = re.compile(r"[a-z][a-z0-9_:.]*(?:,[a-z][a-z0-9_:.]*)*")
_TYPES = re.compile(r"(?:filesystem|volume|snapshot|bookmark)(?:,(?:filesystem|volume|snapshot|bookmark))*")
_SOURCES = re.compile(r"(?:local|received)(?:,(?:local|received))*")
_TOKEN = re.compile(r"[0-9a-f]+(?:-[0-9a-f]+){2,3}")
_MARKS = re.compile(rf"{PREFIX}(?P<name>[a-z_]+)(?:\.(?:parts|[0-9]{{1,3}}))?")
_OF_COMMIT = frozenset({COMMITTED, PARTS, *LONG_PARTS})
_LONGEST_NAME, _LONGEST_VALUE = 255, 8191

_VALUES: Mapping[str, re.Pattern[str]] = {
    "-o": _COLUMNS,
    "-t": _TYPES,
    "-s": re.compile(rf"{_SOURCES.pattern}|createtxg|name|creation"),
    "-d": re.compile(r"[0-9]{1,2}"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Below which dataset, and what: add backups, read them, destroy single snapshots."""

    root: str
    powers: frozenset[Power]

    def __post_init__(self) -> None:
        good = _DATASET.fullmatch(self.root) and self.root[0].isalpha()
        if not good or len(self.root) > _LONGEST_NAME:
            raise Refused(f"{self.root} is not the name of a dataset")


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOrder:
    """A command that may be run, as it stands. `kind` says what has still to be looked at when it is:

    run: nothing. receive: the head of the stream, see zbackup.plan.ship.accept_stream. mark: `snapshots` must
    not be committed yet, see still_to_mark. resume: what the token is of has to lie below the root. log: this
    is no program, but done by the gate itself, see `log`.
    """

    argv: tuple[str, ...]
    kind: Kind = "run"
    snapshots: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    changes: bool = False
    log: LogOrder | None = None


def decide(line: str, policy: Policy) -> GateOrder:
    """Decide what to run for the command that came over ssh.

    Raise Refused, in one line, for everything else.
    """
    words = _words(line)
    if words[0] == LOG_COMMAND:
        return _archiving(tuple(words), policy)
    if words[0] != "zfs" or len(words) < 2:
        raise _refused(f"command {_shown(words[0])} is not allowed: this key may run zfs only")
    shape = _SHAPES.get(words[1])
    if shape is None:
        raise _refused(f"zfs {_shown(words[1])} is not allowed")
    power, read = shape
    if power is not None and power not in policy.powers:
        raise _refused(f"zfs {words[1]} is not allowed for this key")
    return read(tuple(words), policy)


def still_to_mark(order: GateOrder, present: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """The argv for those snapshots of a "mark" order that are not marked yet; () when all are marked so.

    `present` has the user properties that each has now. Raise Refused when one that is committed would be
    changed by it. To repeat a commit that was cut short changes nothing.
    """
    wanted = dict(order.properties)
    if wanted.keys() == {CONDEMNED}:
        return order.argv
    left = [s for s in order.snapshots if COMMITTED not in present.get(s, {})]
    for snapshot in order.snapshots:
        has = present.get(snapshot, {})
        if snapshot not in left and any(has.get(k) != v for k, v in wanted.items() if k != COMMITTED):
            raise _refused(f"{snapshot} is committed, and what it says stays as it is")
    return ("zfs", "set", *(f"{k}={v}" for k, v in wanted.items()), *left) if left else ()


def require_below(said: str, policy: Policy) -> None:
    """`said` is what `zfs send -nvP -t TOKEN` says it would send. Raise Refused when that lies elsewhere."""
    rows = [line.split("\t") for line in said.split("\n")]
    sent = [row[1] for row in rows if row[0] == "full" and len(row) == 3]
    sent += [row[2] for row in rows if row[0] == "incremental" and len(row) == 4]
    named = re.findall(r"^\s*toname = (.+)$", said, flags=re.M)
    if len(sent) != 1 or len(named) != 1:
        raise _refused("the resume token's dataset could not be determined")
    for name in (*sent, *named):
        _require_name(name, policy, "@", "@")


def _words(line: str) -> list[str]:
    if len(line) > LONGEST:
        raise _refused(f"a command of {len(line)} characters")
    if not line.isprintable():  # no line breaks, no control characters, no bytes that are not UTF-8
        raise _refused("a command with characters that cannot be shown")
    try:
        words = shlex.split(line)
    except ValueError as unbalanced:
        raise _refused(f"a command that cannot be read: {unbalanced}") from unbalanced
    if not words:
        raise _refused("an interactive login was asked for; this key runs only the zfs commands of zbackup")
    return words


# the shapes


def _reading(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zfs list [-Hpr] [-t TYPES] [-o COLUMNS] [-s COLUMN] [-d N] -- NAME..., and zfs get with a PROPERTY."""
    rest = _after_options(words, "Hpr", ("-o", "-t", "-s", "-d"))
    if words[1] == "get":
        if not rest or not _COLUMNS.fullmatch(rest[0]):
            raise _refused("zfs get without the name of a property")
        rest = rest[1:]
    names = rest[1:] if rest[:1] == ("--",) else rest
    if not names:
        raise _refused(f"zfs {words[1]} without the name of a dataset")
    for name in names:
        _require_name(name, policy, "", "@", "#", root=True)
    return GateOrder(argv=words)


def _after_options(words: tuple[str, ...], flags: str, valued: tuple[str, ...]) -> tuple[str, ...]:
    """What comes behind the options, each of which must be known, with a known value."""
    number = 2
    while number < len(words) and words[number].startswith("-") and words[number] != "--":
        word = words[number]
        if word in valued:
            value = words[number + 1] if number + 1 < len(words) else ""
            if not _VALUES[word].fullmatch(value):
                raise _refused(f"zfs {words[1]} {word} {_shown(value)}")
            number += 2
        elif re.fullmatch(rf"-[{flags}]+", word):
            number += 1
        else:
            raise _refused(f"zfs {words[1]} {_shown(word)}")
    return words[number:]


def _receiving(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zfs receive -s -u -o PROPERTY=VALUE... -x PROPERTY... -- DATASET, or zfs receive -A -- DATASET."""
    if words[:4] == ("zfs", "receive", "-A", "--") and len(words) == 5:
        _require_name(words[4], policy, "")
        return GateOrder(argv=words, changes=True)
    if words[:4] != ("zfs", "receive", "-s", "-u"):
        raise _refused("zfs receive without -s -u, or with other options")
    options, names = _pairs(words[4:])
    for option, value in options:
        key, _, setting = value.partition("=")
        if not (
            (option == "-x" and value in NOT_RECEIVED) or (option == "-o" and RECEIVED.get(key) == setting)
        ):
            raise _refused(f"zfs receive {option} {_shown(value)}")
    lacking = [f"-x {name}" for name in NOT_RECEIVED if ("-x", name) not in options]
    lacking += [f"-o {k}={v}" for k, v in RECEIVED.items() if ("-o", f"{k}={v}") not in options]
    if lacking:
        raise _refused(f"zfs receive without {lacking[0]}")
    _require_one(names, policy, "")
    _require_no_log(names[0], policy)
    return GateOrder(argv=words, kind="receive", changes=True)


def _creating(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zfs create -u -o canmount=off -o mountpoint=none -o readonly=on -- DATASET"""
    if words[2:3] != ("-u",):
        raise _refused("zfs create without -u")
    options, names = _pairs(words[3:])
    if sorted(options) != sorted(("-o", f"{key}={value}") for key, value in CONTAINER.items()):
        raise _refused("zfs create with other properties than those of a container")
    _require_one(names, policy, "")
    _require_no_log(names[0], policy)
    return GateOrder(argv=words, changes=True)


def _marking(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zfs set zbackup:NAME=VALUE... SNAPSHOT..."""
    number = next((n for n, w in enumerate(words) if n > 1 and "=" not in w), len(words))
    properties = []
    for word in words[2:number]:
        key, _, value = word.partition("=")
        mark = _MARKS.fullmatch(key)
        known = mark is not None and (mark["name"] in PROPERTIES or key in _OF_COMMIT)
        known = known or (key == CONDEMNED and "destroy" in policy.powers)
        if not known or not value or len(value.encode()) > _LONGEST_VALUE:
            raise _refused(f"zfs set {_shown(key)}")
        properties.append((key, value))
    names = words[number:]
    if not properties or not names or len(set(names)) != len(names):
        raise _refused("zfs set without properties or without snapshots")
    for name in names:
        _require_name(name, policy, "@")
    return GateOrder(
        argv=words, kind="mark", snapshots=tuple(names), properties=tuple(properties), changes=True
    )


def _sending(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zfs send [-nvP] [-w] [-L] [-e] [-c] [-i ORIGIN] -- SNAPSHOT, or zfs send [-nvP] -t TOKEN."""
    rest = list(words[2:])
    while rest and re.fullmatch(r"-[nvPwLec]+", rest[0]):
        rest.pop(0)
    if rest[:1] == ["-t"]:
        if len(rest) != 2 or not _TOKEN.fullmatch(rest[1]):
            raise _refused("zfs send -t with something that is not a token")
        return GateOrder(argv=words, kind="resume")
    if rest[:1] == ["-i"]:
        _require_one(tuple(rest[1:2]), policy, "@", "#")
        rest = rest[2:]
    if rest[:1] == ["--"]:
        rest.pop(0)
    _require_one(tuple(rest), policy, "@")
    return GateOrder(argv=words)


def _destroying(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zfs destroy SNAPSHOT: one, by its name."""
    _require_one(words[2:], policy, "@")
    return GateOrder(argv=words, changes=True)


def _archiving(words: tuple[str, ...], policy: Policy) -> GateOrder:
    """zbackup-log VERB DATASET ...: see zbackup.model.archive_order."""
    try:
        order = parse_log_order(words[1:])
    except ValueError as wrong:
        raise _refused(f"{LOG_COMMAND}: {wrong}") from wrong
    power = _LOG_POWERS[order.verb]
    if power is not None and power not in policy.powers:
        raise _refused(f"{LOG_COMMAND} {order.verb} is not allowed for this key")
    _require_name(order.home, policy, "")
    return GateOrder(argv=words, kind="log", changes=order.changes, log=order)


def _pairs(words: tuple[str, ...]) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Options that have a value each, and what comes behind them and `--`."""
    found = []
    while len(words) > 1 and words[0] in ("-o", "-x"):
        found.append((words[0], words[1]))
        words = words[2:]
    return found, words[1:] if words[:1] == ("--",) else words


def _require_one(names: Sequence[str], policy: Policy, *signs: str) -> None:
    if len(names) != 1:
        raise _refused("exactly one name is needed at the end")
    _require_name(names[0], policy, *signs)


def _require_no_log(name: str, policy: Policy) -> None:
    """The dataset of an instance's log archive is made by the gate alone."""
    if name.removeprefix(f"{policy.root}/").split("/")[1:2] == [LOG]:
        raise _refused(f"{_shown(name)} is where a log archive lies")


def _require_name(name: str, policy: Policy, *signs: str, root: bool = False) -> None:
    """A dataset ("" is one of `signs`), snapshot ("@") or bookmark ("#") below the root.

    `root`: or of the root itself.
    """
    found = re.fullmatch(r"([^@#]*)([@#]?)(.*)", name)
    dataset, sign, short = found.groups() if found else ("", "?", "")
    well_formed = (
        sign in signs
        and _DATASET.fullmatch(dataset)
        and (_SHORT.fullmatch(short) if sign else not short)
        and len(name) <= _LONGEST_NAME
    )
    if not well_formed:
        raise _refused(f"{_shown(name)} is not a name that is allowed here")
    if not (dataset.startswith(f"{policy.root}/") or (root and dataset == policy.root)):
        raise _refused(f"{_shown(name)} is not below {policy.root}")


def _refused(what: str) -> Refused:
    return Refused(f"refused by the gate: {what}")


def _shown(text: str) -> str:
    """Somebody else's text, short and harmless in a log and on a terminal."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


_LOG_POWERS: Mapping[str, Power | None] = {
    "list": None,
    "claim": "receive",
    "append": "receive",
    "read": "read",
    "remove": "destroy",
}

_SHAPES: Mapping[str, tuple[Power | None, Callable[[tuple[str, ...], Policy], GateOrder]]] = {
    "list": (None, _reading),
    "get": (None, _reading),
    "receive": ("receive", _receiving),
    "create": ("receive", _creating),
    "set": ("receive", _marking),
    "send": ("read", _sending),
    "destroy": ("destroy", _destroying),
}
