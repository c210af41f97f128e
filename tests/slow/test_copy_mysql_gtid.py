"""Tables and rows of a MySQL 9.7 with GTIDs come back into production."""

import pytest

from tests.system.conftest import house
from tests.system.copy_story import CopyStory, loss
from tests.system.house import Variant
from tests.system.transactions_story import OPTIONS, history

__all__ = ["history", "house", "loss"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7", options=OPTIONS)


class TestCopy(CopyStory):
    """See CopyStory."""
