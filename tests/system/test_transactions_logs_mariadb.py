"""A log of MariaDB between a base and a moment: a temporary table, three origins, an import, a reset."""

import pytest

from tests.system.house import Variant
from tests.system.log_story import ImportStory, OpenTemporaryStory, ResetStory, SwitchStory


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestOpenTemporary(OpenTemporaryStory):
    """See OpenTemporaryStory."""


class TestSwitch(SwitchStory):
    """See SwitchStory."""


class TestImport(ImportStory):
    """See ImportStory."""


class TestReset(ResetStory):
    """See ResetStory."""
