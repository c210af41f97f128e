"""Production's server is stopped and started by its operator's service, and what it says is looked at."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from zbackup.features.switch import switch as room
from zbackup.features.switch.switch import STARTING_S, inspect, service_of, start, stop
from zbackup.jobs.context import Context
from zbackup.model.errors import (
    CommandFailed,
    CommandTimedOut,
    ConfigError,
    DatabaseError,
    NotInService,
    Refused,
)
from zbackup.model.switch import ServiceCommands

SILENT, WAITING = DatabaseError("it does not answer"), NotInService("initiate it again")
PLAIN = ServiceCommands(stop=("service", "stop"), start=("service", "start"), limit=10.0)
FAILURE = CommandFailed(("service", "stop"), 1, "no")


class Host:
    """A server that says this, one after the other and the last for ever; a second passes with each look."""

    def __init__(self, says: Sequence[Any]) -> None:
        self.says, self.now, self.ran, self.notes = list(says), 0.0, list[str](), list[str]()
        self.fails: dict[str, BaseException] = {}

    def inspect(self) -> Any:
        self.now += 1
        said = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if isinstance(said, Exception):
            raise said
        return said

    def run(self, argv: Sequence[str], *, timeout: float) -> None:
        assert timeout == 10.0
        self.ran.append(argv[1])
        if argv[1] in self.fails:
            raise self.fails[argv[1]]

    def context(self, service: ServiceCommands | None = PLAIN) -> Context:
        ctx = SimpleNamespace(
            instance="shop",
            service=service,
            engine=self,
            clock=SimpleNamespace(monotonic=lambda: self.now),
            progress=SimpleNamespace(phase=lambda *_: None, note=self.notes.append),
            members=lambda: "members",
        )
        return cast(Context, ctx)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(room, "run", lambda *_, **__: None)
    monkeypatch.setattr(room, "POLL_S", 0.0)
    monkeypatch.setattr(room, "require_one_snapshot_covers", lambda *_: None)
    yield


FACTS = SimpleNamespace(data_paths="places")


def host(monkeypatch: pytest.MonkeyPatch, *says: Any) -> Host:
    made = Host(says)
    monkeypatch.setattr(room, "run", made.run)
    return made


def test_without_a_service_nobody_can_stop_it() -> None:
    for job in (service_of, inspect, stop, start):
        with pytest.raises(ConfigError, match=r"instance\.shop\.service"):
            job(Host([FACTS]).context(None))  # type: ignore[operator]


def test_what_it_said_before_is_known_if_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert inspect(host(monkeypatch, FACTS).context()) is FACTS
    silent = host(monkeypatch, SILENT)
    assert inspect(silent.context()) is None and "does not answer before it is stopped" in silent.notes[0]


def test_it_is_stopped_when_nobody_answers_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = host(monkeypatch, FACTS, WAITING, FACTS, SILENT)
    stop(slow.context())
    assert slow.ran == ["stop"] and slow.now == 4
    for answer in (FACTS, WAITING):
        stays = host(monkeypatch, answer)
        with pytest.raises(DatabaseError, match="still answers 10 s after its stop"):
            stop(stays.context())
        assert stays.now > 10


@pytest.mark.parametrize("failure", [FAILURE, KeyboardInterrupt()])
@pytest.mark.parametrize(
    ("second", "note"),
    [
        (None, None),
        (CommandTimedOut(("service", "start"), 1, "slow"), "starts it again afterwards"),
        (CommandFailed(("service", "start"), 1, "no"), "it may still be stopped: "),
    ],
)
def test_a_stop_that_failed_is_withdrawn_from_systemd_alone(
    monkeypatch: pytest.MonkeyPatch, failure: BaseException, second: BaseException | None, note: str | None
) -> None:
    broken = host(monkeypatch, FACTS)
    broken.fails = {"stop": failure} | ({"start": second} if second else {})
    with pytest.raises(type(failure)):
        stop(broken.context())
    assert (broken.ran, broken.notes) == (["stop"], [])
    with pytest.raises(type(failure)):
        stop(broken.context(replace(PLAIN, by_systemd=True)))
    assert broken.ran[1:] == ["stop", "start"] and [note in each for each in broken.notes if note] == [
        True
    ] * bool(note)


def test_it_is_started_unless_it_runs_and_seen_to_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    up = host(monkeypatch, FACTS)
    assert start(up.context()) == "" and up.ran == []
    down = host(monkeypatch, SILENT, SILENT, WAITING, FACTS)
    assert start(down.context()) == "" and down.ran == ["start"] and down.now == 4


def test_one_that_does_not_come_up_in_time_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    down = host(monkeypatch, SILENT)
    with pytest.raises(DatabaseError, match="no answer within 10 s: it does not answer"):
        start(down.context())
    assert down.now > 10


def test_a_member_that_waits_for_its_set_is_left_to_its_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = host(monkeypatch, WAITING)
    assert start(waits.context()) == "initiate it again"
    assert waits.now > STARTING_S and waits.ran == []


def test_one_whose_files_are_elsewhere_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(places: str, members: str) -> None:
        assert (places, members) == ("places", "members")
        raise Refused("its files are elsewhere")

    monkeypatch.setattr(room, "require_one_snapshot_covers", elsewhere)
    with pytest.raises(Refused, match="elsewhere"):
        start(host(monkeypatch, FACTS).context())
