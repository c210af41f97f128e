"""The survey of an address that no configuration names."""

from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_prune_at import Place, hourly, of_server
from zbackup.destinations.base import Destination
from zbackup.destinations.copies import Copies
from zbackup.jobs.restore.address_survey import MOST_NAMED, choose, require_readable, survey
from zbackup.model.backup import Backup
from zbackup.model.errors import NotFound, NotRecoverable, Refused, UsageError

Lying = dict[tuple[str, str], Copies]


class Address(Place):
    """Copies of several instances, by path and name."""

    def __init__(self, lying: Lying) -> None:
        super().__init__([])
        self.lying = lying

    def instances(self) -> list[tuple[str, str]]:
        return list(self.lying)

    def opened(self, path: str, name: str) -> Destination:
        found = Place([])
        cast(Any, found).copies = lambda: self.lying.get((path, name), Copies((), ()))
        return cast(Destination, found)


def lying(**named: list[Backup]) -> Address:
    return Address({("", name): Copies(tuple(backups), ()) for name, backups in named.items()})


def looked(address: Address, only: str = "", **how: Any) -> Any:
    return survey(cast(Destination, address), address.opened, only, **how)


def of_engine(backups: list[Backup], engine: str) -> list[Backup]:
    return [replace(b, record=replace(b.record, engine=engine)) for b in backups]


def test_the_only_one_needs_no_name() -> None:
    found = choose(looked(lying(shop=hourly(3))), "s3://b")
    assert found.instance == "shop" and found.newest().name == "zbackup-3"


def test_several_are_listed_in_one_line_with_what_they_are() -> None:
    address = lying(shop=hourly(3), docs=of_engine(hourly(2), "mongodb"))
    with pytest.raises(UsageError) as told:
        choose(looked(address), "s3://b")
    said = str(told.value)
    assert said.startswith("backups of 2 instances lie at s3://b: shop (") and "\n" not in said
    assert "newest zbackup-3" in said and "docs (mongodb " in said and said.endswith("--instance NAME")
    assert choose(looked(address, "docs"), "s3://b").newest().record.engine == "mongodb"


def test_two_of_one_name_are_told_apart_by_their_addresses() -> None:
    copies = Copies(tuple(hourly(1)), ())
    address = Address({("db1", "shop"): copies, ("db2", "shop"): copies})
    with pytest.raises(UsageError, match=r"shop at .*; shop at .* with the address that it has here"):
        choose(looked(address, "shop"), "ssh://h/b")


def test_none_of_that_name_and_none_at_all() -> None:
    with pytest.raises(NotRecoverable, match=r"no backup of shoop at .*; there is shop"):
        looked(lying(shop=hourly(1)), "shoop")
    with pytest.raises(NotRecoverable, match="there is no backup at"):
        looked(lying())


def test_who_may_read_one_instance_alone_is_asked_of_no_other() -> None:
    address = lying(shop=hourly(1))
    cast(Any, address).instances = lambda: pytest.fail("it was looked for others")
    (found,) = looked(address, "shop", everywhere=False)
    assert found.newest().name == "zbackup-1"


def test_a_key_is_asked_for_where_backups_are_encrypted() -> None:
    address = Address({("", "shop"): Copies(tuple(hourly(1)), (), unproven="sealed")})
    with pytest.raises(Refused, match=r"shop at .* are encrypted: .*--key FILE"):
        looked(address)


def test_what_cannot_be_read_is_said_once() -> None:
    address = Address(
        {("", "shop"): Copies((), (("a", "needs the key 12; the key files have 34"), ("b", "x")))}
    )
    (found,) = looked(address)
    with pytest.raises(Refused, match=r"no backup of shop at .* can be restored: needs the key 12") as told:
        require_readable(found)
    assert "\n" not in str(told.value)


def test_a_backup_that_says_another_engine_is_no_guess() -> None:
    """It may have been put there."""
    mine = hourly(3)
    others = of_engine(of_server(hourly(1), 2, dataset="x/", identity="another"), "mongodb")
    others = [replace(b, snapshots=tuple(replace(s, name="forged") for s in b.snapshots)) for b in others]
    (found,) = looked(lying(shop=[*mine, *others]))
    with pytest.raises(Refused, match=r"several engines: .*forged of mongodb; choose with --base"):
        found.newest()
    assert found.newest("zbackup-2").record.engine == mine[0].record.engine
    with pytest.raises(NotFound, match="there is no backup zbackup-9 of shop"):
        found.newest("zbackup-9")
    (odd,) = looked(lying(shop=of_engine(mine, "oracle")))
    with pytest.raises(Refused, match="of no engine that is known here"):
        odd.newest()


def test_what_is_said_of_one_that_lies_below_or_cannot_be_read() -> None:
    copies = Copies(tuple(hourly(1)), ())
    address = Address({("", "shop"): copies, ("db1", "docs"): Copies((), (("a", "x"),))})
    here, below = looked(address)
    assert str(here).startswith("shop (mysql ") and " at " not in str(here)
    assert str(below) == f"docs at {below.address} (none can be read)"
    with pytest.raises(NotRecoverable, match=r"there is docs, shop$"):
        looked(address, "shoop")


def test_of_many_the_first_are_named() -> None:
    def told(count: int) -> str:
        address = lying(**{f"s{n:02}": hourly(1) for n in range(count)})
        with pytest.raises(UsageError) as failed:
            choose(looked(address), "s3://b")
        return str(failed.value)

    assert "; ..." not in told(MOST_NAMED) and f"s{MOST_NAMED - 1:02} (" in told(MOST_NAMED)
    assert "; ..." in told(MOST_NAMED + 1) and f"s{MOST_NAMED:02} (" not in told(MOST_NAMED + 1)


def test_nothing_that_is_committed_is_no_backup() -> None:
    (found,) = looked(Address({("", "shop"): Copies((), ())}))
    with pytest.raises(Refused, match="can be restored: none is committed"):
        require_readable(found)
    (whole,) = looked(lying(shop=hourly(1)))
    require_readable(whole)
    mine = hourly(2)
    (odd,) = looked(lying(shop=[mine[0], *of_engine(mine[1:], "oracle")]))
    assert odd.newest().name == "zbackup-1", "the newest of those that are known"
