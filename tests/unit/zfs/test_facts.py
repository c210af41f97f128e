"""Questions to ZFS about datasets, and about those above them."""

from collections.abc import Sequence
from typing import Any

from zbackup.zfs.facts import SETTINGS, ZfsFacts


def test_settings_come_with_those_of_the_datasets_above_and_zfs_is_asked_once() -> None:
    asked: list[tuple[str, ...]] = []

    def runner(argv: Sequence[str], **_: Any) -> str:
        asked.append(tuple(argv))
        names = argv[argv.index("--") + 1 :]
        return "".join(f"{name}\t{key}\t{name} {key}\n" for name in names for key in SETTINGS)

    names = ("tank/my db/log", "tank/my db", "tank/my db/log", "vault")
    log, data, vault = ZfsFacts(runner).settings(names)  # type: ignore[arg-type]
    assert [each.name for each in (log, data, vault)] == ["tank/my db/log", "tank/my db", "vault"]
    assert [each.name for each in log.above] == ["tank/my db", "tank"]
    assert [each.name for each in data.above] == ["tank"] and vault.above == ()
    assert (log.values["refquota"], log.above[1].values["quota"]) == (
        "tank/my db/log refquota",
        "tank quota",
    )
    (argv,) = asked
    assert argv[argv.index("--") + 1 :] == ("tank/my db/log", "tank/my db", "vault", "tank")
