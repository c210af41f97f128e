"""The rules about what destinations demand of each other and of the instance. Looked at in the raw tables."""

from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticCustomError

from zbackup.config.lines import Problem
from zbackup.config.ship import DestinationAddress, S3Address, default_name, parse_address
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
