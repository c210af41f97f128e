"""Lines of the log that cannot be written any more."""

import pytest

from zbackup.model.event_log import EventLog


def test_that_nothing_can_be_read_any_more_costs_no_work(capsys: pytest.CaptureFixture[str]) -> None:
    """As when zbackup is upgraded while a long restore goes on, which has had nothing to tell yet."""
    log = EventLog()
    times = []

    def prepare() -> None:
        times.append(1)
        raise ModuleNotFoundError("No module named 'structlog'")

    log.set_up(30, prepare)
    log.info("nobody.wants_this")
    assert not times
    for _ in range(2):
        log.warning("replication_source.failed", reason="a\nline")
    said = capsys.readouterr().err.splitlines()
    assert len(times) == len(said) == 2
    assert said[0].startswith("zbackup: replication_source.failed {'reason': 'a") and "structlog" in said[0]
