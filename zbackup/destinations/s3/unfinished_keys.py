"""Keys of sealed streams that are on their way, in memory: who goes on after a cut needs the same key again.

In the bucket such a key is sealed, and this host cannot open it. A file of each is kept below the run
directory, which a reboot clears, and goes as soon as the stream is whole: what it opens is what the snapshot
holds that is being sent. Where there is none, the stream is begun again with another key.
"""

import base64
import hashlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from zbackup.destinations.s3.encryption import KEY, DataKey
from zbackup.destinations.s3.layout import StreamId
from zbackup.destinations.s3.manifest_schema import StreamHeader, to_json
from zbackup.model.errors import Refused
from zbackup.model.event_log import log
from zbackup.proc import secure_files


@dataclass(frozen=True, slots=True)
class UnfinishedKeys:
    """Those of one part of one destination's bucket, which `address` names, below the directory `home`
    (None: nothing is kept). Its server may get another name meanwhile."""

    home: Path | None
    address: tuple[str, ...]

    def keep(self, stream: StreamId, header: StreamHeader, key: DataKey) -> None:
        """Keep the key of the stream that begins so. Raise nothing: without it more is sent again."""
        if self.home is None:
            return
        text = f"{_digest(header)}\n{base64.b64encode(key.key).decode()}\n"
        try:
            secure_files.make_directory(self._directory(self.home), mode=0o700)
            secure_files.write_new(self._file(self.home, stream), text, mode=0o600)
        except (OSError, Refused) as refused:
            log.info("s3.unfinished_key_not_kept", stream=ascii(str(stream)), reason=str(refused))

    def take(self, stream: StreamId, header: StreamHeader) -> DataKey | None:
        """The key of the stream that began exactly so; None when it is not here."""
        if self.home is None:
            return None
        try:
            digest, key, _ = secure_files.read_own(self._file(self.home, stream)).split("\n")
            found = base64.b64decode(key, validate=True)
        except (OSError, ValueError, Refused):
            return None
        return DataKey(found, str(stream)) if digest == _digest(header) and len(found) == KEY else None

    def forget(self, stream: StreamId) -> None:
        """The stream is whole. Raise OSError and Refused where its key cannot be removed: it opens what is in
        the bucket."""
        if self.home is not None:
            secure_files.unlink(self._file(self.home, stream))

    def keep_only(self, streams: Collection[StreamId]) -> None:
        """Forget the keys of all others: they are whole, or given up. Raise as forget does."""
        if self.home is None:
            return
        wanted = {self._file(self.home, stream).name for stream in streams}
        try:
            names = secure_files.names(self._directory(self.home))
        except FileNotFoundError:
            return
        for name in names:
            if name not in wanted:
                secure_files.unlink(self._directory(self.home) / name)

    def _directory(self, home: Path) -> Path:
        # Each user has his own: nobody else can look into it.
        return home / _hashed(str(os.geteuid()), *self.address)

    def _file(self, home: Path, stream: StreamId) -> Path:
        return self._directory(home) / _hashed(str(stream))


NOT_KEPT = UnfinishedKeys(None, ())
"""Keeps nothing."""


def _digest(header: StreamHeader) -> str:
    return hashlib.sha256(to_json(header)).hexdigest()


def _hashed(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()
