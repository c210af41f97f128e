"""From what was found and what was asked for to new instances, and the text of the configuration with
them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zbackup.config.settings import Settings
from zbackup.config.ship import S3Address, ZfsAddress, parse_address
from zbackup.config.units import instance_name_is_valid
from zbackup.features.init import questions as questions
from zbackup.features.init.jobs.accounts import mountpoints
from zbackup.features.init.jobs.discover import is_ordinary
from zbackup.features.init.options import BucketAnswers, Wishes
from zbackup.features.init.plan.config_text import quoted
from zbackup.features.init.plan.placement import datasets, name_for, proposals
from zbackup.features.init.plan.presets import USUAL, preset
from zbackup.features.init.setup import DestinationSetup, FoundServer, Newcomer
from zbackup.model.errors import NotFound, Refused, UsageError
from zbackup.zfs.datasets import Zfs


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The new instances; `problems` are servers that cannot be protected as they are, `left` says of others
    why nobody protects them, `advice` what would be better. `secret_key` is that of the bucket, if one was
    told."""

    newcomers: tuple[Newcomer, ...]
    problems: tuple[Refused, ...]
    advice: tuple[str, ...]
    left: tuple[str, ...] = ()
    secret_key: str = ""


def draft(
    wishes: Wishes,
    servers: tuple[FoundServer, ...],
    known: Mapping[str, str],
    settings: Settings | None,
    directory: Path,
    zfs: Zfs,
    *,
    ask: bool,
) -> Draft:
    """Decide who comes new. Raise NotFound for a server that was named and is not there, or UsageError."""
    fresh = [server for server in _wanted(wishes, servers) if server.where not in known]
    mounted = mountpoints(zfs, [home for server in fresh for home in server.homes.values()])
    taken = [*(settings.instance if settings else ())]
    chosen: list[_Chosen] = []
    problems, advice = [], []
    left = [_why_left(wishes, each) for each in servers if each.where not in known and each not in fresh]
    for server in fresh:
        try:
            wanted = datasets(server, mounted)
        except Refused as problem:
            problems.append(problem)
            continue
        name = wishes.named.get(server.where) or name_for(server, wanted, taken)
        if ask:
            name = questions.name(name, f"{server.where} on {', '.join(wanted)}", taken)
        elif name in taken:
            raise UsageError(
                f'there is an instance "{name}" already, and it is another server: choose another name'
            )
        if not name:
            left.append(f"{server.where}: left out")
        else:
            taken.append(name)
            chosen.append(_Chosen(name, server, wanted))
            advice += [f"{name}: {text}" for text in proposals(server, wanted, mounted)]
    newcomers, secret_key = _newcomers(wishes, chosen, directory, ask=ask) if chosen else ((), "")
    return Draft(
        newcomers=newcomers,
        problems=tuple(problems),
        advice=tuple(advice),
        left=tuple(left),
        secret_key=secret_key,
    )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """A server that is to be protected, under this name, with the datasets that it lies on."""

    name: str
    server: FoundServer
    datasets: tuple[str, ...]


def _newcomers(
    wishes: Wishes, chosen: list[_Chosen], directory: Path, *, ask: bool
) -> tuple[tuple[Newcomer, ...], str]:
    """The new instances, with what is asked of all of them at once; and the bucket's secret key."""
    kept = preset(wishes.retention or (questions.retention() if ask else USUAL.name))
    to = wishes.copies or (questions.copies() if ask else "")
    bucket = wishes.bucket
    if ask and not wishes.copies and to and questions.in_bucket(to):
        bucket = questions.bucket()
    newcomers = (
        Newcomer(
            name=each.name,
            server=each.server,
            datasets=each.datasets,
            preset=kept,
            password="" if each.server.login == "open" else str(directory / f"{each.name}.password"),
            copies=_copies(to, directory, each.name, bucket, host_key=bool(wishes.host_key)) if to else None,
        )
        for each in chosen
    )
    return tuple(newcomers), bucket.secret_key


