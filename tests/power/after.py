"""After the power came back: is everything there that was promised, and nothing that looks like more?"""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.lab.load import rows, verify
from tests.lab.load_journal import judge, nanoseconds, read
from tests.lab.pool import run
from tests.system.house import Connection, House, utc

CLONE = "again"
"""The name of every restore under way when the power is cut."""


class After:
    """The examination of one boot. `say` tells the host what was seen."""

    def __init__(self, house: House, journal: Path) -> None:
        self.house, self.journal = house, journal
        self.seen: list[str] = []

    def examine(self) -> str:
        """Raise AssertionError when a promise is broken; returns in one line what was found.

        The server has been started, which is its recovery.
        """
        with self.house.server.connect() as production:
            verdict = verify(production, self.journal)
        self.seen.append(f"{verdict.required} acknowledged")
        listed = self.house.backups()
        self._everything_is_listed_or_reported(listed)
        self._clones_are_listed_or_removed()
        self._backups_restore_exactly(listed)
        self._keep_the_newest_only()
        return ", ".join(self.seen)

    def _everything_is_listed_or_reported(self, listed: list[dict[str, Any]]) -> None:
        known = {f"{s['dataset']}@{s['name']}" for backup in listed for s in backup["snapshots"]}
        there = {name for name in self.house.snapshots() if not name.startswith(self.house.clones)}
        assert there == known, f"snapshots {there ^ known} are in no backup"
        unfinished = [b["name"] for b in listed if not b["finished"]]
        report = self._check()
        assert all(b["complete"] for b in listed), listed
        for name in unfinished:
            assert any(name in line for line in report), f"{name} is not reported: {report}"
        if unfinished:
            self.seen.append(f"{len(unfinished)} unfinished and reported")

    def _check(self) -> list[str]:
        checked = self.house.zb("check", "--json")
        assert checked.rc == 0, str(checked)
        (report,) = json.loads(checked.out)["data"]
        return [f["text"] for f in report["findings"] if f["severity"] != "ok"]

    def _clones_are_listed_or_removed(self) -> None:
        """One that was finished starts; what was not is reported, and the next restore removes it."""
        states = {c["name"]: c["state"] for c in self.house.zb("clone", "list", "--json").data}
        below = self.house.names() - self.house.snapshots()
        parts = {n.split("/")[2] for n in below if n.startswith(f"{self.house.clones}/")}
        assert parts == set(states), "a dataset among the clones belongs to none"
        report = self._check()
        for name, state in states.items():
            if state == "building":
                assert any(name in line for line in report), f"{name} is not reported: {report}"
        if states.get(CLONE) == "ready":
            started = self.house.zb("clone", "start", CLONE, "--json").data
            assert started["running"]
            with self.house.clone(started) as clone:
                self._holds_all_before(clone, utc(started["target"]))
            self.house.destroy(CLONE)
            states.pop(CLONE)
            self.seen.append("a finished clone starts")
        if states:
            self._restore("now", None)
            assert self.house.zb("clone", "list", "--json").data == []
            self.seen.append("unfinished clones gone: " + " ".join(sorted(states)))

    def _holds_all_before(self, clone: "Connection[Any]", moment: datetime) -> None:
        """A restore to "now" holds what was acknowledged by then, and may hold what came while it looked."""
        limit = nanoseconds(moment)
        entries = [e if (e.acked or limit) < limit else replace(e, acked=None) for e in read(self.journal)]
        judge(rows(clone), entries, None)

    def _backups_restore_exactly(self, listed: list[dict[str, Any]]) -> None:
        """Each that is a base; the finished ones as they are, the others once the next snapshot did that."""
        self.house.snapshot()
        now = self.house.backups()
        assert all(b["complete"] and b["finished"] for b in now), now
        names = {b["backup"] for b in listed}
        bases = [b for b in now if b["backup"] in names and b["purpose"] == "base"]
        for backup in bases:
            self._restore(self._moment_of(backup), backup)
        self.seen.append(f"{len(bases)} backups exact")

    def _moment_of(self, backup: dict[str, Any]) -> datetime:
        """The first moment at which that backup is the one to start from."""
        as_of = utc(backup["as_of"])
        if self.house.server.settings.kind == "mysql":
            return as_of + timedelta(microseconds=1)
        return as_of.replace(microsecond=0) + timedelta(seconds=1)

    def _restore(self, moment: str | datetime, base: dict[str, Any] | None) -> None:
        report = self.house.restore(moment, CLONE)
        assert base is None or report["base"]["as_of"] == base["as_of"]
        with self.house.clone(report) as clone:
            verify(clone, self.journal, utc(report["replay"]["effective_target"]))
        self.house.destroy(CLONE)

    def _keep_the_newest_only(self) -> None:
        """What was examined need not be again."""
        newest = self.house.backups()[-1]["name"]
        for name in self.house.snapshots():
            if not name.endswith(f"@{newest}"):
                run("zfs", "destroy", name)
        logs = [str(row[0]) for row in self.house.server.sql("SHOW BINARY LOGS")]
        if len(logs) > 2:
            self.house.server.sql(f"PURGE BINARY LOGS TO '{logs[-2]}'")
