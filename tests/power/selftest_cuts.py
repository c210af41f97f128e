"""A few power cuts, run from the host: `pytest tests/power/selftest_cuts.py`. `make test-slow` has many."""

import pytest

from tests.power.cuts import cut_the_power

SEED = 3


@pytest.mark.timeout(900)
def test_what_was_promised_is_there_after_power_cuts(capfd: pytest.CaptureFixture[str]) -> None:
    cut_the_power("mariadb-10.11", 2, SEED)
    assert "all 2 cuts survived" in capfd.readouterr().out
