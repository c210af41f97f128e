"""Tell what the beginning of a binlog file says of the transactions in the files before it.

Sources: MySQL source documentation of Previous_gtids_event and of Gtid_set's encoding (with tags from MySQL
8.3 on); MariaDB knowledge base, GTID_LIST_EVENT. All numbers are little-endian.
"""

from dataclasses import dataclass, field
from struct import Struct, error
from typing import Final
from uuid import UUID

from zbackup.engines.mysql.binlog.events import GTID_LIST
from zbackup.model.transaction_name import Gtid

_NUMBER: Final = Struct("<Q")
_INTERVAL: Final = Struct("<Q Q")
_MARIADB_COUNT: Final = Struct("<I")
_MARIADB_ENTRY: Final = Struct("<I I Q")
_MARIADB_FLAGS_AT: Final = 28
_FORMAT_AT: Final = 56
_TAGGED: Final = 1

Intervals = list[tuple[int, int]]
"""First number, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The transactions of the files before one, by source (Gtid.source).

    MySQL lists all their numbers. MariaDB tells the last number of each source, and `certain` is False: where
    gtid_strict_mode is off, a number may follow a higher one.
    """

    sources: dict[str, Intervals] = field(default_factory=dict)
    certain: bool = True

    def contains(self, gtid: Gtid) -> bool:
        """Whether the transaction was there; see `certain`."""
        return any(first <= gtid.number < behind for first, behind in self.sources.get(gtid.source, ()))

    def may_contain(self, gtid: Gtid) -> bool:
        """Whether it cannot be ruled out that it was there."""
        return self.contains(gtid) if self.certain else gtid.source in self.sources


def read_earlier(kind: int, body: bytes) -> Earlier:
    """Read a Previous_gtids event, or MariaDB's Gtid_list, given without header and checksum.

    Raise ValueError if it makes no sense.
    """
    try:
        return _mariadb(body) if kind == GTID_LIST else _mysql(body)
    except (ValueError, IndexError, error) as wrong:
        raise ValueError(f"unreadable list of earlier transactions ({wrong})") from wrong


def _mysql(body: bytes) -> Earlier:
    (count,) = _NUMBER.unpack(body[:8])
    form = count >> _FORMAT_AT
    if form > _TAGGED:
        raise ValueError(f"GTID set in unknown format {form}")
    if form == _TAGGED:
        # The format is in the highest byte and in the lowest one too.
        count = (count & ((1 << _FORMAT_AT) - 1)) >> 8
    at = 8
    sources: dict[str, Intervals] = {}
    for _ in range(count):
        source = str(UUID(bytes=body[at : at + 16]))
        at += 16
        if form == _TAGGED:
            # A tag has at most 32 characters, so that its length fits into one byte, shifted by one bit.
            length = body[at] >> 1
            tag = body[at + 1 : at + 1 + length].decode("ascii")
            source += f":{tag}" if tag else ""
            at += 1 + length
        (intervals,) = _NUMBER.unpack(body[at : at + 8])
        at += 8
        end = at + intervals * _INTERVAL.size
        if end > len(body):
            raise ValueError("GTID set ends too early")
        sources[source] = list(_INTERVAL.iter_unpack(body[at:end]))
        at = end
    return Earlier(sources)


def _mariadb(body: bytes) -> Earlier:
    (count,) = _MARIADB_COUNT.unpack(body[:4])
    count &= (1 << _MARIADB_FLAGS_AT) - 1
    end = 4 + count * _MARIADB_ENTRY.size
    if end > len(body):
        raise ValueError("GTID list ends too early")
    entries = _MARIADB_ENTRY.iter_unpack(body[4:end])
    return Earlier({f"{domain}-{server}": [(0, last + 1)] for domain, server, last in entries}, certain=False)
