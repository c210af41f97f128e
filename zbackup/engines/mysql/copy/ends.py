"""The sessions that rows are read and written by."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from zbackup.engines.mysql.copy.brake import Brake
from zbackup.engines.mysql.server.connection import Row, RowConnection
from zbackup.model.progress import Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Sessions for rows: the clone's, with one view of all that is read, and production's.

    `loaders` are production's, too, `production` one of them: all of them load rows at once.
    """

    clone: RowConnection
    production: RowConnection
    loaders: tuple[RowConnection, ...]
    brake: Brake
    progress: Progress


def on_both(ends: Ends, in_clone: bytes, in_production: bytes) -> tuple[list[Row], list[Row]]:
    """Ask both servers at once."""
    with ThreadPoolExecutor(max_workers=1) as other:
        there = other.submit(ends.clone.read, in_clone)
        here = ends.production.read(in_production)
        return there.result(), here
