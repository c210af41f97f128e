"""Webhooks and mail: messages to people, each in the form that the channel understands.

Forms by their makers' documentation: Slack's "Sending messages using incoming webhooks", Microsoft's "Create
incoming webhooks with Workflows for Microsoft Teams" (an adaptive card), ntfy's "Publishing".
"""

import hashlib
import http.client
import json
import smtplib
import ssl
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any, NoReturn
from urllib.parse import urlsplit

from zbackup.config.notify import HealthNotify, Mail, Webhook
from zbackup.config.rules import crosses_in_the_clear
from zbackup.config.schedule import url_is_valid
from zbackup.config.secret import SecretRef
from zbackup.daemon.job_pings import quotes_what_was_given
from zbackup.model.errors import NotDelivered
from zbackup.model.finding import Finding
from zbackup.model.printable import printable
from zbackup.plan.health.notifications import Occasion

LIMIT_S = 15.0
BODY_LIMIT = 30_000

Channel = Webhook | Mail


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A message to people: the instance and its host, the occasion, and the findings."""

    occasion: Occasion
    instance: str
    host: str
    health: str
    findings: Sequence[Finding]

    @property
    def title(self) -> str:
        """One line."""
        said = {
            "problem": self.health.upper(),
            "reminder": f"still {self.health.upper()}",
            "acknowledged": "acknowledged",
            "better": f"no critical problem is left, {self._rest}",
            "recovery": "ok again",
        }
        return printable(f"zbackup: {self.instance} on {self.host}: {said[self.occasion]}")

    @property
    def _rest(self) -> str:
        return f"still {self.health.upper()}" if self.health != "ok" else "others are acknowledged"

    @property
    def text(self) -> str:
        """All that was found, with what to do."""
        lines = []
        for found in self.findings:
            how = f"acknowledged {found.acknowledged}" if found.acknowledged else found.severity
            lines.append(f"{how.upper()}: {found.subject}: {found.text}")
            lines += [f"  {more}" for more in (found.why, found.fix) if more]
        return printable("\n".join(lines) or "no problems are left", lines=True)[:BODY_LIMIT]


def channels(notify: HealthNotify) -> tuple[Channel, ...]:
    """All that are configured; each who gets mail by himself, so that one whom a server refuses keeps it
    from no other and makes nobody get it twice."""
    mails = (mail.model_copy(update={"to": (one,)}) for mail in notify.mail for one in mail.to)
    return (*notify.webhook, *mails)


def identity(channel: Channel) -> str:
    """The same for the same channel from start to start. Tells nobody a URL that is a secret."""
    where = f"{channel.to} {channel.host}" if isinstance(channel, Mail) else f"{channel.kind} {channel.url}"
    digest = hashlib.sha256(f"{where} {channel.severity}".encode()).hexdigest()
    return f"{name_of(channel)} {digest[:16]}"


def name_of(channel: Channel) -> str:
    """A channel for people and logs: who knows a whole URL may write there."""
    if isinstance(channel, Mail):
        return f"mail to {', '.join(channel.to)}"
    where = str(channel.url) if isinstance(channel.url, SecretRef) else urlsplit(channel.url).hostname
    return f"{channel.kind} at {where}"


def send(channel: Channel, notice: Notice) -> None:
    """Tell, once. Raise NotDelivered, or ConfigError when a secret cannot be read."""
    try:
        if isinstance(channel, Mail):
            _mail(channel, notice)
        else:
            _post(channel, notice)
    except (OSError, http.client.HTTPException, smtplib.SMTPException, ValueError) as failure:
        raise NotDelivered(f"{name_of(channel)}: {_said(failure)}") from None


def _said(failure: Exception) -> str:
    """What went wrong. Python's own refusal of a URL, a header or a password quotes it."""
    if quotes_what_was_given(failure) and not isinstance(failure, _Unusable):
        return "its URL, user, password or address cannot be sent: each is to be of plain ASCII"
    return " ".join(str(failure).split())


class _Unusable(ValueError):
    """The text holds no secret."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A message that is sent on becomes a question without it (urllib.request: POST to GET), and the token
    would go to whatever host is named."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> NoReturn:
        raise OSError(f"the webhook redirects ({code}); configure the final URL")

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


_OPENER = urllib.request.build_opener(_NoRedirect)


def _post(channel: Webhook, notice: Notice) -> None:
    url = channel.url.read() if isinstance(channel.url, SecretRef) else channel.url
    if not url_is_valid(url):
        raise _Unusable("the secret is no URL of http or https")
    body, headers = payload(channel.kind, notice)
    if channel.token:
        if crosses_in_the_clear(url):
            raise _Unusable("its URL is not https: the token would cross the network in the clear")
        token = channel.token.read()
        if not token.isascii() or not token.isprintable() or " " in token:
            raise _Unusable("the token is not one word of plain ASCII")
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=body, headers=headers, method="POST")
    with _OPENER.open(request, timeout=LIMIT_S):
        return


def payload(kind: str, notice: Notice) -> tuple[bytes, dict[str, str]]:
    """The body and the headers that a webhook of this kind wants."""
    if kind == "ntfy":
        urgent = notice.health == "critical" and notice.occasion in ("problem", "reminder")
        headers = {
            "Title": notice.title.encode("ascii", "replace").decode(),
            "Priority": "5" if urgent else "3",
        }
        return notice.text.encode(), headers
    content: dict[str, Any]
    match kind:
        case "slack":
            content = {"text": f"*{notice.title}*\n{notice.text}"}
        case "teams":
            blocks = [
                {"type": "TextBlock", "text": text, "wrap": True} for text in (notice.title, notice.text)
            ]
            card = {"type": "AdaptiveCard", "version": "1.4", "body": blocks}
            kind_of_card = "application/vnd.microsoft.card.adaptive"
            content = {"type": "message", "attachments": [{"contentType": kind_of_card, "content": card}]}
        case _:
            content = _document(notice)
    return json.dumps(content).encode(), {"Content-Type": "application/json"}


def _document(notice: Notice) -> dict[str, Any]:
    return {
        "version": 1,
        "occasion": notice.occasion,
        "instance": notice.instance,
        "host": notice.host,
        "health": notice.health,
        "title": notice.title,
        "text": notice.text,
        "findings": [
            {
                "severity": f.severity,
                "subject": f.subject,
                "key": f.key,
                "text": f.text,
                "why": f.why,
                "fix": f.fix,
                "acknowledged": f.acknowledged,
            }
            for f in notice.findings
        ],
    }


def _mail(channel: Mail, notice: Notice) -> None:
    message = EmailMessage()
    message["Subject"], message["From"] = notice.title, channel.sender
    message["To"] = ", ".join(channel.to)
    message.set_content(notice.text)
    secure = ssl.create_default_context()
    connect = smtplib.SMTP_SSL if channel.encryption == "tls" else smtplib.SMTP
    more: dict[str, Any] = {"context": secure} if channel.encryption == "tls" else {}
    with connect(channel.host, channel.tcp_port, timeout=LIMIT_S, **more) as server:
        if channel.encryption == "starttls":
            server.starttls(context=secure)
        if channel.user:
            server.login(channel.user, channel.password.read() if channel.password else "")
        if refused := server.send_message(message):
            raise OSError(f"the server refused {', '.join(refused)}, and took it for the others")
