"""A developer attacks from his clone of MySQL 9.7."""

import pytest

from tests.attacks.dev_clone_story import DeveloperStory, OwnRootStory, target
from tests.system.house import Variant

__all__ = ["target"]


@pytest.fixture(scope="module")
def variant() -> Variant:
    return Variant(flavour="mysql-9.7")


class TestDeveloper(DeveloperStory):
    """See DeveloperStory."""


class TestOwnRoot(OwnRootStory):
    """See OwnRootStory."""
