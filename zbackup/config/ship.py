"""The addresses that backups are shipped to, as people write them: "ssh://backup@host/tank",
"zfs:otherpool/path"."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import unquote, urlsplit

from pydantic import BeforeValidator, Field, StrictBool

from zbackup.config import units
from zbackup.config.retention import RetentionSettings
from zbackup.config.s3 import S3
from zbackup.config.schedule import When
from zbackup.config.table import SettingsTable

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9_.-]+)?\]")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_S3 = re.compile(
    r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:/(?P<prefix>[A-Za-z0-9!_.*'()/-]{0,200}))?"
)
_BUCKETS = 'an address such as "s3://bucket/prefix" (a bucket is 3 to 63 of a-z, 0-9, - and .)'
_ADDRESSES = (
    'an address such as "ssh://backup@host/tank/backups", "zfs:otherpool/backups" or "s3://bucket/prefix"'
)
_OPTION = re.compile(r"[^\x00-\x1f\x7f]+")

ALL, NONE = "all", "none"
"""Amounts of data that a verification reads, other than a size."""

OPTIONS = (
    "AddressFamily",
    "BindAddress",
    "BindInterface",
    "CASignatureAlgorithms",
    "CertificateFile",
    "Ciphers",
    "Compression",
    "HostKeyAlgorithms",
    "HostKeyAlias",
    "IPQoS",
    "IdentityAgent",
    "KexAlgorithms",
    "MACs",
    "PKCS11Provider",
    "ProxyJump",
    "PubkeyAcceptedAlgorithms",
    "RekeyLimit",
)
"""Options of ssh_config(5) that may be set: none of them runs a program or weakens the check of the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZfsAddress:
    """A dataset that copies go below; `host` "" is this host, `port` 0 is ssh's own."""

    dataset: str
    host: str = ""
    user: str = ""
    port: int = 0

    def __str__(self) -> str:
        if not self.host:
            return f"zfs:{self.dataset}"
        user, port = f"{self.user}@" if self.user else "", f":{self.port}" if self.port else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ssh://{user}{host}{port}/{self.dataset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Address:
    """A bucket, and what the keys of all objects begin with ("" for nothing)."""

    bucket: str
    prefix: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in (f"s3://{self.bucket}", self.prefix) if part)


DestinationAddress = ZfsAddress | S3Address


def parse_address(value: object) -> DestinationAddress:
    """Parse a destination's address. Raise as units.refuse does."""
    if isinstance(value, DestinationAddress):
        return value
    found = _address(value) if isinstance(value, str) else None
    if found is None:
        in_bucket = isinstance(value, str) and value.startswith("s3://")
        units.refuse(_BUCKETS if in_bucket else _ADDRESSES)
    return found


def _address(text: str) -> DestinationAddress | None:
    if text.startswith("s3://"):
        found = _S3.fullmatch(text)
        return S3Address(bucket=found["bucket"], prefix=(found["prefix"] or "").strip("/")) if found else None
    if text.startswith("zfs:"):
        dataset = text.removeprefix("zfs:")
        return ZfsAddress(dataset=dataset) if units.dataset_name_is_valid(dataset) else None
    try:
        parts = urlsplit(text)
        port = parts.port or 0
    except ValueError:
        return None
    dataset = unquote(parts.path).removeprefix("/")
    user, at, host = parts.netloc.rpartition("@")
    host = host.removesuffix(f":{port}") if port else host
    plain = not (parts.query or parts.fragment) and (not at or _USER.fullmatch(user))
    if parts.scheme != "ssh" or not plain or not _HOST.fullmatch(host):
        return None
    if not units.dataset_name_is_valid(dataset):
        return None
    return ZfsAddress(dataset=dataset, host=host.strip("[]"), user=user, port=port)


def destination_name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        units.refuse("a name of at most 40 of a-z, 0-9, -, _ and ., beginning with a letter or digit")
    return value


def ssh_options(value: object) -> dict[str, str]:
    """Further options of ssh's, of those that are allowed."""
    if not isinstance(value, dict):
        units.refuse('a table such as { ProxyJump = "gateway" }')
    for name, text in value.items():
        if name not in OPTIONS:
            units.refuse(f"one of {', '.join(OPTIONS)}")
        if not isinstance(text, str) or not _OPTION.fullmatch(text):
            units.refuse(f"a text for {name}")
    return value


def rate(value: object) -> int:
    """Bytes a second."""
    found = value if isinstance(value, int) else units.size(value)
    if found < 1024:
        units.refuse('at least "1KiB"')
    return found


def sample(value: object) -> int:
    """Bytes; 0 for all, -1 for none."""
    if value in (ALL, NONE):
        return 0 if value == ALL else -1
    found = value if isinstance(value, int) else units.size(value)
    if found < 1:
        units.refuse('a size such as "1GiB", or "all", or "none"')
    return found


