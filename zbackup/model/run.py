"""A run of one of the daemon's jobs, as it is remembered."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

Result = Literal["done", "failed", "postponed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """It `began` then and took `seconds`; `message` is why it failed or gave way, "" where it did neither."""

    instance: str
    job: str
    began: datetime
    seconds: float
    result: Result
    message: str = ""
