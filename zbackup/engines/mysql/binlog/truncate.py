"""Cut a binlog file off, so that what lies behind the cut cannot be read by anybody."""

import os
import shutil
from pathlib import Path
from typing import Final

_CHUNK: Final = 1 << 20


def copy_until(source: Path, target: Path, offset: int) -> None:
    """Write the first `offset` bytes of `source` to the new file `target`, safe on disk when this returns.

    Raise ValueError if the source is shorter, FileExistsError if the target exists. A failed copy is removed.
    """
    if source.stat().st_size < offset:
        raise ValueError(f"{source.name} is shorter than {offset} bytes")
    with source.open("rb") as reader, target.open("xb") as writer:
        try:
            left = offset
            while left and (data := reader.read(min(_CHUNK, left))):
                writer.write(data)
                left -= len(data)
            if left:
                raise ValueError(f"{source.name} became shorter than {offset} bytes")
            writer.flush()
            shutil.copymode(source, target)
            os.fsync(writer.fileno())
        except BaseException:
            target.unlink()
            raise
    directory = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
