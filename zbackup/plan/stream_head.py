"""What the first bytes of a ZFS stream say of it. Pure.

Facts are of include/sys/zfs_ioctl.h of OpenZFS 2.x (dmu_replay_record): the first record is DRR_BEGIN, in the
byte order of the machine that sends.
"""

import struct

from zbackup.model.errors import Refused

SIZE = 312
"""Bytes of a record, and of the head."""

_MAGIC = 0x2F5BACBAC
_BEGIN = 0
_SUBSTREAM, _FILESYSTEM = 1, 2
_CLONE = 1 << 0
_LAYOUT = "IIQQQII"  # type, payload length, magic, version and features, creation, kind of dataset, flags


def require_plain(head: bytes) -> None:
    """Raise Refused unless this begins a stream of one snapshot of one file system.

    `zfs send -R`, `-p` and `-I` make packages of streams: they carry properties, and zfs receive renames and
    promotes by them what is there already. A volume would become a device that the machine looks into. Of a
    clone's stream, zfs receive looks for the origin in all of the pool, and that could not be destroyed then.
    """
    if len(head) < SIZE:
        raise Refused(f"refused by the gate: a stream of {len(head)} bytes")
    for order in "<>":
        kind, _, magic, version, _, dataset, flags = struct.unpack_from(order + _LAYOUT, head)
        if magic == _MAGIC:
            break
    else:
        raise Refused("refused by the gate: what came is no stream of zfs send")
    if kind != _BEGIN or version & 3 != _SUBSTREAM:
        raise Refused("refused by the gate: a package of streams (zfs send -R, -p or -I)")
    if dataset != _FILESYSTEM:
        raise Refused("refused by the gate: a stream of something that is not a file system")
    if flags & _CLONE:
        raise Refused("refused by the gate: a stream of a clone, which needs its origin")
