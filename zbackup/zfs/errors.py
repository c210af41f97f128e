"""OpenZFS speaks English on stderr. This table is the only place that listens to it."""

from zbackup.model.errors import (
    CommandFailed,
    DatasetBusy,
    DatasetExists,
    DatasetNotFound,
    KeyNotLoaded,
    NotReceivable,
    PoolFull,
    PoolReadOnly,
    PoolSuspended,
    StreamRefused,
)

PHRASES: tuple[tuple[str, type[CommandFailed]], ...] = (
    ("dataset does not exist", DatasetNotFound),
    ("parent does not exist", DatasetNotFound),
    ("could not find any snapshots to destroy", DatasetNotFound),
    ("no such pool", DatasetNotFound),
    ("dataset already exists", DatasetExists),
    ("dataset is busy", DatasetBusy),
    ("pool or dataset is busy", DatasetBusy),
    ("target is busy", DatasetBusy),
    ("it's being held", DatasetBusy),
    ("snapshot has dependent clones", DatasetBusy),
    ("has been modified", NotReceivable),
    ("does not match incremental source", NotReceivable),
    ("must specify -f to overwrite", NotReceivable),
    ("i/o is currently suspended", PoolSuspended),
    ("pool is read-only", PoolReadOnly),
    ("encryption key not loaded", KeyNotLoaded),
    ("key must be loaded", KeyNotLoaded),
    ("key is not loaded", KeyNotLoaded),
    ("embedded data stream feature", StreamRefused),
    ("out of space", PoolFull),
    ("no space left", PoolFull),
    ("quota exceeded", PoolFull),
    ("invalid stream", StreamRefused),
    ("invalid backup stream", StreamRefused),
    ("checksum mismatch", StreamRefused),
    ("must be upgraded to receive", StreamRefused),
)


def translate(failure: CommandFailed) -> CommandFailed:
    """The same failure under the name that callers can act on. Timeouts stay what they are."""
    if type(failure) is not CommandFailed:
        return failure
    said = failure.stderr.lower()
    for phrase, kind in PHRASES:
        if phrase in said:
            return kind(failure.argv, failure.returncode, failure.stderr, failure.where)
    return failure
