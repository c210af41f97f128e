"""Notifications of health: whom, when, in which form, and that what was told outlives the daemon."""

import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.unit.daemon.test_job_pings import Web, web
from tests.unit.plan.test_occasions import CLOCK, KNOWN, NOW, POOL, finding
from zbackup.config.load import parse
from zbackup.config.notify import HealthNotify, Mail, Webhook
from zbackup.config.secret import SecretRef
from zbackup.daemon.health_notifier import HealthNotifier, SeenFindings
from zbackup.daemon.job_pings import Queues
from zbackup.daemon.webhooks_and_mail import Notice, name_of, payload, send
from zbackup.model.errors import ConfigError, NotDelivered
from zbackup.model.finding import Finding

__all__ = ["web"]

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
    refuses: str = "nobody"

    def answer(self, word: str) -> bytes:
        if word.startswith("RCPT") and self.refuses.upper() in word:
            return b"550 no such user\r\n"
        return b"221 bye\r\n" if word == "QUIT" else b"250 ok\r\n"


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
                self.wfile.write(box.answer(word.upper()))

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


def test_a_recipient_that_is_refused_is_named_and_the_others_get_it_once(
    mailbox: Mailbox, tmp_path: Path
) -> None:
    mailbox.refuses = "b@example.com"
    to = ("a@example.com", "b@example.com")
    mail = Mail(to=to, sender="zb@example.com", host="127.0.0.1", port=mailbox.port)
    with pytest.raises(NotDelivered, match=r"refused b@example\.com"):
        send(mail, NOTICE)
    mailbox.said.clear()
    queues = Queues()
    notifier = HealthNotifier(tmp_path, queues, lambda _: None)
    for minutes in (0, 1):
        notifier.of(seen(POOL, minutes=minutes), HealthNotify(mail=(mail,)))
        queues.close()
    asked = [word.upper() for word in mailbox.said if word.upper().startswith("RCPT")]
    assert sum("A@EXAMPLE" in word for word in asked) == 1 and sum("B@EXAMPLE" in word for word in asked) == 8


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


def seen(*findings: Finding, minutes: int = 0) -> SeenFindings:
    return SeenFindings(instance="shop", looked=NOW + timedelta(minutes=minutes), findings=findings)


def test_the_daemon_tells_and_remembers_what_it_told(web: Web, tmp_path: Path) -> None:
    hook: Any = {"url": f"{web.url}/all"}
    grave: Any = {"url": f"{web.url}/grave", "severity": "critical"}
    notify = HealthNotify(webhook=(Webhook(**hook), Webhook(**grave)))
    for found in ([CLOCK], [CLOCK], [CLOCK, POOL], [CLOCK, POOL], []):
        queues = Queues()
        HealthNotifier(tmp_path, queues).of(seen(*found), notify)  # a new daemon each time
        queues.close()
    heard = [(path, json.loads(body)["occasion"]) for path, body in web.asked]
    assert [each for each in heard if each[0] == "/all"] == [
        ("/all", "problem"), ("/all", "problem"), ("/all", "recovery"),
    ]  # fmt: skip
    assert [each for each in heard if each[0] == "/grave"] == [("/grave", "problem"), ("/grave", "recovery")]


def test_an_acknowledgement_is_told_as_one(web: Web, tmp_path: Path) -> None:
    queues = Queues()
    notifier = HealthNotifier(tmp_path, queues)
    notify = HealthNotify(webhook=(Webhook(url=f"{web.url}/x"),))
    until = replace(KNOWN, text="is wrong; acknowledged until tomorrow (disk is ordered)")
    for found in ([POOL], [until], []):
        notifier.of(seen(*found), notify)
        queues.close()
    said = [json.loads(body) for _, body in web.asked]
    assert [each["title"].rpartition(": ")[2] for each in said] == ["CRITICAL", "acknowledged", "ok again"]
    assert said[1]["text"].startswith("ACKNOWLEDGED CRITICAL: pool: is wrong; acknowledged until tomorrow")


def test_the_end_of_the_critical_ones_says_what_is_left() -> None:
    better = replace(NOTICE, occasion="better", health="warning", findings=(CLOCK,))
    assert better.title == "zbackup: shop on db1: no critical problem is left, still WARNING"
    assert better.text == "WARNING: clock: is wrong"


def test_who_was_not_reached_is_told_at_the_next_look(web: Web, tmp_path: Path) -> None:
    web.bad = 4
    queues = Queues()
    notifier = HealthNotifier(tmp_path, queues, lambda _: None)
    notify = HealthNotify(
        webhook=(Webhook(url=f"{web.url}/x"), Webhook(url=f"{web.url}/x", severity="critical"))
    )
    one = notify.model_copy(update={"webhook": notify.webhook[:1]})
    for minutes in (0, 1, 2):
        notifier.of(seen(POOL, minutes=minutes), one)
        queues.close()
    assert len(web.asked) == 5 and "tank" not in (tmp_path / "told.json").read_text()
    notifier.of(seen(POOL, minutes=3), notify)
    queues.close()
    assert len(web.asked) == 6  # the other channel alone


def test_a_look_that_fails_is_told_once_and_its_end(web: Web, tmp_path: Path) -> None:
    queues = Queues()
    notifier = HealthNotifier(tmp_path, queues)
    notify = HealthNotify(webhook=(Webhook(url=f"{web.url}/x"),))
    notifier.of(seen(CLOCK), notify)
    queues.close()
    for minutes in (1, 2):
        notifier.failed("shop", NOW + timedelta(minutes=minutes), "pool tank is suspended", notify)
        queues.close()
    notifier.of(seen(CLOCK, minutes=3), notify)
    notifier.of(seen(minutes=4), notify)
    queues.close()
    said = [json.loads(body) for _, body in web.asked]
    assert [(each["occasion"], each["health"]) for each in said] == [
        ("problem", "warning"), ("problem", "critical"), ("recovery", "ok"),
    ]  # fmt: skip
    assert "pool tank is suspended" in said[1]["text"] and "clock" in said[1]["text"]


def test_a_call_that_breaks_ends_no_line() -> None:
    queues, called = Queues(), threading.Event()
    queues.queue("notices", "x").put(lambda: [][0])
    queues.queue("notices", "x").put(called.set)
    queues.close()
    assert called.is_set()


def test_a_server_that_fails_is_tried_again(web: Web, tmp_path: Path) -> None:
    web.bad = 3
    slept: list[float] = []
    queues = Queues()
    notify = HealthNotify(webhook=(Webhook(url=f"{web.url}/x"),))
    HealthNotifier(tmp_path, queues, slept.append).of(seen(POOL), notify)
    queues.close()
    assert len(web.asked) == 4 and slept == [2.0, 10.0, 30.0]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"told": 3}', '{"told": [{"instance": "a"}]}', "\x00", "[" * 100_000]
)
def test_what_was_told_and_makes_no_sense_is_forgotten(text: str, tmp_path: Path, web: Web) -> None:
    (tmp_path / "told.json").write_text(text)
    queues = Queues()
    notify = HealthNotify(webhook=(Webhook(url=f"{web.url}/x"),))
    HealthNotifier(tmp_path, queues).of(seen(POOL), notify)
    queues.close()
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
        ('[[notify.mail]]\nto = "a@[b"\nsender = "z@b"', "an address such as"),
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
