"""The backup at a destination that is chosen, and what is said of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest

from tests.unit.jobs.test_prune_at import HOUR, Place, hourly, of_server
from tests.unit.samples import NOON, PLAIN, backup
from zbackup.catalog.local import Catalog
from zbackup.clock import SystemClock
from zbackup.destinations.copies import Copies
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.restore.destination_source import DestinationSource, _choose, _found, _require_known
from zbackup.jobs.restore.options import RestoreOptions
from zbackup.jobs.ship.archived import NO_ARCHIVE, ArchivedCopies
from zbackup.model.backup import Backup
from zbackup.model.errors import NotRecoverable, Refused
from zbackup.model.log import Searched, Transaction
from zbackup.model.moment import Moment
from zbackup.model.transaction_name import parse_transaction


def chosen(backups: list[Backup]) -> tuple[str, list[str]]:
    """The base of a restore, and the notes that come with it."""
    notes: list[str] = []
    ctx = SimpleNamespace(
        instance="shop",
        clock=SystemClock(),
        zone=ZoneInfo("UTC"),
        progress=SimpleNamespace(note=notes.append),
        recovery=SimpleNamespace(check_program=lambda _: None),
        log_reader=SimpleNamespace(effective_target=lambda _: None),
    )
    destination = ShipDestination(adapter=cast(Any, Place(backups)), tag="tag")
    moment = Moment(NOON + 3 * HOUR, "then", ZoneInfo("UTC"))
    there = ArchivedCopies(Copies(tuple(backups), ()), NO_ARCHIVE, ())
    choice = _choose(cast(Context, ctx), destination, there, moment, RestoreOptions())
    return choice.base.name, notes


def test_a_base_that_proves_too_new_is_refused_and_what_to_do_is_said() -> None:
    """Its recorded GTIDs may lack the last that are in its log."""
    log = {"log_id": "a", "log_from": "binlog.000001:4", "log_to": "binlog.000001:500"}
    base = backup(1, 1, 1, **log)
    name = parse_transaction(f"{PLAIN.server_uuid}:78")
    for start, holds in (("binlog.000001:400", True), ("binlog.000001:500", False)):
        transaction = Transaction(start=start, end="binlog.000001:600", committed=NOON)
        searched = Searched(found=transaction, first="binlog.000001", last="binlog.000001")
        search = SimpleNamespace(find=lambda *_, found=searched: found, check_name=lambda _: None)
        ctx = SimpleNamespace(log_search=search)
        mounted = tuple(SimpleNamespace(name=n, mountpoint="/m", closed="") for n, _ in PLAIN.members)
        catalog = cast(Catalog, SimpleNamespace(backups=(base,), all_datasets=mounted))
        if holds:
            with pytest.raises(
                NotRecoverable, match=r"zbackup-1 already contains transaction \S+:78: choose"
            ):
                _found(cast(Context, ctx), name, catalog, base)
        else:
            assert _found(cast(Context, ctx), name, catalog, base).transaction == transaction


def test_whose_backup_it_is_is_said_where_there_are_two_servers_or_more() -> None:
    mine = hourly(6)
    assert chosen(mine)[1] == []
    others = [replace(b, record=replace(b.record, as_of=NOON)) for b in of_server(mine[:1], 2, dataset="x/")]
    name, (note,) = chosen([*mine, *others])
    assert note.startswith("backups of 2 servers, or from before the datasets were moved, lie at zfs:vault/b")
    assert name in note and PLAIN.members[0][0] in note and PLAIN.server_uuid in note


def latest(copies: Copies, **options: Any) -> tuple[Moment, str, str]:
    """The moment of `--to latest`, and the names of base and log source."""
    place = Place(copies.backups)
    cast(Any, place).copies = lambda: copies
    ctx = SimpleNamespace(
        instance="shop",
        clock=SystemClock(),
        zone=ZoneInfo("UTC"),
        progress=SimpleNamespace(note=lambda _: None),
        recovery=SimpleNamespace(check_program=lambda _: None),
        log_reader=SimpleNamespace(effective_target=lambda at: at),
    )
    destination = ShipDestination(adapter=cast(Any, place), tag="tag")
    given = RestoreOptions(**options)
    moment = DestinationSource(destination).latest(cast(Context, ctx), given)
    choice = _choose(cast(Context, ctx), destination, ArchivedCopies(copies, NO_ARCHIVE, ()), moment, given)
    assert choice.log is not None
    return moment, choice.base.name, choice.log.name


def test_latest_is_not_an_older_one_in_silence() -> None:
    """What cannot be read may be the newest."""
    backups = tuple(hourly(3))
    damaged = Copies(backups, (("shop/backups/9.json", "it was changed"),))
    with pytest.raises(
        Refused, match=r"shop/backups/9.json at .* may be the newest .*accept-older takes zbackup-3"
    ):
        latest(damaged)
    assert latest(damaged, accept_older=True) == latest(Copies(backups, ()))


def test_latest_is_not_what_the_backups_hold_where_nobody_knows_of_later_log() -> None:
    there = ArchivedCopies(Copies(tuple(hourly(3)), ()), NO_ARCHIVE, (), "vault/b/log is not mounted")
    place = SimpleNamespace(adapter=SimpleNamespace(address="zfs:vault/b"))
    with pytest.raises(Refused, match=r"may lead further.*\(vault/b/log is not mounted\): --accept-older"):
        _require_known(there, cast(Any, place), RestoreOptions())
    _require_known(there, cast(Any, place), RestoreOptions(accept_older=True))
    _require_known(replace(there, unknown=""), cast(Any, place), RestoreOptions())


def test_latest_names_both_where_two_servers_share_a_place() -> None:
    mine = hourly(3)
    others = [
        replace(b, snapshots=tuple(replace(s, name=f"other-{s.name}", createtxg=n) for s in b.snapshots))
        for n, b in enumerate(of_server(hourly(2), 2, dataset="x/", identity="another"), 100)
    ]
    both = Copies((*mine, *others), ())
    with pytest.raises(Refused, match=r"zbackup-3 of .*; other-zbackup-2 of .* server another: say which"):
        latest(both)
    assert latest(both, base="zbackup-3")[1:] == ("zbackup-3", "zbackup-3")
    assert latest(both, base="zbackup-2")[2] == "zbackup-3", "the log of the same server"
    assert latest(both, accept_older=True)[2] == "other-zbackup-2"
