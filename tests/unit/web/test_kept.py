"""Answers that are kept a while, for many who look at once."""

import threading
from datetime import datetime

from tests.unit.web.host import NOW, Told
from zbackup.model.operation import Operation
from zbackup.model.overview import Marks, Overview
from zbackup.web.source import FOLLOWED_S, FRESH_S, CloneWish, SharedSource


class Reading(Told):
    """Its log takes as long as somebody wants."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.goes_on = threading.Event(), threading.Event()

    def marks(self, instance: str, since: datetime, until: datetime) -> Marks:
        self.began.set()
        assert self.goes_on.wait(60)
        return super().marks(instance, since, until)


def test_nobody_waits_for_a_log_that_somebody_else_has_read() -> None:
    source = Reading()
    kept = SharedSource(source)
    seen = threading.Event()

    def look() -> None:
        kept.overview()
        kept.fleet()
        seen.set()

    reading = threading.Thread(target=lambda: kept.marks("shop", NOW, NOW), daemon=True)
    reading.start()
    try:
        assert source.began.wait(60)
        threading.Thread(target=look, daemon=True).start()
        assert seen.wait(60)
    finally:
        source.goes_on.set()
        reading.join(60)


class Counted(Told):
    """It says how often it was asked. `meanwhile` happens while it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.followed = self.looked = 0
        self.meanwhile = lambda: None

    def operations(self) -> tuple[Operation, ...]:
        self.followed += 1
        found = super().operations()
        self.meanwhile()
        return found

    def overview(self) -> Overview:
        self.looked += 1
        found = super().overview()
        self.meanwhile()
        return found


WISH = CloneWish(verb="create", who="ann", instance="shop", clone="", id="ab" * 16)
ONE = Operation(id="ab" * 16, verb="create", instance="shop", clone="", who="ann", began=NOW)


def test_many_who_follow_an_operation_ask_once() -> None:
    now = [100.0]
    source = Counted()
    kept = SharedSource(source, lambda: now[0])
    for _ in range(9):
        kept.operations()
        kept.overview()
    assert (source.followed, source.looked) == (1, 1)
    now[0] += FOLLOWED_S + 1
    kept.operations()
    kept.overview()
    assert (source.followed, source.looked) == (2, 1)
    now[0] += FRESH_S
    kept.overview()
    assert source.looked == 2


def test_what_was_asked_for_is_there_at_once() -> None:
    now = [100.0]
    source = Counted()
    kept = SharedSource(source, lambda: now[0])

    def ordered() -> None:
        source.meanwhile = lambda: None
        now[0] += 0.1
        kept.order(WISH)
        source.went = (ONE,)

    source.meanwhile = ordered
    assert kept.operations() == ()  # as it was when it was asked
    now[0] += 0.1
    assert kept.operations() == (ONE,)
    kept.overview()
    now[0] += 0.1
    kept.order(WISH)
    now[0] += 0.1
    kept.overview()
    assert source.looked == 2
