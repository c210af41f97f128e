"""Keeps a snapshot mounted that is read below `.zfs/snapshot`, and so from being destroyed.

ZFS mounts it when somebody looks in, takes the mount away when nobody has for minutes, and refuses to destroy
what is mounted and open ("dataset is busy"). An open directory goes with its process: whoever is killed
leaves nothing behind, as he would with a hold.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zbackup.model.errors import Refused
from zbackup.proc.safe_path import opened_parent


@contextmanager
def kept_mounted(snapshot: Path) -> Iterator[None]:
    """Keep the snapshot at this path in place while the body runs.

    Raise Refused when what is there is no mounted snapshot, and OSError when it cannot be opened.
    """
    with opened_parent(snapshot) as (parent, name):
        beside = os.fstat(parent).st_dev
        opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        if os.fstat(opened).st_dev == beside:
            raise Refused(f"{snapshot} is no snapshot that is mounted")
        yield
    finally:
        os.close(opened)
