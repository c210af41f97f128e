"""Findings about clones that nobody finished."""

from dataclasses import replace

import pytest

from tests.unit.plan.test_health import WELL
from tests.unit.reports import CLONE
from zbackup.model.clone import Kind, State
from zbackup.model.finding import worst
from zbackup.plan.health.advice_on_arrangements import Expected
from zbackup.plan.health.health import judge
from zbackup.plan.health.unfinished_clones import Leftover, is_unfinished

REMOVE = "zbackup clone destroy x"


@pytest.mark.parametrize(
    ("kind", "state", "name", "says", "fix"),
    [
        ("restore", "building", "x", "the restore x was never finished", REMOVE),
        ("log", "building", "x.log", "the copy of the log x.log, of the restore x", f"{REMOVE}.log"),
        ("copy", "building", "x.copy", "what was fetched for the restore x", f"{REMOVE}.copy"),
        ("dev", "building", "x", "the clone x was never finished", REMOVE),
        ("dev", "failed", "x", "the clone x failed, and was kept for a look", REMOVE),
        ("dev", "resetting", "x", "the clone x is half reset", "zbackup clone reset x"),
        ("dev", "promoting", "x", "the clone x is half copied", "zbackup clone promote x"),
        ("dev", "destroying", "x", "the clone x is half destroyed", REMOVE),
    ],
)
def test_an_instance_with_a_leftover_is_not_ok(
    kind: Kind, state: State, name: str, says: str, fix: str
) -> None:
    left = Leftover(clone=replace(CLONE, kind=kind, state=state, name=name), running=True)
    found = judge(replace(WELL, leftovers=(left,)), Expected())
    assert worst(found) == "warning"
    (said,) = found
    assert said.text.startswith(says) and said.text.endswith(", and its server runs")
    assert (said.subject, said.fix) == ("clones", fix)


def test_a_clone_in_use_is_nobodys_leftover() -> None:
    states: tuple[State, ...] = ("ready", "switching", "switched", "undoing")
    assert not any(is_unfinished(replace(CLONE, state=state)) for state in states)
    assert is_unfinished(replace(CLONE, state="building"))
    assert is_unfinished(replace(CLONE, kind="copy", state="ready")), "what was fetched belongs to a restore"
    stopped = Leftover(clone=replace(CLONE, state="building"), running=False)
    (said,) = judge(replace(WELL, leftovers=(stopped,)), Expected())
    assert "its server runs" not in said.text
