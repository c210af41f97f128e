"""The effective configuration as pairs of a name and a text, for the web page.

A setting is shown if it is in one of the two lists below. Of any other, a new one too, the page shows only
that it is set.
"""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel

from zbackup.config.archive import Archive
from zbackup.config.clones import ClonePool, CloneSettings, MaskSettings, Replica
from zbackup.config.cluster import ClusterSettings
from zbackup.config.copying import CopyBack
from zbackup.config.lock import Lock
from zbackup.config.notify import HealthNotify, Mail, Webhook
from zbackup.config.recovery import RecoverySettings
from zbackup.config.retention import RetentionSettings
from zbackup.config.s3 import S3
from zbackup.config.schedule import Daemon, Notify, Schedule
from zbackup.config.secret import SecretRef
from zbackup.config.service import ServiceSettings
from zbackup.config.settings import Instance, Settings
from zbackup.config.ship import Ship, SshSettings
from zbackup.config.tls import Tls
from zbackup.config.web import Web

HIDDEN = "(hidden)"

HARMLESS: Final[dict[type[BaseModel], str]] = {
    Settings: "timezone run_dir",
    Daemon: "state_dir workers ships stop_limit watch helper drill_helper metrics",
    HealthNotify: "repeat",
    Webhook: "url kind severity",
    Mail: "to sender host port encryption user severity",
    ClonePool: "ports",
    Web: "readers clones fleet fleet_reports fleet_max_age",
    Instance: "engine datasets socket host port user auth_source auth_mechanism max_age plain_log",
    Tls: "ca cert key verify",
    Lock: "kind wait give_way hold long_query on_long_query kill applier_stop",
    RecoverySettings: "clones mountpoint workers memory stall login",
    CloneSettings: "memory lease quota reservation nice memory_max cpu_quota start own_root mask_limit warn",
    MaskSettings: "sql",
    Replica: "host port user",
    CopyBack: "user rate max_running max_lag replicas",
    RetentionSettings: "keep last minimum window",
    Schedule: "snapshot prune ship drill drill_limit jitter retry retry_max",
    Notify: "ping limit",
    ServiceSettings: "unit limit",
    Ship: "to name initial bandwidth prune max_lag grace verify verify_read drill",
    SshSettings: "identity known_hosts sudo alive",
    S3: "endpoint region profile path_style storage_class sse kms_key object_lock object_lock_days ca_file "
    "public_key connect_timeout read_timeout attempts segment uploads compression accept_plain "
    "accept_unbound full_every max_chain max_share",
    Archive: "to every",
    ClusterSettings: "config shards",
}
"""Settings that hold no secret: names, addresses of files and hosts, numbers. Of a URL the host is shown."""

PROGRAMS: Final[dict[type[BaseModel], str]] = {
    RecoverySettings: "server",
    CloneSettings: "on_warning",
    MaskSettings: "run",
    Notify: "on_success on_failure",
    ServiceSettings: "stop start",
}
"""Programs of the user's own, shown without their arguments: passwords and tokens stand among those."""


def effective(settings: Settings) -> tuple[tuple[str, str], ...]:
    """Every setting that has a value, defaults too, in the order of the reference."""
    return tuple(_table("", settings))


def _table(name: str, table: BaseModel) -> Iterator[tuple[str, str]]:
    kind = type(table)
    for field in kind.model_fields:
        value, called = getattr(table, field), f"{name}.{field}" if name else field
        if value is None or value == () or value == {}:
            continue
        if tables := list(_tables_in(called, value)):
            for each in tables:
                yield from _table(*each)
        elif field in PROGRAMS.get(kind, "").split():
            yield called, f"{value[0]}, {HIDDEN}" if value[1:] else value[0]
        elif isinstance(value, SecretRef) or field not in HARMLESS.get(kind, "").split():
            yield called, HIDDEN
        elif isinstance(value, dict):
            yield from ((f"{called}.{key}", _text(each)) for key, each in value.items())
        else:
            yield called, _text(value)


def _tables_in(name: str, value: Any) -> Iterator[tuple[str, BaseModel]]:
    """The tables below a setting, each with its name; none where it is no table."""
    if isinstance(value, BaseModel):
        yield name, value
    elif isinstance(value, dict):
        yield from ((f"{name}.{key}", each) for key, each in value.items() if isinstance(each, BaseModel))
    elif isinstance(value, tuple):
        tables = [each for each in value if isinstance(each, BaseModel)]
        yield from ((f"{name}.{getattr(each, 'label', at)}", each) for at, each in enumerate(tables))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    text = str(value)
    # The path of such an address is often a key: whoever has it may call it.
    parts = urlsplit(text) if text.lower().startswith(("http://", "https://")) else None
    return f"{parts.scheme}://{parts.hostname}/{HIDDEN}" if parts else text
