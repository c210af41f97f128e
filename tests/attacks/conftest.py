"""Attacks by hostile users, keys, buckets and backups on real ZFS with real servers: `lab test
tests/attacks`.

Each test takes the part of one attacker of SECURITY.md and does what he could do, and asks what he gained.
"""

from tests.lab.pool import pool, pytest_addoption, pytest_runtest_logreport
from tests.system.conftest import door, house

__all__ = ["door", "house", "pool", "pytest_addoption", "pytest_runtest_logreport"]
