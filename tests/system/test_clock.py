"""Recovery when times in the log are wrong."""

from tests.system.clock_story import ClockStory, odd

VARIANTS = ("mariadb-10.11",)
SLOW_VARIANTS = ("mysql-9.7",)
__all__ = ["odd"]


class TestClock(ClockStory):
    """See ClockStory."""
