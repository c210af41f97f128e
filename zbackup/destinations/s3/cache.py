"""Small pages of a bucket, kept on this host: once written they never change.

A page that is kept stands for one object as a listing shows it now, and whoever takes it proves it as if it
had just been fetched. What is kept may be lost or damaged at any moment: that costs requests, nothing else.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from threading import get_native_id

from zbackup.destinations.s3.client import Entry
from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.proc import secure_files

MOST = 1 << 20
"""Bytes: a larger page is not kept."""

_OURS = re.compile(r"[0-9a-f]{64}(\.[0-9]+)?")


@dataclass(slots=True)
class PageCache:
    """Pages of one part of one bucket, which `address` names (endpoint, bucket, what its keys begin with).

    They are in a directory below `home` of this user's own. Nothing is kept if that is None.
    """

    home: Path | None
    address: tuple[str, ...]

    def take(self, entry: Entry) -> bytes | None:
        """The page as it was kept; None when it is not here, or not as it was."""
        home = self.home  # another thread's failed keep() may take it away
        if home is None or not entry.etag:
            return None
        try:
            digest, _, text = secure_files.read_own(self._directory(home) / self._name(entry)).partition("\n")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, Refused) as unreadable:
            log.debug("s3.page_not_kept", key=entry.key, reason=str(unreadable))
            return None
        body = text.encode()
        return body if hashlib.sha256(body).hexdigest() == digest else None

    def keep(self, entry: Entry, body: bytes | bytearray) -> None:
        """Keep a page that was proven. Whoever cannot, does not try again."""
        home = self.home
        if home is None or not entry.etag or len(body) > MOST:
            return
        try:
            directory = self._directory(home)
            secure_files.make_directory(directory, mode=0o700)
            file = directory / self._name(entry)
            fresh = file.with_suffix(f".{get_native_id()}")
            secure_files.write_new(fresh, f"{hashlib.sha256(body).hexdigest()}\n{body.decode()}", mode=0o600)
            secure_files.rename(fresh, file.name)
        except (OSError, ValueError, Refused) as refused:
            log.debug("s3.page_not_kept", key=entry.key, reason=str(refused))
            self.home = None

    def keep_only(self, entries: Iterable[Entry]) -> None:
        """Forget what is of none of these objects."""
        home = self.home
        if home is None:
            return
        wanted = {self._name(entry) for entry in entries}
        try:
            directory = self._directory(home)
            for name in secure_files.names(directory):
                if name not in wanted and _OURS.fullmatch(name):
                    secure_files.unlink(directory / name)
        except FileNotFoundError:
            return
        except (OSError, ValueError, Refused) as refused:
            log.debug("s3.page_stays", reason=str(refused))

    def _directory(self, home: Path) -> Path:
        """The cache's directory. Raise ValueError when who else may write there: what is taken from it is
        proven, but files are made and removed in it."""
        own = home / f"buckets.{os.geteuid()}"
        secure_files.ensure_directory(own, mode=0o700)
        found = secure_files.stat(own)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise ValueError(f"{own} is not a directory of this user's alone")
        return own / _hashed(*self.address)

    def _name(self, entry: Entry) -> str:
        return _hashed(*self.address, entry.key, entry.etag, str(entry.size))


NO_CACHE = PageCache(None, ())
"""Keeps nothing."""


def _hashed(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
