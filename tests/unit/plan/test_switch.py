"""Datasets that change places, what they are called and what is set on them."""

from dataclasses import replace

import pytest

from tests.unit.samples import NOON
from zbackup.features.switch.plan import (
    CloneDataset,
    SwitchedDataset,
    plan_switch,
    settings_aside,
    settings_in_place,
)
from zbackup.model.errors import Refused
from zbackup.model.snapshot import Dataset
from zbackup.model.switch import Switch

SUFFIX = "-before-20240501T120000Z"


def dataset(name: str, guid: int, mountpoint: str | None) -> Dataset:
    return Dataset(name=name, guid=guid, mountpoint=mountpoint)


DATA = SwitchedDataset(
    dataset=dataset("tank/data", 1, "/srv/data"),
    own={"mountpoint": "/srv/data", "recordsize": "16384", "reservation": "1024"},
    path="/srv/data",
)
LOG = SwitchedDataset(dataset=dataset("tank/data/log", 2, "/srv/data/log"), own={}, path="/srv/data/log")
OTHER = SwitchedDataset(
    dataset=dataset("tank/other", 3, "/srv/data/other"),
    own={"mountpoint": "/srv/data/other", "canmount": "noauto"},
    path="/srv/data/other",
)
MEMBERS = (DATA, LOG, OTHER)
ROOTS = ("tank/data", "tank/other")
PARTS = tuple(
    CloneDataset(number=n, guid=10 + n, origin=20 + n, owner=m.dataset, mountpoint=m.path)
    for n, m in enumerate(MEMBERS)
)


def planned(**changes: object) -> Switch:
    known = {"roots": ROOTS, "members": MEMBERS, "parts": PARTS, "formerly": {}, "at": NOON}
    return plan_switch(**(known | changes))  # type: ignore[arg-type]


def test_roots_are_renamed_and_what_lies_below_comes_along() -> None:
    switch = planned()
    assert [switch.aside(each.name) for each in switch.leaving] == [
        f"tank/data{SUFFIX}",
        f"tank/data{SUFFIX}/log",
        f"tank/other{SUFFIX}",
    ]
    assert [(c.name, c.guid, c.owner, c.mountpoint) for c in switch.coming] == [
        ("tank/data", 10, 1, "/srv/data"),
        ("tank/data/log", 11, 2, "/srv/data/log"),
        ("tank/other", 12, 3, "/srv/data/other"),
    ]


def test_nothing_is_mounted_below_what_takes_its_place() -> None:
    switch = planned()
    places = [dict(settings_aside(switch, each)).get("mountpoint") for each in switch.leaving]
    assert places == [f"/srv/data{SUFFIX}", None, f"/srv/data{SUFFIX}/other"]
    assert settings_aside(switch, switch.leaving[0])["reservation"] == "none"
    assert all(settings_aside(switch, each)["readonly"] == "on" for each in switch.leaving)
    assert settings_aside(switch, switch.leaving[1]) == {"readonly": "on"}


def below(name: str, number: int = 3) -> CloneDataset:
    """A dataset of the clone in place of one that production has not."""
    return replace(PARTS[0], number=number, owner=dataset(name, 40 + number, None), mountpoint=f"/was/{name}")


def test_what_production_has_not_any_more_comes_back_where_it_was() -> None:
    came = planned(parts=(*PARTS, below("tank/data/gone"))).coming[-1]
    assert (came.name, came.mountpoint) == ("tank/data/gone", "/was/tank/data/gone")


def test_a_name_may_be_as_long_as_a_dataset_s() -> None:
    for length, fits in ((255 - len(SUFFIX), True), (256 - len(SUFFIX), False)):
        name = "tank/" + "d" * (length - 5)
        there = replace(DATA, dataset=dataset(name, 1, "/t"))
        part = replace(PARTS[0], owner=there.dataset)
        if fits:
            assert len(planned(roots=(name,), members=(there,), parts=(part,)).aside(name)) == 255
        else:
            with pytest.raises(Refused, match="too long a name"):
                planned(roots=(name,), members=(there,), parts=(part,))


def test_a_backup_that_is_aside_belongs_to_what_it_was_of() -> None:
    """A second switch, to a clone of what the first one put aside."""
    aside = dataset("tank/data-before-1", 9, None)
    parts = (replace(PARTS[0], owner=aside), *PARTS[1:])
    switch = planned(parts=parts, formerly={"tank/data-before-1": "tank/data"})
    assert (switch.coming[0].name, switch.coming[0].owner) == ("tank/data", 9)


def test_it_is_given_all_settings_but_ours_and_those_for_life() -> None:
    now = {"recordsize": "16384", "readonly": "on", "mountpoint": "/aside", "canmount": "noauto"}
    now |= {"encryption": "off", "zbackup:x": "1", "a:b": "c"}
    wanted = settings_in_place(now, {"mountpoint": "/srv/data", "reservation": "5"}, "/x", known=True)
    assert wanted == {
        "recordsize": "16384",
        "a:b": "c",
        "mountpoint": "/srv/data",
        "reservation": "5",
        "canmount": "on",
    }
    assert settings_in_place({}, {}, "/x", known=False) == {"mountpoint": "/x", "canmount": "on"}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"parts": PARTS[:2]}, "nothing in place of tank/other"),
        ({"members": (DATA, LOG)}, "there is no tank/other here .* create it, empty"),
        ({"parts": (*PARTS, below("tank/data/a/b"))}, "in place of tank/data/a/b, and none .* tank/data/a: "),
        ({"roots": ("tank/data",)}, "tank/other, which is no dataset of the instance"),
        ({"parts": (replace(PARTS[0], own=frozenset("a"), moving=frozenset("a")), *PARTS[1:])}, "shot @a"),
        ({"members": (replace(DATA, path="legacy"), LOG, OTHER)}, "zfs set mountpoint=/srv/data tank/data"),
        (
            {"roots": ("tank",), "members": (replace(DATA, dataset=dataset("tank", 1, "/t")),),
             "parts": (replace(PARTS[0], owner=dataset("tank", 1, "/t")),)},
            "a pool's own file system",
        ),
        (
            {"roots": (n := "tank/" + "d" * 240,),
             "members": (replace(DATA, dataset=dataset(n, 1, "/t")),),
             "parts": (replace(PARTS[0], owner=dataset(n, 1, "/t")),)},
            "too long a name",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(Refused, match=says):
        planned(**changes)
