"""Files that root writes where somebody else may write too, such as a server's run directory."""

import os
from pathlib import Path


def read_own(path: Path) -> str:
    """The text of a file that write_new made, by root or by us. Raise FileNotFoundError, or ValueError when
    it is somebody else's: he could have written anything into it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as failure:
        raise ValueError(f"{path} is not the file it should be: {failure.strerror}") from failure
    with os.fdopen(descriptor, encoding="utf-8") as file:
        owner = os.fstat(descriptor).st_uid
        if owner not in (0, os.geteuid()):
            raise ValueError(f"{path} belongs to user id {owner}")
        return file.read()


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
