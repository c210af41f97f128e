"""Requests that are tried again are two lines of the log, however many they are."""

import structlog

from zbackup.destinations.s3.server import CALM_S, Trouble


class Times:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_when_it_starts_and_when_it_is_over() -> None:
    clock = Times()
    trouble = Trouble(clock)
    with structlog.testing.capture_logs() as said:
        for number in range(500):
            clock.now += 1
            trouble.met("put", f"key\x1b{number}", 1, "SlowDown")
            trouble.passed()
        clock.now += CALM_S - 1
        trouble.passed()
        clock.now += 1
        trouble.passed()
        trouble.passed()
        trouble.met("get", "key", 2, "reset")
        trouble.over()
        trouble.over()
    shown = [line for line in said if line["log_level"] != "debug"]
    assert [(line["event"], line.get("retries")) for line in shown] == [
        ("s3.retried", None),
        ("s3.retries_over", 500),
        ("s3.retried", None),
        ("s3.retries_over", 1),
    ]
    assert shown[1]["seconds"] == 499 and "\x1b" not in shown[0]["key"]
