"""Access to the page: who is let in, and what every answer carries."""

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from structlog.testing import capture_logs

from tests.unit.web.browsing import ACCESS, ORIGIN, client, form_token, logged_in
from tests.unit.web.host import Told
from zbackup.model.errors import Refused, UsageError
from zbackup.proc.helper_socket import ask
from zbackup.web.server import Links, Listening
from zbackup.web.sessions import LINK_S, SESSION_S, Rate, Sessions

PAGES = ("/", "/instance/shop", "/instance/shop/moment?at=-1h", "/clones", "/jobs", "/settings")


class Now:
    """Seconds that a test moves on."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize("page", PAGES)
def test_nobody_sees_anything_without_a_login(page: str) -> None:
    answer = client().get(page)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "shop" not in answer.text


@pytest.mark.parametrize("page", [*PAGES, "/login", "/static/style.css", "/nothing"])
def test_every_answer_forbids_what_pages_do_not_need(page: str) -> None:
    for browser in (client(), logged_in()):
        headers = browser.get(page).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert page.startswith("/static/") or headers["cache-control"] == "no-store"


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_a_script_or_a_style_in_it(page: str) -> None:
    text = logged_in().get(page).text
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick" not in text
    assert text.count("<script") == text.count('<script src="/static/page.js" defer></script>') == 1


def test_a_link_logs_in_once() -> None:
    sessions = Sessions()
    browser, link = client(sessions=sessions), sessions.new_link()
    assert 'value="' + link in browser.get(f"/login?link={link}").text  # which uses nothing up
    answer = browser.post("/login", data={"link": link}, headers={"Origin": ORIGIN})
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert browser.get("/").status_code == 200
    again = client(sessions=sessions).post("/login", data={"link": link}, headers={"Origin": ORIGIN})
    assert again.status_code == 403
    assert "set-cookie" not in again.headers


def test_behind_https_the_cookie_goes_no_other_way() -> None:
    access = replace(ACCESS, secure=True)
    sessions = Sessions()
    answer = client(access=access, sessions=sessions).post(
        "/login", data={"link": sessions.new_link()}, headers={"Origin": ORIGIN}
    )
    assert "; Secure" in answer.headers["set-cookie"]


def test_links_and_sessions_end() -> None:
    now = Now()
    sessions = Sessions(now)
    link, late = sessions.new_link(), sessions.new_link()
    cookie = sessions.log_in(link)
    assert cookie
    now.seconds += LINK_S + 1
    assert sessions.log_in(late) is None
    assert sessions.known(cookie)
    now.seconds += SESSION_S
    assert not sessions.known(cookie)


def test_logging_out_ends_the_session_everywhere() -> None:
    browser = logged_in()
    cookies = dict(browser.cookies)
    token = form_token(browser.get("/").text)
    assert browser.post("/logout", data={"token": token}, headers={"Origin": ORIGIN}).status_code == 303
    browser.cookies.update(cookies)
    assert browser.get("/").headers["location"] == "/login"


@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
def test_a_form_without_its_token_is_refused(token: str) -> None:
    browser = logged_in()
    assert browser.post("/logout", data={"token": token}, headers={"Origin": ORIGIN}).status_code == 403
    assert browser.get("/").status_code == 200


def test_the_token_of_another_session_is_refused() -> None:
    token = form_token(logged_in().get("/").text)
    assert logged_in().post("/logout", data={"token": token}, headers={"Origin": ORIGIN}).status_code == 403


@pytest.mark.parametrize("origin", [None, "null", "http://evil.example", "http://127.0.0.1:8421", ""])
def test_a_form_from_elsewhere_is_refused(origin: str | None) -> None:
    browser = logged_in()
    token = form_token(browser.get("/").text)
    headers = {} if origin is None else {"Origin": origin}
    assert browser.post("/logout", data={"token": token}, headers=headers).status_code == 403
    assert browser.get("/").status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8420", "127.0.0.1", "127.0.0.1:80", ""])
def test_a_name_that_is_not_ours_is_refused(host: str) -> None:
    for path in ("/", "/login", "/static/style.css"):
        answer = logged_in().get(path, headers={"Host": host})
        assert answer.status_code == 421
        assert "shop" not in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_method(method: str) -> None:
    assert logged_in().request(method, "/").status_code == 405


def test_a_form_is_bounded() -> None:
    answer = client().post("/login", data={"link": "x" * 5000}, headers={"Origin": ORIGIN})
    assert answer.status_code == 413
    assert client().get("/login?link=" + "x" * 5000).status_code == 414


def test_guessing_links_is_slow() -> None:
    browser = client()
    answers = [
        browser.post("/login", data={"link": "wrong"}, headers={"Origin": ORIGIN}).status_code
        for _ in range(12)
    ]
    assert answers == [403] * 10 + [429] * 2


def test_whoever_guesses_locks_nobody_out_who_has_a_link() -> None:
    sessions = Sessions()
    browser = client(sessions=sessions)
    wrong = {"link": "wrong"}
    for _ in range(200):
        browser.post("/login", data=wrong, headers={"Origin": ORIGIN})
    assert browser.post("/login", data=wrong, headers={"Origin": ORIGIN}).status_code == 429
    assert browser.get("/login").status_code == 429
    link = sessions.new_link()
    assert browser.get(f"/login?link={link}").status_code == 200
    assert browser.post("/login", data={"link": link}, headers={"Origin": "http://evil"}).status_code == 403
    answer = browser.post("/login", data={"link": link}, headers={"Origin": ORIGIN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert browser.get("/").status_code == 200
    again = client(sessions=sessions).post("/login", data={"link": link}, headers={"Origin": ORIGIN})
    assert again.status_code == 403  # it has not been used up twice


def test_asking_too_often_is_refused_and_others_are_not() -> None:
    now = Now()
    rate = Rate(3, 1, now)
    assert [rate.admits("one") for _ in range(4)] == [True, True, True, False]
    assert rate.admits("other")
    now.seconds += 1
    assert [rate.admits("one") for _ in range(2)] == [True, False]


def test_who_asks_too_often_hears_so() -> None:
    browser = client()
    assert 429 in [browser.get("/login").status_code for _ in range(200)]


def test_a_proxy_names_who_is_there() -> None:
    access = replace(ACCESS, header="X-Remote-User")
    browser = client(access=access)
    assert browser.get("/").status_code == 403
    assert browser.get("/", headers={"X-Remote-User": "ann"}).status_code == 200
    for bad in ("", "a\x07b", "x" * 200):
        assert browser.get("/", headers={"X-Remote-User": bad}).status_code == 403
    twice = [("X-Remote-User", "ann"), ("X-Remote-User", "bob")]
    assert browser.get("/", headers=twice).status_code == 403


def test_a_header_is_worth_nothing_where_nobody_said_so() -> None:
    assert client().get("/", headers={"X-Remote-User": "ann"}).headers["location"] == "/login"


def test_what_was_done_is_in_the_audit_log_without_secrets() -> None:
    sessions = Sessions()
    browser, link = client(sessions=sessions), sessions.new_link()
    with capture_logs() as events:
        browser.get(f"/login?link={link}")
        browser.post("/login", data={"link": link}, headers={"Origin": ORIGIN})
        browser.get("/clones")
        browser.get("/", headers={"Host": "evil.example"})
    said = [(e["event"], e.get("path"), e.get("status")) for e in events]
    assert ("web.login", None, None) in said
    assert ("web.request", "/clones", 200) in said
    assert ("web.request", "/", 421) in said
    for secret in (link, *browser.cookies.values()):
        assert secret not in str(events)


@pytest.mark.parametrize(
    "listening",
    [
        Listening(host="0.0.0.0"),
        Listening(host="192.0.2.7"),
        Listening(host="::"),
        Listening(header="X-Remote-User"),
        Listening(path=Path("/run/x")),
        Listening(path=Path("/run/x"), origin="zbackup.example.net"),
        Listening(path=Path("/run/x"), origin="https://zbackup.example.net/path"),
        Listening(origin="javascript:alert(1)"),
    ],
)
def test_it_is_not_served_to_everybody(listening: Listening) -> None:
    with pytest.raises(UsageError):
        listening.access()


def test_where_it_is_served() -> None:
    found = Listening().access()
    assert found.hosts == {"127.0.0.1:8420", "localhost:8420"}
    proxied = Listening(
        path=Path("/run/x"), origin="https://zbackup.example.net", header="X-Remote-User"
    ).access()
    assert (proxied.hosts, proxied.secure) == (frozenset(("zbackup.example.net",)), True)


def test_why_nothing_can_be_shown_is_said() -> None:
    source = Told()
    source.refuses = "nobody answers at /run/zbackup-read.sock: No such file or directory"
    answer = logged_in(source).get("/")
    assert answer.status_code == 503
    assert "zbackup-read.sock" in answer.text


@pytest.mark.skipif(os.geteuid() != 0, reason="takes another user's place")
def test_a_link_is_given_to_root_and_to_nobody_else() -> None:
    sessions = Sessions()
    with TemporaryDirectory(prefix="zb") as home, Links(Path(home, "s"), sessions, Listening()):
        path = Path(home, "s")
        link = ask(path, {})["link"]
        assert sessions.log_in(link.partition("link=")[2])
        assert path.stat().st_mode & 0o777 == 0o600
        path.parent.chmod(0o755)
        path.chmod(0o666)  # so that the kernel's word is tried, too
        child = os.fork()
        if child == 0:
            status = 1
            with suppress(BaseException):
                os.setuid(65534)
                try:
                    ask(path, {})
                except Refused as refused:
                    status = 0 if "only root gets a link" in str(refused) else 2
            os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
