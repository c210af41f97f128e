"""Transactions of more than 1 GiB of row events."""

from tests.slow.large_transactions import LargeTransactions, house

VARIANTS = ("mysql-9.7", "mariadb-10.11")
__all__ = ["house"]


class TestLargeTransactions(LargeTransactions):
    """See LargeTransactions."""
