"""The picture of the house shows the rooms that there are, each on its floor. Its numbers may be older."""

import re
import runpy

import pytest

from tests.unit.docs.pages import PROJECT

SCRIPT = runpy.run_path(str(PROJECT / "docs/images/house.py"))
DRAWN = re.compile(r'data-room="(\w+)" data-floor="(\d+)" data-within="([\w ]*)"')
RENEW = "make docs draws it again"


@pytest.fixture(scope="module")
def picture() -> str:
    return (PROJECT / "docs/images/house.svg").read_text()


def test_the_floors_are_those_of_the_contract(picture: str) -> None:
    floors = [(room, str(number)) for number, floor in enumerate(SCRIPT["floors"]()) for room in floor]
    assert [(room, number) for room, number, _ in DRAWN.findall(picture)] == floors, RENEW


def test_no_room_is_missing_and_none_is_gone(picture: str) -> None:
    house = PROJECT / "zbackup"
    rooms = {path.parent.name for path in house.glob("*/__init__.py")}
    rooms |= {path.stem for path in house.glob("*.py") if not path.stem.startswith("__")}
    drawn = {room: within.split() for room, _, within in DRAWN.findall(picture)}
    assert drawn == {room: SCRIPT["inner_rooms"](room) for room in rooms}, RENEW


def test_every_import_leads_downwards(picture: str) -> None:
    order = [room for room, _, _ in DRAWN.findall(picture)]
    pairs = re.findall(r'data-from="(\w+)" data-to="(\w+)"', picture)
    assert len(pairs) > 50
    assert [pair for pair in pairs if order.index(pair[0]) >= order.index(pair[1])] == []


def test_the_script_draws_every_room_as_it_is_now() -> None:
    assert DRAWN.findall(SCRIPT["draw"]()) == DRAWN.findall((PROJECT / "docs/images/house.svg").read_text())
