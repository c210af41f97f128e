"""One order of the web page's, from the connection on standard input: `zbackup helper --clones`"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from socket import socket
from types import FrameType

import typer

from zbackup import app
from zbackup.cli import logs
from zbackup.cli.options import Options
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.features.webpage.operations.act import act, expected_name, require_possible, way_in
from zbackup.features.webpage.operations.order import CloneOrder, parse, require_role
from zbackup.features.webpage.operations.record import Noted, Operations, ourselves
from zbackup.features.webpage.reader import readers
from zbackup.jobs.context import Context
from zbackup.model.errors import ZbackupError
from zbackup.model.event_log import log
from zbackup.model.operation import Operation
from zbackup.model.progress import Progress, Silent
from zbackup.plan.clones.connection_url import url
from zbackup.proc.helper_socket import answer, hear

POLL_S = 60.0
"""Seconds between two looks at whether an operation moves."""

Contexts = Callable[[Progress], Sequence[Context]]


def serve_one(options: Options, require_trust: Callable[[Options], None]) -> None:
    """Obey one order, and leave with the exit status of what went wrong."""
    logs.set_up(debug=options.debug, log_format=options.log_format, events=True)
    connection, uid, said = hear(0)
    logs.bind(asked_by=str(uid))
    try:
        require_trust(options)
        settings = load(options.config)
        require_role(uid, readers(settings), clones=settings.web.clones)
        order = parse(said)
        logs.bind(who=order.who, verb=order.verb, instance=order.instance)
        obey(connection, order, lambda progress: contexts(settings, progress), Operations(settings.run_dir))
    except ZbackupError as failure:
        # Whoever asked has heard it already, unless it failed before it began.
        answer(connection, {"refused": " ".join(str(failure).split())})
        log.warning("operation.failed", why=str(failure))
        raise typer.Exit(failure.exit_status) from None


def contexts(settings: Settings, progress: Progress) -> list[Context]:
    """Return the contexts of all instances, and of each dataset of their clones."""
    own = [app.context(settings, instance, progress) for instance in settings.instance.values()]
    return [each for context in own for each in context.everywhere()]


@contextmanager
def watched(check: Callable[[], None], every_s: float = POLL_S) -> Iterator[None]:
    """Call `look` now and then, between any two steps of what is done meanwhile; what it raises ends that."""

    def alarm(_: int, __: FrameType | None) -> None:
        check()

    before = signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, every_s, every_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def obey(
    connection: socket,
    order: CloneOrder,
    contexts: Contexts,
    operations: Operations,
    watch: Callable[[Callable[[], None]], AbstractContextManager[None]] = watched,
) -> None:
    """Answer at once with the operation's name, and do it. Raise Refused, NotFound, UsageError or Taken
    before anything is begun, and what the operation raises."""
    if order.verb == "connect":
        found = way_in(order, contexts(Silent()))
        log.info("operation.connect", clone=order.clone)
        answer(connection, {"address": url(found.engine, found.port, found.login)})
        return
    require_possible(order, contexts(Silent()))
    clock = app.clock()
    one = Operation(
        id=order.id,
        verb=order.verb,
        instance=order.instance,
        clone=expected_name(order),
        who=order.who,
        began=clock.now(),
        process=ourselves(),
    )
    if not operations.begin(one):
        answer(connection, {"operation": order.id})
        return
    answer(connection, {"operation": order.id})
    log.info("operation.begun", operation=order.id, clone=one.clone, at=str(order.at), lease=order.lease)
    noted = Noted(operations, one)
    try:
        with noted.ending(clock.now) as say, watch(noted.require_moving):
            clone, said = act(order, contexts(noted))
            noted.name(clone)
            say(said)
    except KeyboardInterrupt:
        # It is no error that anybody would tell of, and the page is not the only one who asks.
        log.warning("operation.failed", why=noted.one.said)
        raise
    log.info("operation.done", operation=order.id, clone=clone, said=said)
