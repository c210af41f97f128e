"""A note on disk that a lock of ours may be held, for the run after one that died together with its watchdog.

fsyncLock outlives its client, and has no owner that could be asked for. Somebody else's lock must never be
released: it may guard a copy under way. What was written tells them apart: under one lock nothing is.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from zbackup.model.errors import DatabaseError
from zbackup.proc import secure_files


@dataclass(frozen=True, slots=True)
class MarkerFile:
    """The file that is there while the server may be locked by us."""

    path: Path

    def write(self, still: str) -> None:
        """`still` is what cannot change under our lock: see status.stillness."""
        # The watchdog never writes one, and what logs takes longer to import than the rest of this.
        from zbackup.proc.run_directory import prepare

        prepare(self.path.parent)
        secure_files.replace(self.path, json.dumps({"still": still}))

    def read(self) -> str | None:
        """Tell what cannot have changed; None if there is no note."""
        try:
            return str(json.loads(secure_files.read_text(self.path))["still"])
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError, KeyError, TypeError) as damaged:
            raise DatabaseError(
                f"{self.path} cannot be read ({damaged}): delete it when the server is not locked "
                f"(db.currentOp().fsyncLock)"
            ) from damaged

    def remove(self) -> None:
        """There is none from now on."""
        secure_files.unlink(self.path)
