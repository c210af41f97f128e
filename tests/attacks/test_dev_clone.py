"""A developer attacks from his clone."""

import pytest

from tests.attacks.dev_clone_story import DeveloperStory, ElsewhereStory, OwnRootStory, target

VARIANTS = ("mysql-9.7", "mariadb-10.11")
__all__ = ["target"]


class TestDeveloper(DeveloperStory):
    """See DeveloperStory."""


class TestOwnRoot(OwnRootStory):
    """See OwnRootStory."""


@pytest.mark.told_with("mariadb-10.11")
class TestElsewhere(ElsewhereStory):
    """See ElsewhereStory."""
