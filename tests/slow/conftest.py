"""Long campaigns on real ZFS with real servers: `make test-slow`."""

import logging

import pytest
import structlog

from tests.lab.pool import pool, pytest_addoption, pytest_runtest_logreport

# Before they are imported, so that what fails in them is explained as in a test.
pytest.register_assert_rewrite(
    "tests.faults.breaking",
    "tests.faults.recovery",
    "tests.faults.holding",
    "tests.system.house",
    "tests.system.program",
    "tests.system.clone_story",
    "tests.system.clock_story",
    "tests.system.cluster_past",
    "tests.system.clone_care_story",
    "tests.system.clone_kills_story",
    "tests.slow.many_clones",
    "tests.system.daemon_story",
    "tests.system.recovered",
    "tests.system.member_story",
    "tests.system.replica_story",
    "tests.system.encryption_story",
    "tests.system.switch_fetched",
    "tests.system.switch_kills",
    "tests.system.switch_story",
    "tests.slow.large_transactions",
    "tests.slow.destination_faults",
    "tests.platform.shipping",
)

__all__ = ["pool", "pytest_addoption", "pytest_runtest_logreport"]

# Thousands of commands are run here; only what is unusual is worth reading when one of them goes wrong.
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
