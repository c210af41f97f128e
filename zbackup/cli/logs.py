"""Log lines on stderr: JSON under systemd, readable on a terminal, named events with their facts."""

import os
import sys
import uuid
from typing import Literal

from zbackup.cli.log_sink import Sink
from zbackup.model.event_log import log

LogFormat = Literal["auto", "text", "json"]
DEBUG, INFO, WARNING = 10, 20, 30
"""The levels of Python's logging."""

_facts: dict[str, str] = {}
"""Facts that every line of this process carries, whichever thread writes it."""


def set_up(
    *, debug: bool = False, log_format: LogFormat = "auto", events: bool = False, sink: Sink | None = None
) -> None:
    """Decide how this process logs. Every line carries a run id, and what `bind` adds.

    A person at a prompt sees warnings only, and everything with --debug; the journal gets events (info), and
    so does whoever starts what has nothing else to say (`events`). Lines go to stderr, or to a `sink`.
    """
    service = under_systemd()
    as_json = service if log_format == "auto" else log_format == "json"
    level = DEBUG if debug else INFO if as_json or events else WARNING

    def prepare() -> None:
        from zbackup.cli.log_writer import configure

        configure(level, _facts, sink, as_json=as_json)

    _facts.clear()
    bind(run=uuid.uuid4().hex[:12])
    log.set_up(level, prepare)


def bind(**facts: str) -> None:
    """Every line from now on carries these facts, such as job and instance."""
    _facts.update(facts)


def under_systemd() -> bool:
    """Whether stderr goes to the journal (systemd.exec(5): JOURNAL_STREAM is its device and inode)."""
    stream = os.environ.get("JOURNAL_STREAM", "")
    try:
        facts = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return stream == f"{facts.st_dev}:{facts.st_ino}"
