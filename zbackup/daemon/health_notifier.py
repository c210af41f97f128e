"""Tell people how instances are when that changes. What each was told outlives a restart, in a file."""

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from zbackup.config.notify import HealthNotify
from zbackup.daemon.job_pings import Queues
from zbackup.daemon.webhooks_and_mail import Channel, Notice, channels, identity, name_of, send
from zbackup.model import bounds
from zbackup.model.command_line import command_line
from zbackup.model.errors import Refused, ZbackupError
from zbackup.model.event_log import log
from zbackup.model.finding import Finding, worst
from zbackup.model.operator_notes import Problem
from zbackup.plan.health.notifications import ChannelKnowledge, left, occasion, serious, told
from zbackup.proc import secure_files

FILE = "told.json"
VERSION = 2
PAUSES_S = (2.0, 10.0, 30.0)
"""Between the attempts to reach somebody: four in all, until the next look at the instance."""

Key = tuple[str, str]
"""An instance, and a channel's identity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFindings:
    """The findings of a look at an instance, and its time."""

    instance: str
    looked: datetime
    findings: tuple[Finding, ...]


class HealthNotifier:
    """`of` belongs to the daemon's main thread; channels are reached in threads of their own, one each.

    What a channel was told is remembered once it took the message. While one is on its way, nothing else is
    sent there: the next look tells what is the case by then.
    """

    def __init__(self, state_dir: Path, queues: Queues, sleep: Callable[[float], None] = time.sleep) -> None:
        self._path, self._queues, self._sleep = state_dir / FILE, queues, sleep
        self._lock = threading.Lock()
        self._told = _read(self._path)
        self._under_way: set[Key] = set()
        self._last: dict[str, SeenFindings] = {}

    def failed(self, instance: str, now: datetime, message: str, notify: HealthNotify) -> None:
        """The look at an instance failed: nobody knows how it is. What was found last counts as there."""
        before = self._last.get(instance)
        unknown = Finding(
            severity="critical",
            subject="watch",
            text=f"nobody knows how it is, as it cannot be inspected: {message}",
            why="nothing else that goes wrong is noticed meanwhile",
            fix=command_line("zbackup", "status", instance),
        )
        found = (unknown, *(before.findings if before else ()))
        self._tell(SeenFindings(instance=instance, looked=now, findings=found), notify)

    def of(self, seen: SeenFindings, notify: HealthNotify) -> None:
        """Of an instance's health whoever has to hear of it."""
        self._last[seen.instance] = seen
        self._tell(seen, notify)

    def _tell(self, seen: SeenFindings, notify: HealthNotify) -> None:
        wanted = {(seen.instance, identity(channel)): channel for channel in channels(notify)}
        with self._lock:
            before = dict(self._told)
            self._told = {k: t for k, t in before.items() if k[0] != seen.instance or k in wanted}
            for key, channel in wanted.items():
                if key not in self._under_way:
                    self._one(key, channel, seen, timedelta(seconds=notify.repeat))
            if self._told != before:
                self._write()

    def _one(self, key: Key, channel: Channel, seen: SeenFindings, repeat: timedelta) -> None:
        known = self._told.get(key)
        why = occasion(known, seen.findings, channel.severity, seen.looked, repeat)
        now = told(seen.findings, channel.severity, seen.looked, known, why)
        if why is None:
            self._remember(key, now)
            return
        ends = why in ("acknowledged", "better", "recovery")
        notice = Notice(
            occasion=why,
            instance=seen.instance,
            host=socket.gethostname(),
            health=worst(seen.findings),
            findings=left(seen.findings) if ends else serious(seen.findings, channel.severity),
        )
        self._under_way.add(key)
        queue = self._queues.queue("notices", key[1])
        if not queue.put(lambda: self._deliver(key, channel, notice, now)):
            self._under_way.discard(key)

    def _deliver(self, key: Key, channel: Channel, notice: Notice, now: ChannelKnowledge | None) -> None:
        delivered = False
        try:
            delivered = self._sent(channel, notice)
        finally:
            with self._lock:
                self._under_way.discard(key)
                if delivered:
                    self._remember(key, now)
                    self._write()

    def _sent(self, channel: Channel, notice: Notice) -> bool:
        for pause in (*PAUSES_S, None):
            try:
                send(channel, notice)
            except ZbackupError as failure:
                if pause is None:
                    log.error("notice.failed", channel=name_of(channel), reason=str(failure))
                    return False
                self._sleep(pause)
            else:
                log.info("notice.sent", channel=name_of(channel), title=notice.title)
                return True
        return False

    def _remember(self, key: Key, now: ChannelKnowledge | None) -> None:
        if now:
            self._told[key] = now
        else:
            self._told.pop(key, None)

    def _write(self) -> None:
        rows = [
            {
                "instance": k[0],
                "channel": k[1],
                "at": t.at.isoformat(),
                "acknowledged": t.acknowledged,
                "problems": sorted([*problem, at.isoformat()] for problem, at in t.problems.items()),
            }
            for k, t in self._told.items()
        ]
        text = json.dumps({"version": VERSION, "told": rows}, indent=1) + "\n"
        try:
            secure_files.ensure_directory(self._path.parent)
            secure_files.replace(self._path, text, mode=0o640)
        except (OSError, Refused) as failure:
            log.warning("notices.not_written", file=str(self._path), reason=str(failure))


def _read(path: Path) -> dict[Key, ChannelKnowledge]:
    try:
        content = json.loads(secure_files.read_text(path))
        if content["version"] != VERSION:  # another release's: all that is there is told once more
            return {}
        return {(str(row["instance"]), str(row["channel"])): _row(row) for row in content["told"]}
    except FileNotFoundError:
        return {}
    except (OSError, Refused, ValueError, RecursionError, KeyError, TypeError) as unreadable:
        log.warning("notices.unreadable", file=str(path), reason=str(unreadable))
        return {}


def _row(row: Any) -> ChannelKnowledge:
    problems = {
        Problem(str(severity), str(subject), str(key)): _at(at)
        for severity, subject, key, at in row["problems"]
    }
    return ChannelKnowledge(problems, _at(row["at"]), row["acknowledged"] is True)


def _at(text: str) -> datetime:
    return bounds.moment(str(text))
