"""Findings that a verification on schedule does not take for well."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.unit.jobs.test_prune_at import Place
from tests.unit.plan.histories import made
from tests.unit.samples import NOON, lacking_one
from zbackup.clock import SystemClock
from zbackup.jobs.context import Context, ShipDestination
from zbackup.jobs.ship.lag import write_down
from zbackup.jobs.ship.ship import _act, _Shipped
from zbackup.jobs.ship.verify_at import prove_at, verify_at
from zbackup.model.errors import CommandFailed, DatasetNotFound, VerificationFailed
from zbackup.model.progress import Silent
from zbackup.model.shipped import SHIPPED, arrived, arrived_of, to_text
from zbackup.model.shipping import Inventory
from zbackup.model.snapshot import Snapshot
from zbackup.plan.ship.ship import Commit
from zbackup.proc.pipeline import Meter
from zbackup.zfs.stream_content import Content


def test_data_that_was_to_be_read_and_was_not(tmp_path: Path) -> None:
    """Of the only backup a part was pruned here, so that nothing is read there."""
    one = made(1, NOON)
    ctx = SimpleNamespace(
        shared=tmp_path,
        instance="shop",
        progress=Silent(),
        catalog=lambda: SimpleNamespace(backups=(lacking_one(one),)),
    )
    destination = ShipDestination(adapter=cast(Any, Place([one])), tag="tag", sample=-1)
    assert prove_at(cast(Context, ctx), destination).problems == (), "nothing was to be read"
    with pytest.raises(VerificationFailed, match=r"^no data was read: "):
        prove_at(cast(Context, ctx), replace(destination, sample=1 << 30))


class Nobody:
    """ZFS of an instance's host: what is written on its first dataset."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.properties = properties

    def own_settings(self, _: str) -> dict[str, str]:
        return self.properties

    def set_properties(self, _: str, properties: dict[str, str]) -> None:
        self.properties |= properties


def test_a_destination_that_is_still_empty_is_not_different(tmp_path: Path) -> None:
    """Before the first backup has arrived. One that had some, and has none, is."""
    ctx = SimpleNamespace(
        shared=tmp_path,
        instance="shop",
        progress=Silent(),
        datasets=("tank/db",),
        zfs=Nobody({}),
        catalog=lambda: SimpleNamespace(backups=(made(1, NOON),)),
    )
    destination = ShipDestination(adapter=cast(Any, Place([])), tag="tag", sample=-1)
    prove_at(cast(Context, ctx), destination)
    ctx.zfs = Nobody({f"{SHIPPED}offsite": "{}"})
    with pytest.raises(VerificationFailed, match="there is no committed backup of shop at zfs:vault/b"):
        prove_at(cast(Context, ctx), destination)


def test_a_destination_that_was_emptied_is_different_also_when_a_ship_has_seen_it_first(
    tmp_path: Path,
) -> None:
    ctx = SimpleNamespace(
        shared=tmp_path,
        instance="shop",
        progress=Silent(),
        datasets=("tank/db",),
        zfs=Nobody({f"{SHIPPED}offsite": to_text(arrived_of(made(1, NOON)))}),
        catalog=lambda: SimpleNamespace(backups=(made(1, NOON),)),
    )
    destination = ShipDestination(adapter=cast(Any, Place([])), tag="tag", sample=-1)
    write_down(cast(Context, ctx), destination, [made(1, NOON)], Inventory(address="zfs:vault/b"))
    with pytest.raises(VerificationFailed, match="there is no committed backup of shop at zfs:vault/b"):
        prove_at(cast(Context, ctx), destination)


class Readers(Place):
    """A place whose copies can be read, but for those of the datasets named."""

    broken: frozenset[str] = frozenset()

    def unopened(self, _: Snapshot) -> str:
        return ""

    def content(self, copy: Snapshot, most: int, meter: Meter, *, raw: bool | None = None) -> Content:
        if copy.dataset in self.broken:
            raise CommandFailed(("zfs", "send"), 1, "cannot send: Input/output error")
        return Content(sha256="", size=min(most, 1000) or 5000, whole=not most)


def dr_host(home: Path) -> Context:
    """A host that has nothing of the instance."""

    def gone() -> None:
        raise DatasetNotFound(("zfs", "list"), 1, "cannot open 'tank/db': dataset does not exist")

    return cast(
        Context,
        SimpleNamespace(
            shared=home, instance="shop", progress=Silent(), catalog=gone, members=lambda: (), zfs=None
        ),
    )


def test_where_nothing_of_the_instance_is_the_newest_is_read_over_there(tmp_path: Path) -> None:
    place = Readers([made(1, NOON), made(2, NOON + timedelta(hours=1))])
    destination = ShipDestination(adapter=cast(Any, place), tag="tag")
    report = verify_at(dr_host(tmp_path), destination, most=0)
    assert report.problems == () and report.compared == ()
    assert [b.name for b in report.alone] == ["zbackup-1", "zbackup-2"]
    assert [(c.name, c.read) for c in report.proven] == [("zbackup-2", 10_000)]
    place.broken = frozenset({"tank/my db/bin log"})
    (problem,) = verify_at(dr_host(tmp_path), destination, most=100).problems
    assert "zbackup-2: tank/my db/bin log@zbackup-2 cannot be read" in problem and "Input/output" in problem


def test_a_host_that_lacks_one_of_its_datasets_is_not_taken_for_one_without(tmp_path: Path) -> None:
    ctx = dr_host(tmp_path)
    cast(Any, ctx).members = lambda: ("tank/other",)
    destination = ShipDestination(adapter=cast(Any, Readers([made(1, NOON)])), tag="tag")
    with pytest.raises(DatasetNotFound):
        verify_at(ctx, destination, most=0)


def test_what_was_committed_is_written_down_at_once() -> None:
    """A stream that fails afterwards does not undo it."""
    ctx = SimpleNamespace(
        instance="shop", datasets=("tank/db",), zfs=Nobody({}), clock=SystemClock(), progress=Silent()
    )
    session = SimpleNamespace(commit=lambda *_: None)
    destination = ShipDestination(adapter=cast(Any, Place([])), tag="tag")
    backup = made(7, NOON)
    step = Commit(backup, ())
    _act(cast(Context, ctx), destination, cast(Any, session), step, _Shipped(), lambda: False)
    found = arrived(ctx.zfs.properties)["offsite"]
    assert (found.name, found.taken) == ("zbackup-7", NOON)
