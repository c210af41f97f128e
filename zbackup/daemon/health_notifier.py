"""Tell people how instances are when that changes. What was told outlives a restart, in a file."""

import json
import socket
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from zbackup.config.notify import HealthNotify
from zbackup.daemon.channels import Channel, Notice, channels, name_of, send
from zbackup.daemon.notifier import Lines
from zbackup.jobs.watch.status import Status
from zbackup.model import bounds
from zbackup.model.errors import Refused, ZbackupError
from zbackup.plan.health.notices import Told, occasion, serious, told
from zbackup.proc import secure_files

log = structlog.get_logger()

FILE = "told.json"
PAUSES_S = (2.0, 10.0, 30.0)
"""Between the attempts to reach somebody: four in all."""

Key = tuple[str, str]
"""An instance, and how bad what a channel is told of has to be."""


class HealthNotifier:
    """Belongs to the daemon's main thread; channels are reached in threads of their own, one each."""

    def __init__(self, state_dir: Path, lines: Lines, sleep: Callable[[float], None] = time.sleep) -> None:
        self._path, self._lines, self._sleep = state_dir / FILE, lines, sleep
        self._told = _read(self._path)

    def of(self, status: Status, notify: HealthNotify) -> None:
        """Tell of an instance's health whoever has to hear of it."""
        wanted = channels(notify)
        before = dict(self._told)
        for severity in dict.fromkeys(channel.severity for channel in wanted):
            key, found = (status.instance, severity), serious(status.findings, severity)
            known = self._told.get(key)
            why = occasion(known, found, status.looked, timedelta(seconds=notify.repeat))
            if now := told(found, status.looked, known, why):
                self._told[key] = now
            else:
                self._told.pop(key, None)
            if why is None:
                continue
            host = socket.gethostname()
            notice = Notice(
                occasion=why, instance=status.instance, host=host, health=status.health, findings=found
            )
            for channel in wanted:
                if channel.severity == severity:
                    self._put(channel, notice)
        if self._told != before:
            self._write()

    def _put(self, channel: Channel, notice: Notice) -> None:
        self._lines.line("notices", name_of(channel)).put(lambda: self._deliver(channel, notice))

    def _deliver(self, channel: Channel, notice: Notice) -> None:
        for pause in (*PAUSES_S, None):
            try:
                send(channel, notice)
            except ZbackupError as failure:
                if pause is None:
                    log.error("notice.failed", channel=name_of(channel), reason=str(failure))
                    return
                self._sleep(pause)
            else:
                log.info("notice.sent", channel=name_of(channel), title=notice.title)
                return

    def _write(self) -> None:
        rows = [
            {
                "instance": k[0],
                "severity": k[1],
                "at": t.at.isoformat(),
                "problems": sorted(map(list, t.problems)),
            }
            for k, t in self._told.items()
        ]
        try:
            secure_files.ensure_directory(self._path.parent)
            secure_files.replace(
                self._path, json.dumps({"version": 1, "told": rows}, indent=1) + "\n", mode=0o640
            )
        except (OSError, Refused) as failure:
            log.warning("notices.not_written", file=str(self._path), reason=str(failure))


def _read(path: Path) -> dict[Key, Told]:
    try:
        rows = json.loads(secure_files.read_text(path))["told"]
        return {
            (str(row["instance"]), str(row["severity"])): Told(
                frozenset((str(severity), str(subject)) for severity, subject in row["problems"]),
                _at(row["at"]),
            )
            for row in rows
        }
    except FileNotFoundError:
        return {}
    except (OSError, Refused, ValueError, KeyError, TypeError) as unreadable:
        log.warning("notices.unreadable", file=str(path), reason=str(unreadable))
        return {}


def _at(text: str) -> datetime:
    return bounds.moment(str(text))
