"""Every snapshot that has a watchdog waits until it has started."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["mysql.lock.applier_watchdog", "mongodb.lock.watchdog"])
def test_a_watchdog_imports_nothing_slow_but_its_client(module: str) -> None:
    slow = "structlog", "typer", "pydantic", "rich", "boto3"
    look = f"import sys, zbackup.engines.{module}; print([name for name in {slow!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
