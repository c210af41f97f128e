"""A developer attacks from his clone of MariaDB 10.11."""

import pytest

from tests.attacks.dev_clone_story import DeveloperStory, ElsewhereStory, OwnRootStory, target
from tests.system.house import Variant

__all__ = ["target"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mariadb-10.11")


class TestDeveloper(DeveloperStory):
    """See DeveloperStory."""


class TestOwnRoot(OwnRootStory):
    """See OwnRootStory."""


class TestElsewhere(ElsewhereStory):
    """See ElsewhereStory."""
