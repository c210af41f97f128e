"""Whom the daemon tells of health: when, in which form, and that what was told outlives it."""

import itertools
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.daemon.test_notifier import Web, web
from zbackup.config.load import parse
from zbackup.config.notify import HealthNotify, Mail, Webhook
from zbackup.config.secret import SecretRef
from zbackup.daemon.channels import Notice, name_of, payload, send
from zbackup.daemon.health_notifier import HealthNotifier
from zbackup.daemon.notifier import Lines
from zbackup.jobs.watch.status import Status
from zbackup.model.errors import ConfigError, NotDelivered
from zbackup.model.finding import Finding, Severity, worst
from zbackup.plan.health.notices import Told, occasion, serious, told

__all__ = ["web"]

NOW = datetime(2024, 5, 1, 10, tzinfo=UTC)
DAY = timedelta(days=1)


def finding(severity: Severity, subject: str, text: str = "is wrong") -> Finding:
    return Finding(severity=severity, subject=subject, text=text)


POOL, CLOCK = finding("critical", "pool"), finding("warning", "clock")


def steps(*looks: list[Finding], every: timedelta = timedelta(minutes=5)) -> list[str | None]:
    """Why somebody is told at each of these looks."""
    known: Told | None = None
    said: list[str | None] = []
    for number, found in enumerate(looks):
        now = NOW + number * every
        why = occasion(known, found, now, DAY)
        known = told(found, now, known, why)
        said.append(why)
    return said


def test_a_problem_is_told_once_and_so_is_its_end() -> None:
    assert steps([], [POOL], [POOL], [replace(POOL, text="other words")], [], []) == [
        None, "problem", None, None, "recovery", None,
    ]  # fmt: skip


def test_another_problem_and_one_that_gets_worse_are_news_and_one_that_goes_is_not() -> None:
    worse = replace(CLOCK, severity="critical")
    assert steps([CLOCK], [CLOCK, POOL], [CLOCK], [worse], []) == [
        "problem", "problem", None, "problem", "recovery",
    ]  # fmt: skip


def test_one_that_comes_and_goes_beside_another_is_told_once() -> None:
    assert steps([POOL], [POOL, CLOCK], [POOL], [POOL, CLOCK], []) == [
        "problem", "problem", None, None, "recovery",
    ]  # fmt: skip


def test_what_stays_is_told_again_after_a_while() -> None:
    assert steps(*[[POOL]] * 5, every=DAY / 2) == ["problem", None, "reminder", None, "reminder"]


FINDINGS = st.lists(st.sampled_from([POOL, CLOCK, finding("critical", "clock"), finding("warning", "x")]))


@given(st.lists(FINDINGS, max_size=12))
def test_nobody_hears_of_an_end_without_a_beginning(looks: list[list[Finding]]) -> None:
    heard = [each for each in steps(*looks) if each]
    assert heard[:1] in ([], ["problem"])
    assert all(b != "recovery" or a != "recovery" for a, b in itertools.pairwise(heard))
    assert (heard[-1] == "recovery") == (not looks[-1]) if heard and looks else not any(looks)


def test_only_what_is_bad_enough_counts() -> None:
    advice = finding("advice", "atime")
    assert serious((advice, CLOCK, POOL), "warning") == (POOL, CLOCK)
    assert serious((advice, CLOCK, POOL), "critical") == (POOL,)


NOTICE = Notice(
    occasion="problem",
    instance="shop",
    host="db1",
    health="critical",
    findings=(POOL, replace(CLOCK, fix="do")),
)


