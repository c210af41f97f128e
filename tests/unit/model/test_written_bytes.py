"""JSON is written as earlier versions wrote it, byte for byte, and what they wrote is read."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.archived import LOOKED, STATE
from tests.unit.model.test_clone import PLAIN
from tests.unit.samples import NOON
from zbackup.jobs.archive.state import read_state, write_state
from zbackup.model import clone, drill, shipped
from zbackup.model.drill import DrillVerdict
from zbackup.model.shipped import Arrived
from zbackup.model.switch import Coming, SteppedAside, Switch

CLONE = (
    '{"backup":"zbackup-1","cluster":"","copied":false,"cpu_quota":0,"created":"2024-05-01T12:00:00+00:00",'
    '"engine":"mysql","follows":false,"host":"","id":"1","instance":"shop","kind":"restore","login":"",'
    '"masked":false,"memory":0,"memory_max":0,"name":"shop-1","nice":0,"on_boot":false,"own_root":false,'
    '"parent":"","port":3307,"protected":"","reached":"","read_only":false,"replayed":false,"replica_set":"",'
    '"role":"","state":"ready","stopped":false,"target":"\\u00e4","until":"","warned":false}'
)
BEFORE_CLUSTERS = (
    '{"backup":"zbackup-1","created":"2024-05-01T12:00:00+00:00","engine":"mysql","id":"1","instance":"shop",'
    '"kind":"restore","name":"shop-1","port":3307,"state":"ready","target":"\\u00e4"}'
)
SWITCHED = CLONE.replace(
    '"target"',
    '"switch":{"at":"2024-05-01T12:00:00.000005+00:00","coming":[{"guid":8,"mountpoint":"/srv/db",'
    '"name":"tank/db","number":0,"origin":9,"owner":10}],"leaving":[{"guid":18446744073709551615,'
    '"mountpoint":"/srv/\\udcff","name":"tank/db","own":[["atime","off"]]}],"roots":["tank/db"],'
    '"suffix":".old"},"target"',
)
SWITCH = Switch(
    at=NOON + timedelta(microseconds=5),
    suffix=".old",
    roots=("tank/db",),
    leaving=(
        SteppedAside(name="tank/db", guid=2**64 - 1, mountpoint="/srv/\udcff", own=(("atime", "off"),)),
    ),
    coming=(Coming(number=0, name="tank/db", guid=8, mountpoint="/srv/db", origin=9, owner=10),),
)


@pytest.mark.parametrize(("text", "switch"), [(CLONE, None), (SWITCHED, SWITCH)])
def test_a_clones_description(text: str, switch: Switch | None) -> None:
    subject = replace(PLAIN, target="ä", switch=switch)
    assert (subject.to_property(), clone.from_property(text)) == (text, subject)


def test_a_clones_description_from_before_there_was_more_to_say() -> None:
    assert clone.from_property(BEFORE_CLUSTERS) == replace(PLAIN, target="ä")


@pytest.mark.parametrize(
    "said", ['"port":"3307"', '"port":3307.0', '"port":true', '"port":-1', f'"port":{2**63}']
)
def test_a_number_is_one_within_bounds(said: str) -> None:
    with pytest.raises(ValueError, match="not a clone's description: 'port': "):
        clone.from_property(CLONE.replace('"port":3307', said))


def test_a_flag_is_no_number() -> None:
    with pytest.raises(ValueError, match="not a clone's description: 'stopped': "):
        clone.from_property(CLONE.replace('"stopped":false', '"stopped":0'))


PASSED = DrillVerdict(
    backup="b",
    name="zbackup-1",
    at=NOON,
    to=NOON - timedelta(hours=1),
    transactions=0,
    tables=7,
    seconds=12.346,
)
FAILED = DrillVerdict(backup="c", name="zbackup-2", at=NOON, why="it does not open")
VERDICT = (
    '{"at":"2024-05-01T12:00:00+00:00","backup":"b","name":"zbackup-1","seconds":12.346,"tables":7,'
    '"to":"2024-05-01T11:00:00+00:00","transactions":0}'
)
VERDICTS = (
    f'[{VERDICT},{{"at":"2024-05-01T12:00:00+00:00","backup":"c","name":"zbackup-2","seconds":0.0,'
    '"why":"it does not open"}]'
)


def test_a_verdict_and_a_list_of_them() -> None:
    assert drill.to_text(replace(PASSED, seconds=12.34567)) == VERDICT
    assert drill.from_text(VERDICT) == PASSED
    assert drill.to_list([PASSED, FAILED]) == VERDICTS
    assert drill.from_list(VERDICTS) == (PASSED, FAILED)


@pytest.mark.parametrize("said", ["NaN", "-1", "1e10", "Infinity"])
def test_a_drill_takes_a_time_that_can_be_shown(said: str) -> None:
    assert drill.from_text(VERDICT.replace("12.346", said)) is None


def test_what_arrived_at_a_destination() -> None:
    text = '{"name":"z-1","taken":"2024-05-01T12:00:00+00:00"}'
    subject = Arrived(name="z-1", taken=NOON)
    assert (shipped.to_text(subject), shipped.from_text(text)) == (text, subject)
    text = text.replace("{", '{"as_of":"2024-05-01T12:00:00+00:00",')
    subject = replace(subject, as_of=NOON)
    assert (shipped.to_text(subject), shipped.from_text(text)) == (text, subject)


@pytest.mark.parametrize(("archived", "said"), [(LOOKED, '"2026-05-01T12:00:00+00:00"'), (None, "null")])
def test_the_state_of_an_archive(tmp_path: Path, archived: Any, said: str) -> None:
    text = (
        f'{{"every": 5.0, "tried": "2026-05-01T12:00:00+00:00", "archived": {said}, '
        '"end": "binlog.000007:5000", "error": "\\u00e4", "gap": ""}'
    )
    ctx: Any = SimpleNamespace(instance="shop", shared=tmp_path / "d")
    subject = replace(STATE, archived=archived, error="ä")
    write_state(ctx, subject)
    file = tmp_path / "d/shop.archive.offsite.json"
    assert file.read_text() == text
    file.write_text(text)
    assert read_state(ctx, "offsite") == subject
