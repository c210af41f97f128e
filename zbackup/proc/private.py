"""Files that root writes where somebody else may write too, such as a server's run directory."""

import os
from pathlib import Path


def write_new(path: Path, text: str, *, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write `text` to a file that is certainly new and certainly ours, in place of what is there now.

    A link that the directory's owner put there is replaced, never followed: it could lead to any file of the
    system. With `owner` (uid, gid) the file is given away, empty, before it is written. Raise FileExistsError
    when somebody puts another file there at the same moment.
    """
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        if owner:
            os.fchown(descriptor, *owner)
        file.write(text)
