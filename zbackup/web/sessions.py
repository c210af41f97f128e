"""Logins: one-time links, sessions, tokens of forms, and how often somebody may ask. In memory."""

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LINK_S = 300.0
SESSION_S = 12 * 3600.0
MOST_LINKS = 20
MOST_SESSIONS = 200
Clock = Callable[[], float]


def _digest(secret: str) -> str:
    # What is kept opens nothing: not even a dump of this process has a cookie in it.
    return hashlib.sha256(secret.encode()).hexdigest()


class Sessions:
    """Links that log in once, and cookies that they are exchanged for. The oldest go when there are too
    many."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._links: OrderedDict[str, float] = OrderedDict()
        self._sessions: OrderedDict[str, float] = OrderedDict()
        self._key = secrets.token_bytes(32)
        self._lock = threading.Lock()

    def new_link(self) -> str:
        """A secret that logs in once, within LINK_S."""
        secret = secrets.token_urlsafe(32)
        with self._lock:
            self._links[_digest(secret)] = self._clock() + LINK_S
            while len(self._links) > MOST_LINKS:
                self._links.popitem(last=False)
        return secret

    def opens(self, secret: str) -> bool:
        """Whether that is a link's secret that still logs in; it is not used up by that."""
        with self._lock:
            end = self._links.get(_digest(secret))
        return end is not None and end >= self._clock()

    def log_in(self, secret: str) -> str | None:
        """The cookie for a link's secret, which is used up; None where it is wrong, used or old."""
        with self._lock:
            end = self._links.pop(_digest(secret), None)
            if end is None or end < self._clock():
                return None
            cookie = secrets.token_urlsafe(32)
            self._sessions[_digest(cookie)] = self._clock() + SESSION_S
            while len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        return cookie

    def known(self, cookie: str) -> bool:
        """Whether somebody is logged in with it."""
        with self._lock:
            end = self._sessions.get(_digest(cookie))
        return end is not None and end >= self._clock()

    def log_out(self, cookie: str) -> None:
        """The cookie is worth nothing any more."""
        with self._lock:
            self._sessions.pop(_digest(cookie), None)

    def form_token(self, who: str) -> str:
        """Return what every form of this one has to bring back."""
        return hmac.new(self._key, who.encode(), hashlib.sha256).hexdigest()

    def is_form_token(self, who: str, token: str) -> bool:
        """Whether it is that."""
        return hmac.compare_digest(self.form_token(who).encode(), token.encode())


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Rate:
    """A limit for each key: some at once, and `a_second` from then on. The key used longest ago goes."""

    MOST = 1000

    def __init__(self, burst: float, a_second: float, clock: Clock = time.monotonic) -> None:
        self._burst, self._a_second, self._clock = burst, a_second, clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def admits(self, key: str) -> bool:
        """Count one more; False when it is too many."""
        now = self._clock()
        bucket = self._buckets.pop(key, None) or _Bucket(self._burst, now)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._a_second)
        bucket.at = now
        self._buckets[key] = bucket
        if len(self._buckets) > self.MOST:
            self._buckets.popitem(last=False)
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
