"""Decide which streams are let in, by the record they begin with. Pure.

Facts are of include/sys/zfs_ioctl.h of OpenZFS 2.x.
"""

from zbackup.model.drr_begin import RECORD, begin_record
from zbackup.model.errors import Refused, VerificationFailed

_SUBSTREAM, _FILESYSTEM = 1, 2
_CLONE = 1 << 0
_GATE = "refused by the gate"


def require_copy(head: bytes, guid: int, base: int | None, name: str) -> None:
    """Raise unless this begins a stream as require_plain() lets it in, of the snapshot with this guid.

    `base` is the guid that it starts from (None: it is a full one), `name` what it was asked for as. What a
    destination sends is its own word, and zfs receive is told only of what was asked for.
    """
    said = require_plain(head, f"what came in place of {name} is refused")
    if said != (guid, base or 0):
        raise VerificationFailed(
            f"what came in place of {name} is a stream of guid {said[0]} from {said[1]}, "
            f"not of {guid} from {base or 0}"
        )


def require_receivable(head: bytes, name: str, below: str) -> None:
    """Raise Refused for a stream with embedded blocks: ZFS cannot receive it below an encrypted dataset."""
    begin = begin_record(head)
    if begin and begin.embedded:
        raise Refused(
            f"{name} was sent by an earlier version of zbackup, with embedded blocks. ZFS cannot receive "
            f"such a stream below {below}, which is encrypted. Set recovery.clones to an unencrypted "
            f"dataset, then run the same command again"
        )


def require_plain(head: bytes, refused: str = _GATE) -> tuple[int, int]:
    """Raise Refused unless this begins a stream of one snapshot of one file system.

    `zfs send -R`, `-p` and `-I` make packages of streams: they carry properties, and zfs receive renames and
    promotes by them what is there already. A volume would become a device that the machine looks into. Of a
    clone's stream, zfs receive looks for the origin in all of the pool, and that could not be destroyed then.
    Returns the guids of what it makes and of what it starts from (0: it is a full one). `refused` begins the
    message.
    """
    if len(head) < RECORD:
        raise Refused(f"{refused}: a stream of {len(head)} bytes")
    begin = begin_record(head)
    if begin is None:
        raise Refused(f"{refused}: what came is no stream of zfs send")
    if begin.version & 3 != _SUBSTREAM:
        raise Refused(f"{refused}: a package of streams (zfs send -R, -p or -I)")
    if begin.dataset != _FILESYSTEM:
        raise Refused(f"{refused}: a stream of something that is not a file system")
    if begin.flags & _CLONE:
        raise Refused(f"{refused}: a stream of a clone, which needs its origin")
    return begin.guid, begin.base or 0
