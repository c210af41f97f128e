"""The record that a stream of `zfs send` begins with, DRR_BEGIN: what the stream says that it is.

Source of the layout: include/sys/zfs_ioctl.h of OpenZFS 2.x (dmu_replay_record, struct drr_begin).
"""

import struct
from dataclasses import dataclass
from typing import Final

RECORD: Final = 312
"""Bytes of a stream's record, of whatever kind."""
MAGIC: Final = 0x2F5BACBAC
BEGIN: Final = 0

# type, length of the payload, magic, version and features, creation, kind of dataset, flags, toguid, fromguid
_LAYOUT: Final = "IIQQQIIQQ"
_LENGTH: Final = struct.calcsize(f"<{_LAYOUT}")


@dataclass(frozen=True, slots=True)
class BeginRecord:
    """`order` is the byte order of the machine that sends, as struct writes it.

    `guid` is of the snapshot that the stream makes, `base` of the one that it starts from (None: it is a full
    one). `version`, `dataset` (its kind) and `flags` are ZFS's numbers.
    """

    order: str
    version: int
    dataset: int
    flags: int
    guid: int
    base: int | None

    @property
    def embedded(self) -> bool:
        """It has embedded blocks (zfs send -e): ZFS does not receive it below an encrypted dataset."""
        return bool(self.version >> 2 & 1 << 16)


def begin_record(data: bytes | bytearray | memoryview) -> BeginRecord | None:
    """Read the beginning of a stream; None for anything else."""
    if len(data) < _LENGTH:
        return None
    for order in "<>":
        kind, _, magic, version, _, dataset, flags, guid, base = struct.unpack_from(order + _LAYOUT, data)
        if (kind, magic) == (BEGIN, MAGIC):
            return BeginRecord(order, version, dataset, flags, guid, base or None)
    return None
