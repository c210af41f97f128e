"""The rules about what one setting demands of another.

Looked at in the raw tables, so that it is said together with all other problems.
"""

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any
from urllib.parse import urlsplit

from pydantic_core import PydanticCustomError

from zbackup.config.archive import of_archive
from zbackup.config.cluster import of_clusters
from zbackup.config.lines import Path_, Problem
from zbackup.config.schedule import url_is_valid
from zbackup.config.ship import DestinationAddress, S3Address, default_name, parse_address
from zbackup.config.units import instance_name_is_valid
from zbackup.model.schedule import parted


def of_ship(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    """Names that are taken, and a destination that would receive into what it is a copy of."""
    rows = table.get("ship")
    rows = rows if isinstance(rows, list) else []
    seen: dict[str, int] = {}
    for number, row in enumerate(rows):
        to = _address(row.get("to")) if isinstance(row, dict) else None
        if to is None:
            continue
        name = row.get("name") or default_name(to)
        if name in seen:
            yield (
                ("ship", number, "name"),
                f'"{name}" is the name of another destination: give it one of its own',
            )
        seen.setdefault(name, number)
        yield from ((("ship", number, *where), text) for where, text in _bucket_alone(row, to))
        if "prune" in row and not _has_rules(row.get("retention")):
            yield (
                ("ship", number, "prune"),
                "nothing says what is kept there, so nothing would go: add retention = { keep = [...] }",
            )
        if isinstance(to, S3Address) or to.host:
            continue
        yield from ((("ship", number, "to"), text) for text in _overlaps(to.dataset, table))
    schedule = table.get("schedule")
    if isinstance(schedule, dict) and "ship" in schedule and not rows:
        yield ("schedule", "ship"), "there is nothing to ship to: add [[instance.NAME.ship]]"


def of_pings(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    """A URL that nobody would ever call."""
    notify, rows = table.get("notify"), table.get("ship")
    pings = notify.get("ping") if isinstance(notify, dict) else None
    rows = rows if isinstance(rows, list) else []
    addresses = [(row, _address(row.get("to"))) for row in rows if isinstance(row, dict)]
    known = [row.get("name") or default_name(to) for row, to in addresses if to]
    for job in pings if isinstance(pings, dict) else ():
        kind, destination = parted(job)
        # Any other word is refused as it is; it may be a URL in the place of the job.
        if kind in ("prune", "verify", "drill") and destination and destination not in known:
            yield ("notify", "ping", job), f'there is no destination "{destination}"'


def _has_rules(retention: object) -> bool:
    return isinstance(retention, dict) and bool(retention.get("keep") or retention.get("last"))


PAIRS = (("access_key", "secret_key"), ("object_lock", "object_lock_days"))


def _bucket_alone(row: dict[str, Any], to: DestinationAddress) -> Iterator[Problem]:
    """What only a bucket has, and what comes in pairs."""
    table = row.get("s3")
    if not isinstance(table, dict):
        return
    if not isinstance(to, S3Address):
        yield ("s3",), f"{to} is no bucket: only s3://... has these settings"
    for one, other in PAIRS:
        for given, missing in ((one, other), (other, one)):
            if given in table and missing not in table:
                yield ("s3", given), f"{missing} is missing: they belong together"

    if table.get("public_key") and not table.get("key"):
        yield (
            ("s3", "public_key"),
            "key is missing, which signs the backups: make one with: openssl rand -base64 32",
        )
    if table.get("old_keys") and not table.get("key") and table.get("accept_plain") is not True:
        yield (
            ("s3", "old_keys"),
            "key is missing, so that new backups are plain: is accept_plain = true meant?",
        )


def _address(value: object) -> DestinationAddress | None:
    try:
        return parse_address(value)
    except PydanticCustomError:
        return None


def _overlaps(target: str, table: dict[str, Any]) -> Iterator[str]:
    datasets = table.get("datasets")
    for mine in datasets if isinstance(datasets, list) else []:
        if isinstance(mine, str) and f"{target}/".startswith(f"{mine}/"):
            yield f'"{target}" is inside the instance\'s own "{mine}"'


MONGODB_ONLY = ("uri", "auth_source", "auth_mechanism")
INSTEAD_OF_URI = ("socket", "host", "port", "user", "password", "auth_source")
LOCKS = {"mongodb": ("auto", "fsync", "none")}
OTHER_LOCKS = ("auto", "ftwrl", "backup-stage", "backup-lock", "none")
SQL_LOCK_KEYS = ("give_way", "kill", "applier_stop")


def of_engine(_: str, table: dict[str, Any]) -> Iterator[Problem]:
    """Settings that the instance's kind of server does not know."""
    engine, lock = table.get("engine"), table.get("lock")
    mongodb = engine == "mongodb"
    lock = {"kind": lock} if isinstance(lock, str) else lock
    if not mongodb:
        yield from (((key,), "has a meaning for mongodb only") for key in MONGODB_ONLY if key in table)
        if isinstance(recovery := table.get("recovery"), dict) and "login" in recovery:
            yield ("recovery", "login"), "has a meaning for mongodb only"
    if isinstance(lock, dict):
        yield from _lock(lock, mongodb=mongodb)
    yield from _masking(table.get("clones"), mongodb=mongodb)
    if mongodb and "plain_log" in table:
        yield ("plain_log",), "has no meaning for mongodb"
    if mongodb:
        yield from _one_way_to_a_mongod(table)


def _lock(lock: dict[str, Any], *, mongodb: bool) -> Iterator[Problem]:
    kinds, kind = LOCKS["mongodb"] if mongodb else OTHER_LOCKS, lock.get("kind")
    if kind in (*LOCKS["mongodb"], *OTHER_LOCKS) and kind not in kinds:
        yield ("lock", "kind"), f"expected {', '.join(kinds)} for this engine, got {kind}"
    if mongodb:
        yield from ((("lock", key), "has no meaning for mongodb") for key in SQL_LOCK_KEYS if key in lock)
        if lock.get("on_long_query") == "kill":
            yield (
                ("lock", "on_long_query"),
                "expected wait or abort: zbackup ends no transactions of mongodb's",
            )


def _masking(clones: object, *, mongodb: bool) -> Iterator[Problem]:
    steps = clones.get("mask") if isinstance(clones, dict) else None
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if not isinstance(step, dict):
            continue
        path: Path_ = ("clones", "mask", number)
        if ("sql" in step) == ("run" in step):
            yield path, "expected either sql or run"
        elif "sql" in step and mongodb:
            yield path, "mongodb knows no SQL: expected run"


def _one_way_to_a_mongod(table: dict[str, Any]) -> Iterator[Problem]:
    if "uri" in table:
        yield from (
            ((key,), "is part of the uri, or instead of it: expected one of them")
            for key in INSTEAD_OF_URI
            if key in table
        )
    if "socket" in table:
        yield from (
            ((key,), "has no meaning with a socket") for key in ("host", "port", "tls") if key in table
        )
    tls = table.get("tls")
    if isinstance(tls, dict) and "key" in tls:
        yield (
            ("tls", "key"),
            "mongodb wants certificate and key in one file: cat both into that named by cert",
        )
    if table.get("auth_mechanism") == "MONGODB-X509":
        if not isinstance(tls, dict) or "cert" not in tls:
            yield ("auth_mechanism",), "logs in by a client certificate: name it in tls.cert"
        if "password" in table:
            yield ("password",), "has no meaning when a certificate logs in"


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