def lag(value: object) -> float:
    seconds = value if isinstance(value, float) else units.duration(value)
    if seconds < 1:
        units.refuse('a duration such as "1h", at least "1s"')
    return seconds


def delay(value: object) -> float:
    return value if isinstance(value, float) else units.duration(value)


def heartbeat(value: object) -> float:
    seconds = value if isinstance(value, float) else units.duration(value)
    if not 1 <= seconds <= 3600 or seconds != int(seconds):
        units.refuse('whole seconds from "1s" to "1h"')
    return seconds


Sample = Annotated[int, BeforeValidator(sample)]
AbsolutePath = Annotated[Path, BeforeValidator(units.absolute_path)]


class SshSettings(SettingsTable):
    """The ssh connection to the other host. Its key must be known: nobody is asked."""

    identity: AbsolutePath | None = Field(
        default=None, description="private key, without a passphrase; default: as ssh finds one"
    )
    known_hosts: AbsolutePath | None = Field(
        default=None, description="file with the host's public key; default: ssh's own"
    )
    sudo: StrictBool = Field(default=False, description="run zfs there by `sudo -n`; not with `zbackup gate`")
    alive: Annotated[float, BeforeValidator(heartbeat)] = Field(
        default=15.0,
        description="how often to ask the host whether it is there; three times none: cut",
    )
    options: Annotated[dict[str, str], BeforeValidator(ssh_options)] = Field(
        default_factory=dict, description="further options of ssh_config(5): " + ", ".join(OPTIONS)
    )


class Ship(SettingsTable):
    """A destination that this instance's backups are copied to. `[[...]]`: there may be several."""

    to: Annotated[DestinationAddress, BeforeValidator(parse_address)] = Field(
        description="dataset that the copies go below: `ssh://user@host:port/pool/path`, or `zfs:pool/path` "
        "on this host; or a bucket: `s3://bucket/prefix`"
    )
    name: Annotated[str, BeforeValidator(destination_name)] | None = Field(
        default=None, description="what it is called in commands; default: the host, the pool, or the bucket"
    )
    initial: Literal["manual", "allow"] = Field(
        default="manual",
        description="when nothing is there yet: wait for `zbackup ship --initial` by hand, or send all of it",
    )
    bandwidth: Annotated[int, BeforeValidator(rate)] | None = Field(
        default=None, description='at most this much a second, such as "20MiB"; default: no limit'
    )
    ssh: SshSettings = Field(default_factory=SshSettings, description="how the other host is reached")
    s3: S3 = Field(default_factory=S3, description="how the bucket is reached, and how streams are stored")
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings,
        description="which backups are kept there, as in `[instance.NAME.retention]`: those and the newest "
        "are sent. Without rules only the newest is sent each time, and nothing goes",
    )
    prune: When | None = Field(
        default=None,
        description="when the daemon deletes there what `retention` no longer needs: an interval, or a cron "
        "expression. Default: never, which is right for a host whose key is append-only",
    )
    max_lag: Annotated[float, BeforeValidator(lag)] | None = Field(
        default=None,
        description="the promise how much may be lost with this host: when the newest backup there was taken "
        "longer ago than this, the instance is critical",
    )
    grace: Annotated[float, BeforeValidator(delay)] = Field(
        default=86_400.0,
        description="how long a new arrival makes no older backup superfluous: a prune there keeps what it "
        "would have kept without it. Forged backups can be noticed meanwhile",
    )
    verify: When | None = Field(
        default=None,
        description="when the daemon compares what is there with what is here (`zbackup verify`); a "
        "difference is a failure, and the instance is critical",
    )
    verify_read: Sample = Field(
        default=1024**3,
        description="how much of each dataset it reads for that on both sides, or `all` or `none`; of a "
        "bucket `all` or nothing but listings",
    )

    drill: When | None = Field(
        default=None,
        description="when the daemon restores a backup from there into a server that nobody can reach, "
        "checks its tables and removes it again (`zbackup verify --drill`); what it needs is fetched, "
        "where the destination is not on this host. `instance.NAME.schedule.drill_limit` holds here too",
    )

    @property
    def label(self) -> str:
        """Its name, given or not."""
        return self.name or default_name(self.to)


def default_name(to: DestinationAddress) -> str:
    """The host's name, or the pool's, or the bucket's, made fit for a name."""
    known = to.bucket if isinstance(to, S3Address) else to.host or to.dataset.partition("/")[0]
    plain = re.sub(r"[^a-z0-9_.-]", "-", known.lower())
    return plain.lstrip("_.-")[:40] or "there"
