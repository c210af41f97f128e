"""The daemon's lanes of log archives: one for each instance and destination, as the configuration says."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.daemon import service
from zbackup.daemon.service import Archivers

INSTANCE = """
[instance.{name}]
engine = "mysql"
datasets = ["tank/{name}"]
[[instance.{name}.ship]]
name = "offsite"
to = "ssh://backup@host/tank/backups"
[[instance.{name}.ship]]
name = "cloud"
to = "s3://bucket/prefix"
{archive}
"""


def settings(tmp_path: Path, **archived: str) -> Settings:
    file = tmp_path / "config.toml"
    tables = {name: f"[instance.{name}.archive]\nto = {to}\n" if to else "" for name, to in archived.items()}
    file.write_text("".join(INSTANCE.format(name=name, archive=table) for name, table in tables.items()))
    return load(file)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The lanes that were begun; each lives until it is told to stop."""
    found: list[tuple[str, str]] = []

    def lane(ctx: Any, target: Any, stop: threading.Event, told: object, paused: object) -> Any:
        def run() -> None:
            found.append((ctx.instance, target.name))
            stop.wait(60)

        return SimpleNamespace(run=run)

    monkeypatch.setattr(service, "KeepUp", lane)
    return found


def until(condition: Any) -> None:
    pause = threading.Event()
    for _ in range(600):
        if condition():
            return
        pause.wait(0.1)
    raise AssertionError("it took a minute")


def test_lanes_follow_the_configuration(tmp_path: Path, begun: list[tuple[str, str]]) -> None:
    lanes = Archivers(lambda *_: None, lambda _: False)
    lanes.set(settings(tmp_path, shop='["offsite", "cloud"]', wiki=""))
    until(lambda: sorted(begun) == [("shop", "cloud"), ("shop", "offsite")])
    lanes.set(settings(tmp_path, shop='["offsite", "cloud"]', wiki='["cloud"]'))
    until(lambda: begun[2:] == [("wiki", "cloud")])
    # What has changed is begun anew, and what is gone ends.
    lanes.set(settings(tmp_path, shop='["offsite"]', wiki='["cloud"]'))
    until(lambda: begun[3:] == [("shop", "offsite")])
    lanes.set(settings(tmp_path, shop="", wiki=""))
    until(lambda: not lanes.running())
    assert len(begun) == 4


def test_a_lane_that_comes_to_nothing_is_told_of(tmp_path: Path, begun: list[tuple[str, str]]) -> None:
    told: list[tuple[str, str, object]] = []
    lanes = Archivers(
        lambda name, state: told.append((name, state.destination, state.archived)), lambda _: False
    )
    lanes.set(settings(tmp_path, shop='["cloud"]'))
    lanes.stop()
    assert told == [("shop", "cloud", None)]


def test_told_to_stop_all_end(tmp_path: Path, begun: list[tuple[str, str]]) -> None:
    lanes = Archivers(lambda *_: None, lambda _: False)
    lanes.set(settings(tmp_path, shop='["offsite", "cloud"]'))
    until(lambda: len(begun) == 2)
    lanes.stop()
    until(lambda: not lanes.running())


def test_a_defect_ends_no_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    class Lane:
        def __init__(self, _: Any, __: Any, stop: threading.Event, *___: Any) -> None:
            self.stop = stop
            monkeypatch.setattr(stop, "wait", lambda _: None)

        def run(self) -> None:
            runs.append(1)
            if len(runs) > 2:
                self.stop.set()
            raise KeyError("a defect")

    monkeypatch.setattr(service, "KeepUp", Lane)
    lanes = Archivers(lambda *_: None, lambda _: False)
    lanes.set(settings(tmp_path, shop='["offsite"]'))
    until(lambda: len(runs) == 3)
