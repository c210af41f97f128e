"""Odd servers of MongoDB 6.0, every two oddities together: what `check` calls ready restores exactly.

To repeat combination 17, in the lab: python -m tests.odd.campaign FLAVOUR 17
"""

from tests.odd.lanes import every_two, forked

__all__ = ["forked"]

test_what_is_ready_restores = every_two("mongodb-6.0")
