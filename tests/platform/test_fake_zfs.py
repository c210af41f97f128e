"""The fake zfs of the fast lane is held true: the real one still says what it is made after."""

from tests.fast.real import play_real
from tests.fast.script import recorded
from tests.lab.pool import Pool


def test_the_real_zfs_says_what_was_recorded(pool: Pool) -> None:
    played = play_real(pool.name, str(pool.home))
    assert [(one, was) for one, was in zip(played, recorded(), strict=True) if one != was] == []
