"""Retention as people write it, and what they are told when it cannot be understood."""

import pytest

from zbackup.config.load import parse
from zbackup.model.errors import ConfigError
from zbackup.model.retention import Retention, Span, Tier

SMALL = '[instance.shop]\nengine = "mysql"\ndatasets = ["tank/my db"]\n'


def problems(line: str) -> list[str]:
    with pytest.raises(ConfigError) as failure:
        parse(f"{SMALL}[instance.shop.retention]\n{line}\n", "c.toml")
    return failure.value.problems


def test_without_a_table_nothing_is_ever_destroyed() -> None:
    rules = parse(SMALL).instance["shop"].retention
    assert (rules.keep, rules.last, rules.minimum, rules.window) == ((), 0, 2, Span(7, "day"))
    assert Retention().empty


@pytest.mark.parametrize(
    ("text", "step", "span"),
    [
        ("every 5 minutes for 2 hours", Span(5, "minute"), Span(2, "hour")),
        ("every hour for 1 day", Span(1, "hour"), Span(1, "day")),
        ("hourly for 2 days", Span(1, "hour"), Span(2, "day")),
        ("quarterly for 3 years", Span(3, "month"), Span(3, "year")),
        ("yearly forever", Span(1, "year"), None),
    ],
)
def test_rules(text: str, step: Span, span: Span | None) -> None:
    table = f'{SMALL}[instance.shop.retention]\nkeep = ["{text}"]\nwindow = "36 hours"\n'
    rules = parse(table).instance["shop"].retention
    assert rules.keep == (Tier(step=step, span=span),)
    assert rules.window == Span(36, "hour")


@pytest.mark.parametrize("text", ["hourly for 2 days", "every 5 minutes for 2 hours", "yearly forever"])
def test_a_rule_is_said_as_it_was_written(text: str) -> None:
    (rule,) = parse(f'{SMALL}[instance.shop.retention]\nkeep = ["{text}"]\n').instance["shop"].retention.keep
    assert str(rule) == text


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('keep = ["hourli for 2 days"]', 'keep[1]: expected a rule such as "every 5 minutes for 2 hours"'),
        ('keep = ["hourli for 2 days"]', 'got "hourli for 2 days"; did you mean "hourly for 2 days"?'),
        ('keep = ["5 minutes for 2 hours"]', 'did you mean "every 5 minutes for 2 hours"?'),
        ('keep = ["hourly 2 days"]', 'did you mean "hourly for 2 days"?'),
        ('keep = ["every 5m for 2h"]', 'did you mean "every 5 minutes for 2 hours"?'),
        ('keep = ["daily"]', 'did you mean "daily forever"?'),
        ('keep = ["daily for 3 hours"]', "expected a rule that lasts at least as long as its step (1 day)"),
        ('keep = ["every 0 days for 1 year"]', "expected a rule such as"),
        ('keep = "daily forever"', 'expected a list such as ["hourly for 2 days", "daily for 30 days"]'),
        ("keep = [3]", "keep[1]: expected a rule such as"),
        (
            'window = "7d"',
            'expected a span of time such as "7 days" or "36 hours", got "7d"; did you mean "7 days"?',
        ),
        ("minimum = 0", "expected at least 1, got 0"),
        ("last = -1", "expected at least 0, got -1"),
        ("keap = []", 'unknown key; did you mean "keep"?'),
    ],
)
def test_a_mistake_is_one_line_that_says_what_was_meant(line: str, says: str) -> None:
    (problem,) = problems(line)
    assert problem.startswith("c.toml:5: instance.shop.retention") and says in problem
