"""The reader: what it is asked, by whom, and what it answers; and which settings it shows."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.unit.web.host import fleet, host
from zbackup.config.load import parse as parse_configuration
from zbackup.features.webpage.effective import HIDDEN, effective
from zbackup.features.webpage.overview.reader import Question, obey, parse, require_role
from zbackup.model.errors import Refused
from zbackup.model.overview import Overview

GOOD = {"verb": "moment", "instance": "shop", "since": "2026-11-21T09:02:00+00:00", "until": ""}


def test_a_question() -> None:
    assert parse(json.dumps(GOOD)) == Question(**GOOD)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "no JSON",
        "[]",
        '{"verb": "overview"}',
        json.dumps(GOOD | {"more": ""}),
        json.dumps(GOOD | {"since": 1}),
        *(
            json.dumps(GOOD | {"verb": verb})
            for verb in ("prune", "switch", "restore", "destroy", "remove-unfinished")
        ),
        "[" * 4000,
    ],
)
def test_no_question_that_is_ever_asked(line: str) -> None:
    with pytest.raises(Refused, match="not a question"):
        parse(line)


@given(st.text() | st.dictionaries(st.sampled_from(sorted(GOOD)), st.text() | st.integers()).map(json.dumps))
def test_whatever_is_said_is_a_question_or_refused(line: str) -> None:
    try:
        assert set(json.loads(line)) == set(GOOD)
        parse(line)
    except (Refused, ValueError, TypeError, AssertionError):
        with pytest.raises(Refused):
            parse(line)


def test_who_is_not_named_hears_nothing() -> None:
    require_role(0, frozenset((0, 17)))
    with pytest.raises(Refused, match="user id 18 may not read"):
        require_role(18, frozenset((0, 17)))


@pytest.mark.parametrize("changes", [{"instance": "other"}, {"instance": ""}, {"instance": "../shop"}])
def test_an_instance_that_is_not_there(changes: dict[str, str]) -> None:
    with pytest.raises(Refused, match="no such instance"):
        obey(Question(**(GOOD | changes)), {}, host, tuple, fleet)


def test_an_overview_travels_whole() -> None:
    said = obey(Question("overview", "", "", ""), {}, host, tuple, fleet)
    assert TypeAdapter(Overview).validate_json(said) == host()
    assert host().looked == datetime(2026, 11, 22, 2, 58, 10, tzinfo=UTC)


def test_what_is_no_text_keeps_nobody_from_all_the_rest() -> None:
    seen = host()
    odd = replace(
        seen, instances=(replace(seen.instances[0], problem="zfs said a\udcffb"), *seen.instances[1:])
    )
    said = obey(Question("overview", "", "", ""), {}, lambda: odd, tuple, fleet)
    found = TypeAdapter(Overview).validate_json(said)
    assert found.instances[0].problem == "zfs said a?b"
    assert found.instances[1:] == seen.instances[1:]


def test_no_setting_that_opens_a_door_is_shown() -> None:
    text = """
    [[notify.webhook]]
    url = "https://hooks.example.net/services/T0000/SECRET1"
    token = { file = "/etc/zbackup/SECRET2" }
    [instance.carts]
    engine = "mongodb"
    datasets = ["tank/mongodb"]
    uri = "mongodb://127.0.0.1:27017/?SECRET3"
    [instance.shop]
    engine = "mysql"
    datasets = ["tank/mysql"]
    password = { env = "SECRET4" }
    [instance.shop.recovery]
    server = ["/usr/sbin/mysqld", "--init-connect=SECRET12"]
    [instance.shop.notify]
    ping = { snapshot = "https://hc-ping.com/SECRET5" }
    on_success = "/usr/local/bin/tell"
    on_failure = ["/bin/sh", "-c", "curl -H 'Authorization: Bearer SECRET10' https://hc-ping.com/SECRET11"]
    [[instance.shop.ship]]
    to = "s3://bucket/prefix"
    [instance.shop.ship.s3]
    access_key = "SECRET6"
    secret_key = { file = "/etc/zbackup/SECRET7" }
    key = { file = "/etc/zbackup/SECRET8" }
    proxy = "http://user:SECRET9@proxy.example.net:3128"
    """
    shown = effective(parse_configuration(text))
    assert "SECRET" not in str(shown)
    names = dict(shown)
    assert names["instance.shop.password"] == HIDDEN
    assert names["instance.shop.notify.on_failure"] == f"/bin/sh, {HIDDEN}"
    assert names["instance.shop.notify.on_success"] == "/usr/local/bin/tell"
    assert names["instance.shop.recovery.server"] == f"/usr/sbin/mysqld, {HIDDEN}"
    assert names["instance.shop.datasets"] == "tank/mysql"
    assert names["instance.shop.ship.bucket.to"] == "s3://bucket/prefix"
