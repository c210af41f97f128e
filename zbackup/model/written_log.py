"""Words for a server's log as it is being written, for who archives it."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from zbackup.model.oplog_position import begin_of


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One file of the log, as it was when it was looked at; see model.archive for `number` and `head`.

    The first `size` bytes are whole transactions and durable: they outlast a power failure. `closed`: the
    server has begun the next file. `read` is what the clock said before the look, and `complete_to` that
    everything committed before it is in the first `size` bytes of this file or in those before it; None where
    that is not known. `acknowledged` is the same of what was acknowledged; None: everything before `read`.
    `same` tells whether it still has what the archive's newest epoch has of this number;
    None where that was not compared, or the archive has nothing of it. `identity` tells the file at `path`
    from another that took its place; an oplog's is made up of entries, and lies nowhere.

    `follows`: it begins as the first archived file of the newest epoch did, which continued that epoch.
    Where there are `cuts`, an append may end at one of these offsets only. `more`: there is more behind it
    that was not looked at yet.
    """

    name: str
    number: int
    head: str
    path: Path = Path()
    identity: tuple[int, int] = (0, 0)
    size: int
    closed: bool
    read: datetime
    complete_to: datetime | None
    acknowledged: datetime | None = None
    same: bool | None = None
    follows: int | None = None
    cuts: tuple[int, ...] = ()
    more: bool = False

    @property
    def begins(self) -> str:
        """The position at which it begins, in the server's own words."""
        return str(begin_of(self.name) or self.name)


class LogBytes(NamedTuple):
    """Bytes as they are to be archived, and what Chunk.tail says of the file that ends with them."""

    data: bytes
    tail: str