@pytest.mark.parametrize("kind", ["json", "slack", "teams", "ntfy"])
def test_each_kind_gets_its_form(kind: str) -> None:
    body, headers = payload(kind, NOTICE)
    if kind == "ntfy":
        assert headers == {"Title": "zbackup: shop on db1: CRITICAL", "Priority": "5"}
        assert body.decode().startswith("CRITICAL: pool: is wrong\n")
        return
    content = json.loads(body)
    assert headers["Content-Type"] == "application/json"
    match kind:
        case "slack":
            assert content["text"].startswith("*zbackup: shop on db1: CRITICAL*\nCRITICAL: pool")
        case "teams":
            card = content["attachments"][0]["content"]
            assert card["type"] == "AdaptiveCard" and "CRITICAL: pool" in card["body"][1]["text"]
        case _:
            assert (content["instance"], content["health"]) == ("shop", "critical")
            assert [f["subject"] for f in content["findings"]] == ["pool", "clock"]


def test_no_text_of_others_adds_a_header() -> None:
    nasty = replace(NOTICE, instance="a\r\nX: y", findings=(finding("critical", "s", "x\r\n\x1b[2J"),))
    _, headers = payload("ntfy", nasty)
    assert "\n" not in headers["Title"] and "\x1b" not in nasty.text


