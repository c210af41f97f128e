"""Numbers of examples that a property is tried with: few at each check, always others, and many in the slow
lane."""

import os

TIMES = float(os.environ.get("ZBACKUP_EXAMPLES", "0.3"))
"""By how much the numbers in the tests are multiplied."""


def examples(count: int) -> int:
    """Return what is to be tried of `count` examples."""
    return max(1, round(count * TIMES))
