"""Words for a server's log as it is being written, for who archives it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One file of the log, as it was when it was looked at; see model.archive for `number` and `head`.

    The first `size` bytes are whole transactions and durable: they outlast a power failure. `closed`: the
    server has begun the next file. `read` is what the clock said before the look, and `complete_to` that
    everything committed before it is in the first `size` bytes of this file or in those before it; None where
    that is not known. `same` tells whether it still has what the archive's newest epoch has of this number;
    None where that was not compared, or the archive has nothing of it. `identity` tells the file at `path`
    from another that took its place.
    """

    name: str
    number: int
    head: str
    path: Path
    identity: tuple[int, int]
    size: int
    closed: bool
    read: datetime
    complete_to: datetime | None
    same: bool | None = None
