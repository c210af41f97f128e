"""Tests that need a real pool: run them with `tests/lab/lab test tests/platform`."""

from tests.lab.pool import pool, pytest_addoption, pytest_runtest_logreport

__all__ = ["pool", "pytest_addoption", "pytest_runtest_logreport"]
