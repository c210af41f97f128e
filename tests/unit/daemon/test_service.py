"""The daemon's process, as far as it goes without a pool."""

import os
from pathlib import Path

import pytest

from zbackup import app
from zbackup.config.load import load
from zbackup.daemon.service import DaemonService
from zbackup.model.errors import Taken
from zbackup.proc.lock import exclusive


def test_a_second_daemon_is_told_of_the_first_one_and_not_to_wait_for_it(tmp_path: Path) -> None:
    config = tmp_path / "zbackup.toml"
    config.write_text(
        f'run_dir = "{tmp_path}"\ndaemon = {{ state_dir = "{tmp_path}" }}\n'
        '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/my"]\nschedule = { snapshot = "1h" }\n'
    )
    second = DaemonService(lambda: load(config))
    with exclusive(app.daemon_lock(load(config)), "zbackup daemon"), pytest.raises(Taken) as taken:
        second.run()
    said = str(taken.value)
    assert said.startswith(f"zbackup daemon (pid {os.getpid()}) runs already") and "again when" not in said
    assert "zbackup status" in said and "SIGTERM" in said
