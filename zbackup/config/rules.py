"""The rules about what one setting demands of another.

Looked at in the raw tables, so that it is said together with all other problems.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

from zbackup.config.archive import of_archive
from zbackup.config.cluster import of_clusters
from zbackup.config.engine_rules import of_engine
from zbackup.config.lines import Path_, Problem
from zbackup.config.schedule import url_is_valid
from zbackup.config.ship_rules import of_pings, of_ship
from zbackup.config.units import instance_name_is_valid

_CLONES: Path_ = ("recovery", "clones")


def broken_rules(raw: dict[str, Any]) -> list[Problem]:
    """Every contradiction in the file, as key path and explanation."""
    instances = raw.get("instance")
    if not isinstance(instances, dict):
        return [*_mail(raw), *_webhooks(raw)]
    tables = {name: table for name, table in instances.items() if isinstance(table, dict)}
    found: list[Problem] = [*_mail(raw), *_webhooks(raw)]
    if not instances:
        found.append((("instance",), "no instance; there must be at least one [instance.NAME] table"))
    for name, table in tables.items():
        found += [(("instance", name, *path), text) for rule in _RULES for path, text in rule(name, table)]
    return [*found, *_shared_datasets(tables), *of_clusters(raw, tables)]


_THIS_HOST = ("localhost", "127.0.0.1", "::1")


def crosses_in_the_clear(url: str) -> bool:
    """Whether what is sent to this URL, which is one, goes over a network unencrypted."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _THIS_HOST


def _told(raw: dict[str, Any], kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The tables of that kind below [notify], numbered."""
    notify = raw.get("notify")
    rows = notify.get(kind) if isinstance(notify, dict) else None
    for number, row in enumerate(rows if isinstance(rows, list) else []):
        if isinstance(row, dict):
            yield number, row


def _webhooks(raw: dict[str, Any]) -> Iterator[Problem]:
    for number, row in _told(raw, "webhook"):
        url = row.get("url")
        if row.get("token") and isinstance(url, str) and url_is_valid(url) and crosses_in_the_clear(url):
            text = "expected https: the token would cross the network in the clear"
            yield ("notify", "webhook", number, "url"), text


def _mail(raw: dict[str, Any]) -> Iterator[Problem]:
    for number, row in _told(raw, "mail"):
        if row.get("host", "localhost") in _THIS_HOST:
            continue
        if row.get("user") and row.get("encryption", "none") == "none":
            text = 'expected "starttls" or "tls": the password would cross the network in the clear'
            yield ("notify", "mail", number, "encryption"), text


def _name(name: str, _: dict[str, Any]) -> Iterator[Problem]:
    if not instance_name_is_valid(name):
        yield (), "expected a name of at most 40 of a-z, 0-9, - and _, beginning with a letter or digit"


def _one_way_to_connect(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    if table.get("engine") == "mongodb":
        return
    if "socket" in table and "host" in table:
        yield ("host",), "expected either socket or host, got both"
    if "host" not in table:
        yield from (((key,), "has no meaning without host") for key in ("port", "tls") if key in table)


def _client_certificate(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    tls = table.get("tls")
    if table.get("engine") != "mongodb" and isinstance(tls, dict) and ("cert" in tls) != ("key" in tls):
        yield ("tls",), "expected cert and key together, got one of them"


def _datasets_once(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    names = _names(table)
    for outer, inner in combinations(sorted(names, key=len), 2):
        if inside(inner, outer):
            text = f'"{inner}" is listed, but comes with "{outer}" already'
            yield ("datasets", names.index(inner)), text


def _clones_beside(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    """Clones stay on their pool, and the dataset they are below is not also above the instance's own."""
    recovery = table.get("recovery")
    clones = recovery.get("clones") if isinstance(recovery, dict) else None
    for name in _names(table):
        pool = name.partition("/")[0]
        root = clones if isinstance(clones, str) else f"{pool}/zbackup"
        if root.partition("/")[0] != pool:
            yield _CLONES, f'"{root}" is on another pool than "{name}": a clone cannot leave its pool'
        elif inside(name, root):
            yield _CLONES, f'clones would go below "{root}", where the instance\'s own "{name}" is'


def _service(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    service = table.get("service")
    if not isinstance(service, dict):
        return
    if "unit" in service and ("stop" in service or "start" in service):
        yield ("service",), "expected either unit, or stop and start, got both"
    elif "unit" not in service and not ("stop" in service and "start" in service):
        yield ("service",), "expected unit, or stop and start"


_RULES: tuple[Callable[[str, dict[str, Any]], Iterator[Problem]], ...] = (
    _name,
    _one_way_to_connect,
    _client_certificate,
    of_engine,
    _datasets_once,
    _clones_beside,
    _service,
    of_ship,
    of_archive,
    of_pings,
)


def _shared_datasets(tables: dict[str, dict[str, Any]]) -> Iterator[Problem]:
    """Two instances on one dataset would take each other's snapshots for their own."""
    for (first, one), (second, two) in combinations(tables.items(), 2):
        for index, mine in enumerate(_names(two)):
            for theirs in _names(one):
                if inside(mine, theirs) or inside(theirs, mine):
                    path: Path_ = ("instance", second, "datasets", index)
                    yield path, f'"{mine}" overlaps "{theirs}" of instance {first}'


def _names(table: dict[str, Any]) -> list[str]:
    names = table.get("datasets")
    return [n for n in names if isinstance(n, str)] if isinstance(names, list) else []


def inside(dataset: str, other: str) -> bool:
    """Whether `dataset` is `other` or one of its descendants."""
    return dataset == other or dataset.startswith(other + "/")
