"""Fifty hosts with MySQL 9.7 are lost under load, and come back from their log archives."""

import pytest

from tests.lab.pool import Pool
from tests.slow.lost_hosts import lose_hosts


@pytest.mark.timeout(10_800)
def test_what_was_archived_survives_each_of_them(pool: Pool) -> None:
    lose_hosts(pool, "mysql-9.7")
