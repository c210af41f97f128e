"""The law that every odd server is judged by, and the datasets it lives on.

What `check` calls ready restores exactly. What does not restore, `check` has refused or named before, and the
refusal is one clear line.
"""

import contextlib
import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pymysql
from pymongo.errors import PyMongoError

from tests.lab.pool import Pool, PoolError, run
from tests.odd.incidents import CLONE, INCIDENTS
from tests.odd.outcome import Moment, Outcome
from tests.odd.sql_levels import USUAL, Level, refused
from tests.odd.worlds import World, named
from tests.system.house import Zbackup, local, next_second

ODD_NAME = "m'nt ü $(x) %41 [a]*"
ASKED = 15
"""The exit status where the log can be read in two ways."""

WITH_OTHER_SETTINGS = 19
"""The exit status of a restore whose rows may differ, since a setting did."""

ROLLED_BACK = ("datasets were rolled back", "has lost its snapshot of")
"""Why moments of a history that is gone are refused."""

KEY_WANTED = "the key is not loaded"

ODD_CLOCKS = ("past", "future", "ahead")

OWN_TO_THE_FIRST = ("encryption", "key", "ref", "quota")
"""How properties begin that the datasets below do not repeat."""


class Story:
    """One row of levels, told once. Nothing of it is left behind."""

    levels: Mapping[str, Mapping[str, Level]]
    worlds: Mapping[str, World]

    def __init__(
        self, flavour: str, row: Mapping[str, str], pool: Pool, home: Path, outcome: Outcome
    ) -> None:
        self.outcome = outcome
        self._flavour, self._row, self._pool, self._home = flavour, row, pool, home
        self._name = f"{row['dataset']}{home.name}"

    def tell(self, forks: Any = None) -> None:
        """Build the server, let it live, restore, and take everything away again."""
        raise NotImplementedError

    def compare(self, clone: Any, moment: Moment, report: dict[str, Any]) -> None:
        """Raise AssertionError when a recovered server is not as it was."""
        raise NotImplementedError

    def contents(self, house: Any) -> Mapping[str, Any]:
        """What the server's data are now, as `compare` wants it."""
        raise NotImplementedError

    def _level(self, factor: str) -> Level:
        return self.levels[factor][self._row[factor]] if factor in self.levels else USUAL

    # the law

    def _refused(self, house: Any) -> bool:
        """Ask `check` at the beginning; return whether it refuses the server."""
        levels = [self._level(factor) for factor in self._row]
        wanted = [word for level in levels if (word := refused(level, self._flavour))]
        rc, findings = self._check(house)
        errors = [f"{f['subject']}: {f['text']}" for f in findings if f["severity"] == "critical"]
        if not wanted:
            if rc or errors:
                self.outcome.problems.append(f"check ends with {rc} and says {errors}, and nothing is wrong")
            return bool(rc or errors)
        said = [line for line in errors if any(word in line for word in wanted)]
        if not rc or not said:
            self.outcome.problems.append(f"check ends with {rc} and does not say {wanted}: {errors}")
        self.outcome.notes += said
        then = self.contents(house)
        taken = house.zb("snapshot", "--json")
        if taken.rc:
            self._one_line(taken, "snapshot")
            return True
        self._restore_as_it_is(house, taken.data[0]["snapshot"]["name"], then)
        restored = house.zb("-q", *house.restoring(local(next_second()), "refused"))
        if restored.rc:
            self._one_line(restored, "restore")
        else:
            house.destroy("refused")
        return True

    def _restore_as_it_is(self, house: Any, name: str, then: Mapping[str, Any]) -> None:
        """What `list` says of a backup that leads to no moment must hold, too."""
        promised = name in house.zb("list", "--json").data[0]["as_they_are"]
        restored = house.zb("-q", "restore", "--to-backup", name, "--name", "as-it-is", "--json")
        if restored.rc:
            self._one_line(restored, "as it is")
        if promised == bool(restored.rc):
            self.outcome.problems.append(f"{name} promised as it is: {promised}, and restored: {restored}")
        if restored.rc:
            return
        report = restored.data
        try:
            with house.clone(report) as clone:
                self.compare(clone, Moment(name="as it is", to="", sums=then), report)
        except (AssertionError, pymysql.MySQLError, PyMongoError) as wrong:
            self.outcome.problems.append(f"{name} restored wrongly as it is: {wrong}")
        self.outcome.notes.append("restored as it is")
        house.destroy("as-it-is")

    def _check(self, house: Zbackup) -> tuple[int, list[dict[str, Any]]]:
        result = house.zb("check", "--json")
        with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
            return result.rc, list(json.loads(result.out)["data"][0]["findings"])
        self.outcome.problems.append(f"check: {result}")
        return result.rc, []

    def _ready(self, house: Zbackup) -> list[dict[str, Any]]:
        """What `check` says before anything is restored, which must be no error where nothing is broken."""
        with self._timed("check"):
            rc, findings = self._check(house)
        broken = [word for factor in self._row if (word := self._level(factor).broken)]
        errors = [f["text"] for f in findings if f["severity"] == "critical"]
        if broken and rc and all(any(word in text for word in broken) for text in errors):
            self.outcome.notes += errors
        elif rc or broken:
            self.outcome.problems.append(f"check ends with {rc} after all went well: {findings}")
        return findings

    def _restore(
        self, house: Any, moment: Moment, findings: list[dict[str, Any]], name: str, *words: str
    ) -> None:
        with self._timed(f"restore {name}"):
            result = self._with_keys(house, "-q", *house.restoring(moment.to, name, *words))
            if moment.lost:
                self._lost(result, moment)
                return
            if result.rc == ASKED and self._row.get("clock") in ODD_CLOCKS:
                # `check` names no single transaction of MariaDB's: it may be a slow statement's.
                self._one_line(result, moment.name)
                return
            if result.rc == WITH_OTHER_SETTINGS and self._refusals(result.out):
                self.outcome.notes.append(f"{moment.name}: restored with a warning that names it")
                house.destroy(name)
                return
            if result.rc:
                self._named(result, moment, findings)
                return
            report = json.loads(result.out)["data"]
            try:
                with house.clone(report) as clone:
                    self.compare(clone, moment, report)
            except (AssertionError, pymysql.MySQLError, PyMongoError) as wrong:
                self.outcome.problems.append(f"{moment.name}: restored wrongly: {wrong}")
            self._befalls(CLONE, house)
            house.destroy(name)

    def _with_keys(self, house: Any, *words: str) -> Any:
        """Run it once more when what it fetched waits for its key, which people load then."""
        result = house.zb(*words)
        if not result.rc or KEY_WANTED not in result.err:
            return result
        listed = run("zfs", "list", "-Hro", "name,keystatus", house.clones).splitlines()
        key = self._home / ("key" if self._row["keys of datasets"] == "encrypted" else "key of copies")
        for dataset, status in (line.split("\t") for line in listed):
            if status == "unavailable":
                run("zfs", "load-key", "-L", f"file://{key}", dataset)
        return house.zb(*words)

    def _lost(self, result: Any, moment: Moment) -> None:
        """Nobody can have it, and that must be said."""
        if result.rc:
            self._one_line(result, moment.name)
        else:
            self.outcome.problems.append(
                f"{moment.name}: its log is nowhere, and it was restored: {result.out}"
            )

    def _befalls(self, when: str, house: Any) -> None:
        """Do what the row's incident does at this time."""
        if act := INCIDENTS.get(self._row["incident"], {}).get(when):
            with self._timed(f"{self._row['incident']} {when}"):
                act(house, self.outcome)

    def _named(self, result: Any, moment: Moment, findings: list[dict[str, Any]]) -> None:
        """It does not restore: that must have been named."""
        self._one_line(result, moment.name)
        if "Traceback" in result.err:
            self.outcome.problems.append(f"{moment.name}: {result.err}")
            return
        if self._row.get("past", "kept") != "kept" and any(why in result.err for why in ROLLED_BACK):
            self.outcome.notes.append(f"{moment.name}: refused, as of two histories")
            return
        if self._refusals(result.err):
            self.outcome.notes.append(f"{moment.name}: refused, naming it")
            return
        levels = [self._level(factor) for factor in self._row]
        words = [word for level in levels if (word := level.named or level.broken)]
        found = [f for f in findings if f["severity"] in ("warning", "critical")]
        said = [f["text"] for f in found for word in words if word in f["text"]]
        if said:
            self.outcome.notes.append(f"{moment.name}: named by check: {said[0]}")
        else:
            self.outcome.problems.append(f"{moment.name}: check called it ready: {result.err.strip()}")

    def _refusals(self, said: str) -> bool:
        """Whether what a world of the row may be refused for is named."""
        told = [self.worlds[name] for name in named(self._row)]
        return any(word in said for world in told for word in (world.refusal, world.warned) if word)

    def _one_line(self, result: Any, what: str) -> None:
        lines = [line for line in result.err.splitlines() if line.startswith("zbackup: ")]
        if len(lines) != 1 or "unexpected" in result.err:
            self.outcome.problems.append(
                f"{what}: refused by {result.rc} with {len(lines)} lines: {result.err}{result.out[-2000:]}"
            )
        else:
            self.outcome.notes.append(f"{what}: {lines[0]}")

    # around it

    @contextlib.contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.outcome.seconds[what] = round(time.monotonic() - began, 1)

    def _remove(self) -> None:
        """All datasets of the story and of its clones."""
        pool = self._pool.name
        names = run("zfs", "list", "-Hro", "name", "-d", "1", pool).split("\n")
        for name in sorted(names, key=lambda n: not n.endswith("/zbackup")):
            if name == f"{pool}/zbackup" or name.startswith(f"{pool}/{self._name}"):
                _destroyed(name)


