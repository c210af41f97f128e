"""Sessions that a log can be archived with, one of each kind, and what is archived in tests."""

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

from tests.destinations.shop import Shop, some_key
from zbackup.destinations.archived_bytes import paced, proven
from zbackup.destinations.base import Archiving
from zbackup.destinations.copies import Copies
from zbackup.destinations.zfs_archive import LocalLogs, Logs, RemoteLogs
from zbackup.model.archive import ArchivedFile, ArchiveInventory, Chunk, LogFileId, head_hash, tail_hash
from zbackup.model.errors import CommandFailed
from zbackup.proc.pipeline import Command, Meter
from zbackup.proc.run import run
from zbackup.zfs.log_dataset import LogDataset

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
KINDS = ("here", "gate", "s3", "s3 encrypted")
KEY = some_key()
# A gate that finds the archive's dataset mounted at a directory: everything else of it is real.
GATE = """
import os, sys
from pathlib import Path
from zbackup.cli.at_the_gate import admit
from zbackup.model.errors import ZbackupError
from zbackup.plan.ship.gate import Policy
from zbackup.zfs.log_dataset import LogDataset
LogDataset.directory = lambda self: Path(sys.argv[1])
LogDataset.prepared = LogDataset.directory
try:
    sys.exit(admit(Policy(root="tank/backups", powers=frozenset(sys.argv[2].split(",")))))
except ZbackupError as failure:
    print(f"zbackup: {failure}", file=sys.stderr)
    sys.exit(failure.exit_status)
"""


@dataclass(frozen=True)
class DirectorySession:
    """What a ZFS session makes of its logs, with a directory in place of a dataset."""

    logs: Logs

    def archived(self) -> ArchiveInventory:
        return self.logs.archived()

    def copies(self) -> Copies:
        return Copies((), ())

    def claim_log(self, server: str, epoch: int, writer: str) -> str:
        return self.logs.claim(server, epoch, writer)

    def append_log(self, file: LogFileId, chunk: Chunk, data: bytes) -> int:
        return self.logs.append(file, chunk, data)

    def read_log(self, file: LogFileId, begin: int, end: int, meter: Meter) -> Iterator[bytes]:
        return paced(proven(file, begin, end, self.logs.chunks(file, begin, end)), meter)

    def proven_to(self, archived: ArchivedFile) -> datetime | None:
        return archived.complete_to

    def remove_log(self, file: LogFileId) -> None:
        self.logs.remove(file)


@contextmanager
def session_of(
    kind: str, home: Path, shop: Shop, powers: str = "receive,read,destroy"
) -> Iterator[Archiving]:
    """A session of this kind; what lies in `home` or the shop stays for the next one."""
    directory = home / "archive"
    directory.mkdir(exist_ok=True)
    if kind.startswith("s3"):
        with shop.session(keys=(KEY,) if "encrypted" in kind else ()) as session:
            yield session
    elif kind == "gate":
        yield DirectorySession(
            RemoteLogs(home="tank/backups/shop", address="a gate", command=gate(directory, powers))
        )
    else:
        # As in GATE: a dataset that is mounted at the directory.
        with (
            patch.object(LogDataset, "directory", lambda _: directory),
            patch.object(LogDataset, "prepared", lambda _: directory),
        ):
            yield DirectorySession(LocalLogs(home="tank/backups/shop", address="here", runner=run))


def gate(directory: Path, powers: str) -> object:
    """Makes the command that a real gate answers, as sshd would start it."""

    def command(words: tuple[str, ...]) -> Command:
        import shlex

        line = shlex.join(words)
        own = (sys.executable, "-c", GATE, str(directory), powers)
        argv = ("env", f"SSH_ORIGINAL_COMMAND={line}", f"PYTHONPATH={os.pathsep.join(sys.path)}", *own)
        return Command(
            argv=argv, failure=lambda status, said: CommandFailed(words, status, said, "gatehouse")
        )

    return command


def named(number: int = 7, epoch: int = 0, follows: int | None = None) -> LogFileId:
    return LogFileId(
        server=UUID,
        epoch=epoch,
        number=number,
        follows=follows,
        head=head_hash(UUID, b"head"),
        name=f"binlog.{number:06}",
    )


def chunk_of(content: bytes, begin: int, end: int, *, closed: bool = False, complete: bool = True) -> Chunk:
    return Chunk(
        begin=begin,
        end=end,
        sha256=hashlib.sha256(content[begin:end]).hexdigest(),
        tail=tail_hash(content[:end]),
        read=NOW,
        complete_to=NOW if complete else None,
        closed=closed,
    )