def _wanted(wishes: Wishes, servers: tuple[FoundServer, ...]) -> Iterator[FoundServer]:
    """The servers that are named, else all; an ordinary user's only when it is named, and where nobody is
    asked one that no unit of systemd started as well."""
    for where in wishes.named:
        if where not in [server.where for server in servers]:
            there = ", ".join(server.where for server in servers) or "none"
            raise NotFound(f"no database server runs at {where}; found: {there}")
    for server in servers:
        if server.where in wishes.named if wishes.named else is_taken(server, yes=wishes.yes):
            yield server


def is_taken(server: FoundServer, *, yes: bool) -> bool:
    """Whether a server that nobody named is to be protected."""
    return not is_ordinary(server) and (bool(server.process.unit) or not yes)


def _why_left(wishes: Wishes, server: FoundServer) -> str:
    if wishes.named:
        return f"{server.where}: not named"
    user = server.process.user
    who = f"the ordinary user {user} runs it" if is_ordinary(server) else f"{user} runs it outside any unit"
    return f"{server.where}: {who}; name it to protect it: --instance NAME={server.where}"


def named(words: list[str]) -> dict[str, str]:
    """Parse NAME=WHERE: where -> name. Raise UsageError."""
    found = {}
    for word in words:
        name, equals, where = word.partition("=")
        if not equals or not where or not instance_name_is_valid(name):
            raise UsageError(
                f'"{word}" is not NAME=WHERE: a name is up to 40 of a-z, 0-9, - and _, and WHERE is a '
                "socket, or "
                'host:port, such as "shop=/run/mysqld/mysqld.sock"'
            )
        found[where] = name
    if len(set(found.values())) < len(words):
        raise UsageError("each --instance needs a name and a server of its own")
    return found


def _copies(
    text: str, directory: Path, name: str, bucket: BucketAnswers, *, host_key: bool
) -> DestinationSetup:
    """The table of a destination: where its keys are follows from its name."""
    match parse_address(text):
        case ZfsAddress(host=""):
            return DestinationSetup(to=text, name="copies")
        case S3Address():
            return DestinationSetup(
                to=text, name="offsite", kind="s3", table=tuple(_bucket(directory, name, bucket))
            )
        case _:
            table = [("identity", quoted(str(directory / "offsite.sshkey")))]
            if host_key:
                table.append(("known_hosts", quoted(str(directory / "offsite.known_hosts"))))
            return DestinationSetup(to=text, name="offsite", kind="ssh", table=tuple(table))


def _bucket(directory: Path, name: str, bucket: BucketAnswers) -> Iterator[tuple[str, str]]:
    if bucket.endpoint:
        yield "endpoint", quoted(bucket.endpoint)
        yield "path_style", "true"
    if bucket.access_key:
        yield "access_key", quoted(bucket.access_key)
        yield "secret_key", f"{{ file = {quoted(str(directory / f'{name}.s3-secret'))} }}"
    yield "key", f"{{ file = {quoted(str(directory / f'{name}.key'))} }}"
    if bucket.public_key:
        yield "public_key", quoted(bucket.public_key)


def known_hosts_line(to: str, key: str) -> str:
    """The line for the host of an address: [host]:port where the port is another than ssh's own (sshd(8))."""
    there = parse_address(to)
    if not isinstance(there, ZfsAddress) or not there.host:
        raise UsageError("--host-key is for copies by ssh")
    at = f"[{there.host}]:{there.port}" if there.port not in (0, 22) else there.host
    return f"{at} {key}\n"


def with_known_host(there: str, line: str) -> str:
    """The text of known_hosts with a line, once; what is there stays: other instances go to other hosts."""
    if line.strip() in there.splitlines():
        return there
    gap = "" if not there or there.endswith("\n") else "\n"
    return f"{there}{gap}{line}"
