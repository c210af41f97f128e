"""How a bucket is reached."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """How the bucket is reached, and what its objects are to be like; times in seconds, "" for the default.

    With `access` and `secret` "" credentials are found as the AWS tools find them, with `profile` if given.
    `lock_mode` is GOVERNANCE or COMPLIANCE, for `lock_days` from when an object is written.
    """

    bucket: str
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    access: str = ""
    secret: Callable[[], str] = str
    token: Callable[[], str] = str
    path_style: bool = False
    storage_class: str = ""
    sse: str = ""
    kms_key: str = ""
    lock_mode: str = ""
    lock_days: int = 0
    proxy: str = ""
    ca_file: Path | None = None
    connect_s: float = 10.0
    read_s: float = 60.0
    attempts: int = 8
    most_wait_s: float = 30.0
    connections: int = 8
