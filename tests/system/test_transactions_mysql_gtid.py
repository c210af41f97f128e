"""Every kind of transaction, replayed on MySQL 9.7 with GTIDs."""

import pytest

from tests.system.house import Variant
from tests.system.transactions_story import OPTIONS, TransactionsStory, history

__all__ = ["history"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", options=OPTIONS)


class TestTransactions(TransactionsStory):
    """See TransactionsStory."""
