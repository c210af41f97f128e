"""A restore cuts the log once, so whatever mixes up the order of commits in it is worth a warning."""

import pytest

from zbackup.engines.mysql.server import assess
from zbackup.engines.mysql.server.status import Channel

SOUND = {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
ONE = Channel(name="", applier_running=True)


def warned(variables: dict[str, str], *channels: Channel) -> str:
    return " ".join(assess.warnings(SOUND | variables, channels, {}, ""))


def test_several_sources_are_warned_of() -> None:
    assert "2 replication channels" in warned({}, ONE, Channel(name="b", applier_running=True))
    assert warned({}, ONE) == ""


@pytest.mark.parametrize("word", ["replica", "slave"])
def test_an_applier_that_reorders_commits_is_warned_of(word: str) -> None:
    workers = f"{word}_parallel_workers"
    keeps = f"{word}_preserve_commit_order"
    assert "another order" in warned({workers: "4", keeps: "OFF"}, ONE)
    for harmless in ({workers: "4", keeps: "ON"}, {workers: "0", keeps: "OFF"}, {workers: "1", keeps: "OFF"}):
        assert warned(harmless, ONE) == ""
    assert warned({workers: "4", keeps: "OFF"}) == ""
