"""The page of a host that receives."""

import html
from dataclasses import replace

from tests.unit.fleets import NOW as THEN
from tests.unit.fleets import ROOT, many
from tests.unit.web.browsing import logged_in
from tests.unit.web.host import Told, ago, fleet, host
from zbackup.features.fleet.judgement import judged
from zbackup.features.fleet.look import of_dataset
from zbackup.model.fleet import Fleet
from zbackup.zfs.datasets import Zfs


def receiving() -> Told:
    return Told(replace(host(), instances=(), clones=(), fleet=True))


def test_the_worst_comes_first_with_what_is_wrong() -> None:
    text = html.unescape(logged_in(receiving()).get("/fleet").text)
    assert text.index("db7/docs") < text.index("db2/shop") < text.index("db1/shop")
    assert "3 instances, 2 critical, 1 ok." in text
    assert "2 days would be lost" in text
    assert 'aria-current="page">Fleet' in text


def test_a_host_that_only_receives_begins_with_it() -> None:
    browser = logged_in(receiving())
    assert browser.get("/").headers["location"] == "/fleet"
    for page in ("/clones", "/jobs", "/settings"):
        assert browser.get(page).status_code == 200
    assert ">Fleet<" not in logged_in().get("/").text


def test_hostile_names_are_text_and_many_are_bounded() -> None:
    evil = '<img src=x onerror=alert(1)>"&\x1b[2J'
    source = receiving()
    bad = replace(fleet().members[0], path=evil, instance=evil, address=evil, problems=(evil,))
    source.ships = Fleet(looked=THEN, members=(bad,), unreachable=((evil, evil),), left_out=7)
    text = logged_in(source).get("/fleet").text
    assert "<img" not in text
    assert "\x1b" not in text
    members, _ = of_dataset(Zfs(many(1000, 2, THEN)), ROOT)
    source.ships = Fleet(looked=THEN, members=judged(members, THEN, None))
    text = logged_in(source).get("/fleet").text
    assert text.count("<tr>") == 501
    assert "And 500 that are no worse" in text
    assert len(text.encode()) < 200_000


def test_what_others_looked_at_says_when() -> None:
    source = receiving()
    report = ("/var/lib/zbackup/fleet/<b>.json", ago(minutes=14))
    source.ships = replace(source.ships, reported=(report,))
    text = logged_in(source).get("/fleet").text
    assert "or to where a report is from" in text
    assert "/var/lib/zbackup/fleet/&lt;b&gt;.json: looked at 14 minutes ago" in text
