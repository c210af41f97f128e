"""A program that stands by before a lock is taken: nothing has to be started under it but the snapshot.

    python -I -m zbackup.zfs.stand_by

It loads libzfs_core, says "ready", and waits for its order, which is one line: a JSON object with
`snapshots` and `properties`. It takes them by one lzc_snapshot(), which is what `zfs snapshot` calls, too
(lib/libzfs/libzfs_dataset.c, zfs_snapshot_nvl): all or none, with the caller's rights. It ends with 0, or
with 1 when nothing was taken. An order that is not whole is none: whoever gave it is dead.
"""

import ctypes
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence

CORE, NVPAIR = "libzfs_core.so.3", "libnvpair.so.3"
"""The libraries' names, as OpenZFS 2 has them on Linux."""

_NvList = ctypes.c_void_p


class Libraries:
    """Calls of libzfs_core and libnvpair. Raise OSError or AttributeError without these, or without ZFS."""

    def __init__(self) -> None:
        self._core, self._nv = ctypes.CDLL(CORE, use_errno=True), ctypes.CDLL(NVPAIR)
        self._nv.fnvlist_alloc.restype = _NvList
        self._nv.fnvlist_add_boolean.argtypes = [_NvList, ctypes.c_char_p]
        self._nv.fnvlist_add_string.argtypes = [_NvList, ctypes.c_char_p, ctypes.c_char_p]
        self._core.lzc_snapshot.argtypes = [_NvList, _NvList, ctypes.POINTER(_NvList)]
        if self._core.libzfs_core_init():
            raise OSError("/dev/zfs cannot be opened")

    def snapshot(self, names: Sequence[str], properties: Mapping[str, str]) -> int:
        """Take all of them or none; 0, or the errno of why not."""
        # Lists of libnvpair, which go with this process.
        wanted, given, problems = self._nv.fnvlist_alloc(), self._nv.fnvlist_alloc(), _NvList()
        for name in names:
            self._nv.fnvlist_add_boolean(wanted, os.fsencode(name))
        for key, value in properties.items():
            self._nv.fnvlist_add_string(given, os.fsencode(key), os.fsencode(value))
        return int(self._core.lzc_snapshot(wanted, given, ctypes.byref(problems)))


def main() -> int:
    """Stand by; the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as the zfs program does: it ends, and says nothing
    try:
        libraries = Libraries()
    except (OSError, AttributeError) as lacking:
        return _failed(str(lacking))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    try:
        # A line, and not up to the end: another process may have been forked off with our input's other end.
        order = json.loads(sys.stdin.buffer.readline())
        names, properties = order["snapshots"], order["properties"]
    except ValueError:
        return _failed("this is no order")
    if failure := libraries.snapshot(names, properties):
        return _failed(os.strerror(failure))
    return 0


def _failed(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
