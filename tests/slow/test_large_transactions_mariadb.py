"""Transactions of more than 1 GiB of row events, on MariaDB 10.11."""

import pytest

from tests.slow.large_transactions import LargeTransactions, house
from tests.system.house import Variant

__all__ = ["house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestLargeTransactions(LargeTransactions):
    """See LargeTransactions."""
