"""What a send stream says that it is: its first record, DRR_BEGIN.

Source of the layout: `struct drr_begin` in OpenZFS's include/sys/zfs_ioctl.h.
"""

import struct
from dataclasses import dataclass

from zbackup.model.errors import VerificationFailed

SIZE = 56
"""So many bytes of a stream are enough."""
MAGIC = 0x2F5BACBAC

# type, length of the payload, magic, version, creation time, kind of dataset, flags, toguid, fromguid
_FORMAT = "IIQQQIIQQ"


@dataclass(frozen=True, slots=True)
class StreamHead:
    """The snapshot that a stream makes, and the one it starts from (None: it is a full one), by guid."""

    guid: int
    base: int | None


def stream_head(data: bytes | bytearray | memoryview) -> StreamHead:
    """Of the first bytes of a stream, in either byte order. Raise VerificationFailed for anything else."""
    for order in "<>":
        if len(data) < SIZE:
            break
        kind, _, magic, _, _, _, _, guid, base = struct.unpack_from(f"{order}{_FORMAT}", data)
        if (kind, magic) == (0, MAGIC):
            return StreamHead(guid, base or None)
    raise VerificationFailed("what was to be stored is no ZFS send stream")
