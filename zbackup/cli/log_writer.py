"""Log lines as structlog writes them; read with the first of them, see logs."""

import contextlib
import io
import sys
from collections.abc import Mapping
from typing import Final, TextIO

import structlog
import structlog.tracebacks

from zbackup.cli.log_sink import Sink
from zbackup.model.printable import printable

# Without local variables: a password may be in one.
_TRACEBACKS: Final = structlog.processors.ExceptionRenderer(
    structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
)


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


def configure(level: int, facts: Mapping[str, str], sink: Sink | None, *, as_json: bool) -> None:
    """Have structlog write lines from this level on to stderr, or to a `sink`.

    Each carries the `facts`, as they are by then, unless a thread has said otherwise.
    """
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=_traceback)
    )

    def with_facts(
        _logger: object, _method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {**facts, **event}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            with_facts,
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


def _traceback(out: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback, of several lines; what an error quotes is as harmless in it as elsewhere."""
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
