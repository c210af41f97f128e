"""Log lines on stderr: JSON under systemd, readable on a terminal, named events with their facts."""

import contextlib
import io
import logging
import os
import sys
import uuid
from typing import Final, Literal, TextIO

import structlog
import structlog.tracebacks

from zbackup.cli.log_sink import Sink
from zbackup.model.printable import printable

# Without local variables: a password may be in one.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)

LogFormat = Literal["auto", "text", "json"]


class _Surviving(structlog.PrintLogger):
    """A journal that went away or a full disk costs lines of the log, never the work they tell of."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = error = err = critical = fatal = failure = exception = msg


class _Handed(structlog.PrintLogger):
    """Hands its lines to a sink."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(sys.stderr)
        self._sink = sink

    def msg(self, message: str) -> None:
        self._sink.put(message)

    log = debug = info = warn = warning = error = err = critical = fatal = failure = exception = msg


def set_up(
    *, debug: bool = False, log_format: LogFormat = "auto", events: bool = False, sink: Sink | None = None
) -> None:
    """Decide how this process logs. Every line carries a run id, and what `bind` adds.

    A person at a prompt sees warnings only, and everything with --debug; the journal gets events (info), and
    so does whoever starts what has nothing else to say (`events`). Lines go to stderr, or to a `sink`.
    """
    service = under_systemd()
    as_json = service if log_format == "auto" else log_format == "json"
    level = logging.DEBUG if debug else logging.INFO if as_json or events else logging.WARNING
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback)
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([_TRACEBACKS] if as_json else [_printable]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        # Looked up at every line: while bars are shown, stderr is theirs and prints above them.
        logger_factory=lambda *_: _Handed(sink) if sink else _Surviving(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(run=uuid.uuid4().hex[:12])


def _traceback(out: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Of several lines; what an error quotes is as harmless in it as elsewhere."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    out.write(printable(text.getvalue(), lines=True))


def _printable(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Every line is one line, whatever names are in it; JSON has escapes of its own."""
    return {key: _harmless(value) for key, value in event.items()}


def _harmless(value: object) -> object:
    match value:
        case str():
            return printable(value)
        case list() | tuple():
            return [_harmless(each) for each in value]
        case dict():
            return {_harmless(key): _harmless(each) for key, each in value.items()}
    return value


def bind(**facts: str) -> None:
    """Every line from now on carries these facts, such as job and instance."""
    structlog.contextvars.bind_contextvars(**facts)


def under_systemd() -> bool:
    """Tell whether stderr goes to the journal (systemd.exec(5): JOURNAL_STREAM is its device and inode)."""
    stream = os.environ.get("JOURNAL_STREAM", "")
    try:
        facts = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):
        return False
    return stream == f"{facts.st_dev}:{facts.st_ino}"