class Datasets:
    """The datasets of one server, with the properties and mount points of its row."""

    def __init__(
        self, row: Mapping[str, str], levels: Mapping[str, Mapping[str, Level]], home: Path, first: str
    ) -> None:
        self._mount_as, self._home = row["mount"], home
        self.names = [first]
        self.by_hand: list[Path] = []
        """Mounted by hand, since the datasets leave it to the administrator."""
        self._properties: dict[str, str] = {}
        for factor, known in levels.items():
            self._properties |= known[row[factor]].properties
        if row["keys of datasets"] == "encrypted":
            key = home / "key"
            key.write_text("a long passphrase\n")
            asked = {"keyformat": "passphrase", "keylocation": f"file://{key}"}
            self._properties |= {"encryption": "aes-256-gcm", **asked}

    def first(self) -> Path:
        """The first of them, mounted as the row says."""
        match self._mount_as:
            case "odd":
                where = self._home / ODD_NAME / "data"
            case "linked parent":
                (self._home / "real").mkdir()
                (self._home / "link").symlink_to(self._home / "real")
                where = self._home / "link" / "data"
            case _:
                where = self._home / "data"
        return self._mount(self.names[0], where)

    def below(self, name: str, where: Path) -> Path:
        """One within the first."""
        return self._mount(f"{self.names[0]}/{name}", where)

    def beside(self, name: str) -> Path:
        """Another one of the instance's."""
        dataset = f"{self.names[0]}-{name}"
        self._mount(dataset, self._home / name)
        self.names.append(dataset)
        return self._home / name

    def unmount(self) -> None:
        """What was mounted by hand."""
        for where in reversed(self.by_hand):
            subprocess.run(["umount", "-f", str(where)], check=False, capture_output=True)

    def _mount(self, name: str, where: Path) -> Path:
        properties = dict(self._properties)
        if name.startswith(self.names[0] + "/"):
            properties = {k: v for k, v in properties.items() if not k.startswith(OWN_TO_THE_FIRST)}
        legacy = self._mount_as == "legacy"
        properties["mountpoint"] = "legacy" if legacy else str(where)
        run("zfs", "create", *(f"-o{key}={value}" for key, value in properties.items()), name)
        if legacy:
            where.mkdir(parents=True, exist_ok=True)
            run("mount", "-t", "zfs", name, str(where))
            self.by_hand.append(where)
        return where


def _release(name: str) -> None:
    """What is being sent is held by who sends it."""
    snapshots = run("zfs", "list", "-Hrt", "snapshot", "-o", "name", name).splitlines()
    held = run("zfs", "holds", "-H", *snapshots).splitlines() if snapshots else []
    for line in held:
        snapshot, tag, _ = line.split("\t", 2)
        run("zfs", "release", tag, snapshot)


def _destroyed(name: str) -> None:
    for attempt in range(40):
        try:
            _release(name)
            run("zfs", "destroy", "-rRf", name)
            return
        except PoolError as failed:
            if "does not exist" in str(failed):
                return  # it went with another that was a clone of it
            if attempt == 39:
                raise
            time.sleep(0.25)
