"""Phases and how long they took, told on as it happens."""

from zbackup.model.progress import Phase, Silent, Stopwatch


class Told(Silent):
    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []

    def phase(self, name: str, detail: str = "") -> None:
        self.said.append((name, detail))

    def advance(self, done: int, total: int, unit: str = "B") -> None:
        self.said.append((done, total, unit))

    def note(self, text: str) -> None:
        self.said.append((text,))


def test_each_phase_has_its_seconds_and_whoever_watches_sees_the_same() -> None:
    now = 100.0
    told = Told()
    watch = Stopwatch(told, lambda: now)
    now += 5  # nothing has begun yet
    watch.phase("inspecting", "which backup")
    now += 1.5
    watch.phase("replaying")
    watch.advance(1, 2, "transactions")
    now += 3
    watch.phase("inspecting", "again")
    now += 0.25
    watch.note("careful")
    assert watch.phases() == (Phase("inspecting", 1.75), Phase("replaying", 3.0))
    now += 9
    assert watch.phases() == (Phase("inspecting", 1.75), Phase("replaying", 3.0)), "it is over"
    assert told.said == [
        ("inspecting", "which backup"), ("replaying", ""), (1, 2, "transactions"), ("inspecting", "again"),
        ("careful",),
    ]  # fmt: skip
