"""Less work for the garbage collector, in the lanes that need neither ZFS nor servers: they have thousands of
tests, and each full collection would look at all that these consist of.

Not for tests on real file systems: what a traceback still holds open keeps a dataset busy until it is
collected.
"""

import gc

gc.disable()


def pytest_collection_finish() -> None:
    """Keep what the tests are made of until the end, and collect from now on what they leave."""
    gc.freeze()
    gc.enable()
