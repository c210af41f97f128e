"""Fifty hosts with MariaDB 10.11 are lost under load, and come back from their log archives."""

import pytest

from tests.lab.pool import Pool
from tests.lab.two_hosts import TwoHosts, hosts
from tests.slow.lost_hosts import lose_hosts

__all__ = ["hosts"]

BEHIND_A_GATE = 10


@pytest.mark.timeout(10_800)
def test_what_was_archived_survives_each_of_them(pool: Pool) -> None:
    lose_hosts(pool, "mariadb-10.11")


@pytest.mark.timeout(10_800)
def test_what_was_archived_through_a_gate_survives_each_of_them(pool: Pool, hosts: TwoHosts) -> None:
    lose_hosts(pool, "mariadb-10.11", BEHIND_A_GATE, hosts)
