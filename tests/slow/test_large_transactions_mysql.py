"""Transactions of more than 1 GiB of row events, on MySQL 9.7."""

import pytest

from tests.slow.large_transactions import LargeTransactions, house
from tests.system.house import Variant

__all__ = ["house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestLargeTransactions(LargeTransactions):
    """See LargeTransactions."""
