"""Answers that are kept a while, for many who look at once."""

import threading
from datetime import datetime

from tests.unit.web.host import NOW, Told
from zbackup.model.overview import Marks
from zbackup.web.source import Kept


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
    kept = Kept(source)
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
