"""Odd MySQL servers: what `check` calls ready restores exactly, and what it refuses is refused in one line.

A few combinations; tests/slow tells two hundred. See tests/odd.
"""

from tests.odd.lanes import a_few, forked

__all__ = ["forked"]

test_what_is_ready_restores = a_few("mysql-9.7")
