"""Decide which backup a dev clone is made of. Pure."""

from collections.abc import Sequence

from zbackup.model.backup import Backup


def choose_backup(backups: Sequence[Backup], wanted: str) -> Backup | None:
    """The newest whole base, or with `wanted` the one of that name or identity; None when there is none.

    By its place in the pool's history, not by its clock: that may have been wrong. A snapshot that was taken
    for its log only is none: its server was not asked whether all of it was inside.
    """
    whole = [b for b in backups if b.complete and b.finished and b.record.purpose == "base"]
    fitting = [b for b in whole if not wanted or wanted in (b.name, b.record.backup)]
    return max(fitting, key=lambda b: b.createtxg, default=None)
