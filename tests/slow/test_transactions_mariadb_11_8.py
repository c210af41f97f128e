"""Every kind of transaction, replayed on MariaDB 11.8."""

import pytest

from tests.system.conftest import house
from tests.system.house import Variant
from tests.system.transactions_story import OPTIONS, TransactionsStory, history

__all__ = ["history", "house"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-11.8", options=OPTIONS)


class TestTransactions(TransactionsStory):
    """See TransactionsStory."""
