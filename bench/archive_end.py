"""zbackup's end of a log archive in a bucket, as a program of its own:

    python -m bench.archive_end ENDPOINT PREFIX EVERY DIRECTORY UUID SINCE COUNT

It looks, plans and appends every EVERY seconds, encrypted, what the server with this UUID writes to its log
in DIRECTORY, from the file of the place SINCE on, as the daemon's lane does. After SIGTERM it writes to the
file COUNT how many requests that took.
"""

import signal
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from botocore.httpsession import URLLib3Session

from bench.quiet import quiet
from bench.s3_end import BUCKET
from zbackup.config.s3 import S3
from zbackup.config.secret import SecretRef
from zbackup.destinations.s3.destination import S3Destination
from zbackup.destinations.s3.encryption import KeyFiles
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.engines.mysql.archive.follow import MysqlLogFollower
from zbackup.jobs.archive.archive import append_all
from zbackup.model.archive import server_key
from zbackup.model.backup import BackupFiles
from zbackup.model.record import Record
from zbackup.model.relocation import Relocation
from zbackup.plan.archive import plan_archive


def main(where: S3Destination, every: float, directory: Path, uuid: str, since: str, count: Path) -> None:
    """Until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    requests = _counted()
    live = BackupFiles(_record(directory, uuid), Relocation(((str(directory), str(directory)),)))
    follower = MysqlLogFollower()
    with where.connect() as session:
        inventory = session.archived()
        while not over.is_set():
            began = time.monotonic()
            archived = inventory.of(server_key(uuid))
            here = follower.scan(live, lambda: [], archived, since, lambda: datetime.now(UTC))
            plan = plan_archive(server_key(uuid), archived, here)
            inventory = append_all(session, follower, plan, inventory, lambda *_: None)
            over.wait(max(0.0, every - (time.monotonic() - began)))
    count.write_text(str(len(requests)))


def destination(endpoint: str, prefix: str) -> S3Destination:
    """The bucket, with a key."""
    return S3Destination(
        name="bench",
        address="bench",
        prefix=prefix,
        instance="bench",
        bucket=BUCKET,
        storing=StorageSettings(
            table=S3.model_construct(
                endpoint=endpoint, region="us-east-1", path_style=True, key=SecretRef("env", "KEY")
            ),
            keys=KeyFiles(lambda: (bytes(32),)),
        ),
        now=lambda: datetime.now(UTC),
    )


def _counted() -> list[str]:
    """Every request that is sent from now on."""
    found: list[str] = []
    send = URLLib3Session.send

    def counting(self: URLLib3Session, request: object) -> object:
        found.append(str(getattr(request, "method", "")))
        return send(self, request)

    URLLib3Session.send = counting
    return found


def _record(directory: Path, uuid: str) -> Record:
    """As much of a backup's record as tells whose log it is, and where."""
    facts = {
        "log_bin_basename": str(directory / "binlog"),
        "log_bin_index": str(directory / "binlog.index"),
        "server_uuid": uuid,
    }
    return Record(
        backup="bench",
        instance="bench",
        engine="mysql",
        server_uuid=uuid,
        server_version="",
        members=(("bench", str(directory)),),
        taken=datetime.now(UTC),
        lock="none",
        server=facts,
    )


if __name__ == "__main__":
    quiet()
    endpoint, prefix, interval, log, server, place, counted = sys.argv[1:]
    main(destination(endpoint, prefix), float(interval), Path(log), server, place, Path(counted))
