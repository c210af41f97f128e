"""A bucket that backups are shipped to."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from zbackup.config.units import instance_name_is_valid
from zbackup.destinations.copies import MOST_INSTANCES
from zbackup.destinations.s3.cache import PageCache
from zbackup.destinations.s3.client import Bucket
from zbackup.destinations.s3.layout import Layout, root_of
from zbackup.destinations.s3.log_archive import S3Logs
from zbackup.destinations.s3.manifest_store import ManifestStore
from zbackup.destinations.s3.server import MOST_WAIT_S
from zbackup.destinations.s3.session import S3Session
from zbackup.destinations.s3.settings import StorageSettings
from zbackup.destinations.s3.signatures import Signatures
from zbackup.destinations.s3.unfinished_keys import UnfinishedKeys
from zbackup.model.errors import NotFound
from zbackup.model.shipping import KeyTrial, Readers
from zbackup.proc.pipeline import Meter


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Destination:
    """`prefix` is what all keys begin with; `now` is the time, which decides when a chain is old.

    `storing` says how the bucket is reached, too. `cache` is the directory below which pages of the bucket
    are kept, and `unfinished` that in memory below which keys of sealed streams are while they are on their
    way (None: they are not).
    """

    name: str
    address: str
    prefix: str
    instance: str
    bucket: str
    storing: StorageSettings
    now: Callable[[], datetime]
    cache: Path | None = None
    unfinished: Path | None = None
    most_wait_s: float = MOST_WAIT_S

    @property
    def files(self) -> tuple[Path, ...]:
        return ()

    @property
    def here(self) -> str:
        return ""

    @property
    def aside(self) -> str:
        return "ship to another prefix of the bucket"

    def instances(self) -> Sequence[tuple[str, str]]:
        above = f"{self.prefix}/" if self.prefix else ""
        with self._opened() as bucket:
            names = list(islice(filter(instance_name_is_valid, bucket.folders(above)), MOST_INSTANCES))
            found = [("", n) for n in names if any(bucket.list(Layout(root_of(self.prefix, n)).backups))]
        if not found and {"backups", "streams"} <= set(names):
            raise NotFound(f"{self.address} is that of one instance alone: name the prefix above it")
        return found

    def readers(self) -> Readers:
        with self.connect() as session:
            return session.readers()

    def try_private_key(self) -> KeyTrial:
        with self.connect() as session:
            return session.try_private_key(Meter())

    def _opened(self) -> Bucket:
        return Bucket(self.bucket, self.storing.table, self.now, self.most_wait_s)

    @contextmanager
    def connect(self) -> Iterator[S3Session]:
        table = self.storing.table
        layout = Layout(root_of(self.prefix, self.instance))
        with self._opened() as bucket:
            yield S3Session(
                bucket=bucket,
                layout=layout,
                address=self.address,
                storing=self.storing,
                now=self.now,
                unfinished=UnfinishedKeys(self.unfinished, (self.name, self.bucket, layout.root)),
                logs=S3Logs(bucket, layout.root, self.address, self.storing, locked=bool(table.object_lock)),
                pages=ManifestStore(
                    bucket=bucket,
                    layout=layout,
                    signing=Signatures(
                        keys=self.storing.keys,
                        root=layout.root,
                        bound_only=not table.accept_unbound,
                        private=self.storing.private,
                    ),
                    signed_only=self.storing.signed_only,
                    cache=PageCache(self.cache, (table.endpoint or "", self.bucket, layout.root)),
                ),
            )
