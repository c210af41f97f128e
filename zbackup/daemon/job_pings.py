"""Telling others how jobs went: pings and hooks. No job waits for it, and none fails for it."""

import http.client
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from zbackup.config.schedule import Notify
from zbackup.model.errors import CommandFailed
from zbackup.model.event_log import log
from zbackup.model.schedule import JobKind, Outcome, parted
from zbackup.proc.hook import run_hook

PING_LIMIT_S = 5.0
PING_TRIES = 2
MOST_WAITING = 256
END_LIMIT_S = 5.0
BODY_LIMIT = 10_000

# The jobs that people schedule; the daemon's own looks are not news.
TOLD: tuple[JobKind, ...] = ("snapshot", "prune", "ship", "verify", "drill")

_Call = Callable[[], object]


class Queues:
    """Calls that nobody waits for: those of one queue one after the other, and queues beside each other."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str], _Queue] = {}

    def queue(self, kind: str, name: str) -> "_Queue":
        """The queue of that name, made if it is not there."""
        # Jobs begin in threads of their own; setdefault is one step.
        return self._queues.setdefault((kind, name), _Queue(kind))

    def close(self) -> None:
        """Give what is still to be told a moment, no more."""
        deadline = time.monotonic() + END_LIMIT_S
        for queue in tuple(self._queues.values()):
            queue.finish(max(0.0, deadline - time.monotonic()))


class HookNotifier:
    """Each URL, and the hooks of each instance, have a queue of their own: a slow one delays no other."""

    def __init__(self, queues: Queues | None = None) -> None:
        self._queues = queues or Queues()

    def begins(self, job: str, notify: Notify) -> None:
        """A job begins. A drill, which may give way to others, is told of at its end only."""
        if parted(job)[0] == "drill":
            return
        self._ping(_url(notify, job), "/start", "")

    def ended(self, outcome: Outcome, notify: Notify, failures: int) -> None:
        """A job has ended; `failures` is how many times it has failed now in a row."""
        if outcome.postponed or parted(outcome.job)[0] not in TOLD:
            return
        self._ping(_url(notify, outcome.job), "/fail" if outcome.error else "", outcome.message)
        argv = notify.on_failure if outcome.error else notify.on_success
        if argv:
            facts = hook_facts(outcome, failures)
            self._queues.queue("hooks", outcome.instance).put(lambda: _hook(argv, facts, notify.limit))

    def close(self) -> None:
        """Give what is still to be told a moment, no more."""
        self._queues.close()

    def _ping(self, url: str | None, suffix: str, body: str) -> None:
        if url:
            self._queues.queue("pings", url).put(lambda: ping(add_to_path(url, suffix), body))


class _Queue:
    """Calls made one after the other, in a thread that is there while there are any."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._lock = threading.Lock()
        self._waiting: deque[_Call] = deque()
        self._thread: threading.Thread | None = None

    def put(self, call: _Call) -> bool:
        """Make the call in its turn. Tell whether it will be made: too many may wait already."""
        with self._lock:
            if len(self._waiting) >= MOST_WAITING:
                log.warning("hook.dropped", what=self._kind)
                return False
            self._waiting.append(call)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._kind, daemon=True)
                self._thread.start()
        return True

    def finish(self, seconds: float) -> None:
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                call = self._waiting.popleft()
            try:
                call()
            except Exception as defect:  # noqa: BLE001 - the next one is told all the same
                # Not its text, which may quote a secret.
                log.error("hook.defect", what=self._kind, kind=type(defect).__name__)


def _url(notify: Notify, job: str) -> str | None:
    return next((url for name, url in notify.ping.items() if name == job), None)


def hook_facts(outcome: Outcome, failures: int) -> dict[str, str]:
    """What a hook finds in its environment."""
    return {
        "ZBACKUP_INSTANCE": outcome.instance,
        "ZBACKUP_JOB": outcome.job,
        "ZBACKUP_RESULT": "failure" if outcome.error else "success",
        "ZBACKUP_STARTED": outcome.started.isoformat(),
        "ZBACKUP_SECONDS": f"{outcome.seconds:.3f}",
        "ZBACKUP_FAILURES": str(failures),
        "ZBACKUP_ERROR": outcome.error,
        "ZBACKUP_MESSAGE": outcome.message,
        "ZBACKUP_EXIT_STATUS": str(outcome.exit_status),
    }


def _hook(argv: tuple[str, ...], facts: Mapping[str, str], limit: float) -> None:
    try:
        run_hook(argv, facts, limit)
    except CommandFailed as failure:
        log.warning("hook.failed", program=argv[0], reason=str(failure))


def add_to_path(url: str, suffix: str) -> str:
    """`suffix` behind the URL's path, before what it asks."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.rstrip("/") + suffix if suffix else parts.path).geturl()


def ping(url: str, body: str) -> bool:
    """Call it, and once more if that fails. Whether it answered well; never raises."""
    for attempt in range(1, PING_TRIES + 1):
        try:
            request = urllib.request.Request(
                url, data=body.encode(errors="replace")[:BODY_LIMIT], method="POST"
            )
            with urllib.request.urlopen(request, timeout=PING_LIMIT_S):
                return True
        except (OSError, http.client.HTTPException, ValueError) as failure:
            if attempt == PING_TRIES:
                # Not the whole URL: whoever knows it can report success in our name.
                log.warning("ping.failed", host=urlsplit(url).hostname, reason=_said(failure))
    return False


def quotes_what_was_given(failure: Exception) -> bool:
    """Whether it is Python's own refusal of a URL, a header or a password. A certificate's is an OSError
    too, and quotes none."""
    return isinstance(failure, ValueError | http.client.InvalidURL) and not isinstance(failure, OSError)


def _said(failure: Exception) -> str:
    return "it is no URL that can be asked" if quotes_what_was_given(failure) else str(failure)
