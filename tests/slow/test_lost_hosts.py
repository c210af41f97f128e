"""Fifty hosts are lost under load, and come back from their log archives."""

import pytest

from tests.lab.pool import Pool
from tests.lab.two_hosts import TwoHosts, hosts
from tests.lab.variants import Variant
from tests.slow.lost_hosts import lose_hosts

VARIANTS = ("mysql-9.7", "mariadb-10.11")

__all__ = ["hosts"]

BEHIND_A_GATE = 10


@pytest.mark.timeout(10_800)
def test_what_was_archived_survives_each_of_them(pool: Pool, variant: Variant) -> None:
    lose_hosts(pool, variant.flavour)


@pytest.mark.told_with("mariadb-10.11")
@pytest.mark.timeout(10_800)
def test_what_was_archived_through_a_gate_survives_each_of_them(
    pool: Pool, variant: Variant, hosts: TwoHosts
) -> None:
    lose_hosts(pool, variant.flavour, BEHIND_A_GATE, hosts)
