"""Settings for all unit tests: property tests must not fail because a machine is slow."""

from hypothesis import settings

settings.register_profile("zbackup", deadline=None, print_blob=True)
settings.load_profile("zbackup")