@dataclass
class Mailbox:
    """A mail server that keeps what it was given."""

    port: int = 0
    said: list[str] = field(default_factory=list)


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                word = line.decode().strip()
                box.said.append(word)
                if word.upper() == "DATA":
                    self.wfile.write(b"354 go on\r\n")
                    while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        box.said.append(text)
                self.wfile.write(b"221 bye\r\n" if word.upper() == "QUIT" else b"250 ok\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        box.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield box
        server.shutdown()


def test_mail_arrives(mailbox: Mailbox) -> None:
    mail = Mail(
        to=("a@example.com", "b@example.com"), sender="zb@example.com", host="127.0.0.1", port=mailbox.port
    )
    send(mail, NOTICE)
    text = "\n".join(mailbox.said)
    assert "rcpt to:<a@example.com>" in text.lower() and "rcpt to:<b@example.com>" in text.lower()
    assert "Subject: zbackup: shop on db1: CRITICAL" in text and "CRITICAL: pool: is wrong" in text


def test_who_cannot_be_reached_is_named_without_the_secret(tmp_path: Path) -> None:
    hidden = tmp_path / "url"
    hidden.write_text("http://127.0.0.1:1/the-secret\n")
    hidden.chmod(0o600)
    kept = Webhook(url={"file": str(hidden)})  # type: ignore[arg-type]
    assert isinstance(kept.url, SecretRef)
    for channel in (kept, Webhook(url="http://127.0.0.1:1/the-secret")):
        with pytest.raises(NotDelivered) as failure:
            send(channel, NOTICE)
        assert "the-secret" not in str(failure.value) and name_of(channel) in str(failure.value)


@pytest.mark.parametrize(
    ("url", "token"),
    [
        ("http://127.0.0.1:1/sekrit here", ""),
        ("http://127.0.0.1:port/sekrit", ""),
        ("http://[::1/sekrit", ""),
        ("ftp://127.0.0.1/sekrit", ""),
        ("http://example.com/sekrit", "word"),
        ("http://127.0.0.1:1/", "sekrit\nmore"),
        ("http://127.0.0.1:1/", "two sekrit"),
        ("http://127.0.0.1:1/", "s\u00e9krit sekrit"),
    ],
)
def test_no_refusal_quotes_a_secret(url: str, token: str, tmp_path: Path) -> None:
    refs: Any = {}
    for name, text in (("url", url), ("token", token)):
        if text:
            (tmp_path / name).write_text(text + "\n")
            (tmp_path / name).chmod(0o600)
            refs[name] = {"file": str(tmp_path / name)}
    with pytest.raises((NotDelivered, ConfigError)) as failure:
        send(Webhook(**refs), NOTICE)
    assert "krit" not in str(failure.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_message_that_is_sent_elsewhere_is_not_delivered(code: int, web: Web) -> None:
    web.moved = code
    with pytest.raises(NotDelivered, match=str(code)):
        send(Webhook(url=f"{web.url}/x"), NOTICE)
    assert [path for path, _ in web.asked] == ["/x"]


def status(*findings: Finding, minutes: int = 0) -> Status:
    class Looked:
        instance = "shop"
        looked = NOW + timedelta(minutes=minutes)
        health = worst(findings)

    Looked.findings = findings  # type: ignore[attr-defined]
    return cast(Status, Looked)


def test_the_daemon_tells_and_remembers_what_it_told(web: Web, tmp_path: Path) -> None:
    hook: Any = {"url": f"{web.url}/all"}
    grave: Any = {"url": f"{web.url}/grave", "severity": "critical"}
    notify = HealthNotify(webhook=(Webhook(**hook), Webhook(**grave)))
    for found in ([CLOCK], [CLOCK], [CLOCK, POOL], [CLOCK, POOL], []):
        lines = Lines()
        HealthNotifier(tmp_path, lines).of(status(*found), notify)  # a new daemon each time
        lines.close()
    heard = [(path, json.loads(body)["occasion"]) for path, body in web.asked]
    assert [each for each in heard if each[0] == "/all"] == [
        ("/all", "problem"), ("/all", "problem"), ("/all", "recovery"),
    ]  # fmt: skip
    assert [each for each in heard if each[0] == "/grave"] == [("/grave", "problem"), ("/grave", "recovery")]


def test_a_server_that_fails_is_tried_again(web: Web, tmp_path: Path) -> None:
    web.bad = 3
    slept: list[float] = []
    lines = Lines()
    notify = HealthNotify(webhook=(Webhook(url=f"{web.url}/x"),))
    HealthNotifier(tmp_path, lines, slept.append).of(status(POOL), notify)
    lines.close()
    assert len(web.asked) == 4 and slept == [2.0, 10.0, 30.0]


@pytest.mark.parametrize("text", ["", "[]", '{"told": 3}', '{"told": [{"instance": "a"}]}', "\x00"])
def test_what_was_told_and_makes_no_sense_is_forgotten(text: str, tmp_path: Path, web: Web) -> None:
    (tmp_path / "told.json").write_text(text)
    lines = Lines()
    notify = HealthNotify(webhook=(Webhook(url=f"{web.url}/x"),))
    HealthNotifier(tmp_path, lines).of(status(POOL), notify)
    lines.close()
    assert len(web.asked) == 1


SMALL = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/db"]\n'


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ('[[notify.webhook]]\nurl = "ftp://x"', 'a URL such as "https://'),
        (
            '[[notify.webhook]]\nurl = "http://x"\ntoken = { env = "T" }',
            "would cross the network in the clear",
        ),
        ('[[notify.webhook]]\nurl = "http://x"\nkind = "irc"', "notify.webhook[1].kind: expected"),
        ('[[notify.mail]]\nto = "a@b, c@d"\nsender = "z@b"', "an address such as"),
        ('[[notify.mail]]\nto = "a@b"\nsender = "z@b\\nBcc: x@y"', "an address such as"),
        (
            '[[notify.mail]]\nto = "a@b"\nsender = "z@b"\nhost = "m"\nuser = "u"',
            "would cross the network in the clear",
        ),
        ('[notify.mail]\nto = "a@b"\nsender = "z@b"', "expected [[notify.mail]] with two brackets"),
    ],
)
def test_what_cannot_be_is_refused(table: str, says: str) -> None:
    with pytest.raises(ConfigError, match="notify") as failure:
        parse(SMALL + table)
    assert len([line for line in failure.value.problems if says in line]) == 1


def test_mail_ports_follow_the_encryption() -> None:
    table = '[[notify.mail]]\nto = ["a@b"]\nsender = "z@b"\nhost = "m"\nuser = "u"\nencryption = "starttls"\n'
    (mail,) = parse(SMALL + table).notify.mail
    assert (mail.tcp_port, mail.to) == (587, ("a@b",))
