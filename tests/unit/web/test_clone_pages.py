"""Requests that the page lets people make, and what it never passes on."""

import html
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from starlette.testclient import TestClient
from structlog.testing import capture_logs

from tests.unit.web.browsing import ACCESS, ORIGIN, client, form_token, logged_in
from tests.unit.web.host import NOW, Told, ago, host
from zbackup.model.operation import Operation
from zbackup.web.source import CloneWish

GOOD = {"verb": "create", "instance": "shop", "once": "ab" * 16, "lease": "14400"}
OPERATION = Operation(
    id="ab" * 16,
    verb="create",
    instance="shop",
    clone="dev7",
    who="ann",
    began=ago(minutes=2),
    phase="cloning",
    done=512,
    total=1024,
)


def allowed() -> Told:
    return Told(replace(host(), may_clone=True))


def post(browser: TestClient, path: str, fields: dict[str, str], origin: str = ORIGIN) -> tuple[int, str]:
    token = form_token(browser.get("/clones").text)
    answer = browser.post(path, data={"token": token, **fields}, headers={"Origin": origin})
    return answer.status_code, answer.headers.get("location") or html.unescape(answer.text)


def test_what_is_ordered_is_passed_on_as_it_was_written() -> None:
    source = allowed()
    browser = logged_in(source)
    told = post(browser, "/operations", {**GOOD, "clone": " dev7 ", "at": "yesterday 10:02"})
    assert told == (303, f"/operations/{'ab' * 16}")
    (wish,) = source.wishes
    who = form_token(browser.get("/").text)[:8]
    assert wish == CloneWish(
        verb="create",
        id="ab" * 16,
        who=who,
        instance="shop",
        clone="dev7",
        at="2026-11-21T09:02:00+00:00",
        lease="14400",
    )


@pytest.mark.parametrize("verb", ["reset", "destroy"])
def test_what_cannot_be_taken_back_wants_to_be_sure(verb: str) -> None:
    source = allowed()
    asked = {**GOOD, "verb": verb, "clone": "dev1"}
    status, text = post(logged_in(source), "/operations", asked)
    assert (status, source.wishes) == (400, [])
    assert "say that you are sure" in text
    assert post(logged_in(source), "/operations", {**asked, "sure": "yes"})[0] == 303


@pytest.mark.parametrize("path", ["/operations", "/clones/dev1/connect"])
def test_no_order_without_login_token_and_origin(path: str) -> None:
    source = allowed()
    browser = logged_in(source)
    for token, origin in (("", ORIGIN), ("0" * 64, ORIGIN), (None, "http://evil.example"), (None, "null")):
        good = form_token(browser.get("/clones").text) if token is None else token
        answer = browser.post(path, data={**GOOD, "token": good}, headers={"Origin": origin})
        assert answer.status_code == 403
    assert client(source).post(path, data=GOOD, headers={"Origin": ORIGIN}).status_code == 403
    assert browser.get(path).status_code in (404, 405)
    assert source.wishes == []


def test_a_form_with_too_many_fields_is_refused() -> None:
    many = {f"f{n}": "x" for n in range(40)}
    assert post(logged_in(allowed()), "/operations", many)[0] == 413


def test_ordering_too_often_is_refused() -> None:
    browser = logged_in(allowed())
    assert [post(browser, "/operations", GOOD)[0] for _ in range(21)] == [303] * 20 + [429]


def test_why_it_is_refused_is_said() -> None:
    source = allowed()
    source.no_order = "the helper refuses: clones = true in [web]"
    status, text = post(logged_in(source), "/operations", GOOD)
    assert status == 400
    assert "clones = true" in text


def test_who_asked_is_in_the_log_and_no_password_is() -> None:
    access = replace(ACCESS, header="X-Remote-User")
    source = allowed()
    browser = client(source, access=access)
    browser.headers["X-Remote-User"] = "ann"
    with capture_logs() as events:
        assert post(browser, "/operations", GOOD)[0] == 303
        status, text = post(browser, "/clones/dev1/connect", {})
    assert status == 200
    assert "mysql://zbackup_clone:s3cret@127.0.0.1:23100/dev1" in text
    assert [w.who for w in source.wishes] == ["ann", "ann"]
    (ordered,) = [e for e in events if e["event"] == "web.ordered"]
    assert (ordered["who"], ordered["verb"]) == ("ann", "create")
    assert "s3cret" not in str(events)


def test_where_clones_are_not_allowed_nothing_can_be_asked_for() -> None:
    browser = logged_in()
    for path in ("/clones", "/clones/dev1", "/instance/shop/moment?at=-1h"):
        text = browser.get(path).text
        assert 'action="/operations"' not in text
        assert "Read only." in text
    assert "zbackup clone destroy dev1" in browser.get("/clones/dev1").text


def test_a_clone_says_what_it_may_take_and_how_long_it_stays() -> None:
    seen = replace(host(), may_clone=True)
    dev = replace(seen.clones[1], quota=20 << 30)
    copy = replace(seen.clones[0], kind="copy")
    browser = logged_in(Told(replace(seen, clones=(dev, copy))))
    text = browser.get("/clones/dev1").text
    assert "700 MiB of 20.0 GiB (quota)" in text
    assert "in 2 hours" in text
    assert re.findall(r'name="verb" value="(\w+)"', text) == ["extend", "reset", "destroy"]
    # What is no clone of people's is shown, and left alone.
    assert 'action="/operations"' not in browser.get("/clones/good").text
    assert browser.get("/clones/none").status_code == 404


def test_a_moment_can_be_restored_from_here() -> None:
    text = html.unescape(logged_in(allowed()).get("/instance/shop/moment?at=yesterday+10:02").text)
    assert 'name="verb" value="restore"' in text
    assert 'name="at" value="2026-11-21T09:02:00Z"' in text
    assert "/clones?instance=shop&at=2026-11-21T09" in text


def test_progress_is_followed_without_javascript() -> None:
    source = allowed()
    source.went = (OPERATION,)
    text = logged_in(source).get(f"/operations/{OPERATION.id}").text
    assert '<noscript><meta http-equiv="refresh" content="2"></noscript>' in text
    assert '<progress max="1024" value="512"' in text
    done = replace(OPERATION, state="done", ended=NOW + timedelta(seconds=1), said="dev7 runs")
    source.went = (done,)
    text = logged_in(source).get(f"/operations/{OPERATION.id}").text
    assert "http-equiv" not in text
    assert "Done: dev7 runs." in text
    assert logged_in(source).get("/operations/none").status_code == 404
    assert "dev7 runs" in logged_in(source).get("/jobs").text


def test_hostile_operations_are_text() -> None:
    evil = "<script>alert(1)</script>\x1b[2J"
    source = allowed()
    bad = replace(OPERATION, state="failed", said=evil, who=evil, notes=(evil,), clone=evil, ended=NOW)
    source.went = (bad,)
    for path in (f"/operations/{OPERATION.id}", "/jobs"):
        text = logged_in(source).get(path).text
        assert "<script>" not in text
        assert "\x1b" not in text
