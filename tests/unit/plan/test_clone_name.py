"""Names of clones: always usable, always different for different questions."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.samples import moments
from zbackup.config.units import instance_name_is_valid
from zbackup.model.errors import UsageError
from zbackup.plan.clones.clone_name import (
    MOST_OWN,
    default_name,
    log_name,
    own_names,
    require_good,
    require_wanted,
)

instances = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,39}", fullmatch=True).filter(instance_name_is_valid)


def good(name: str) -> bool:
    try:
        require_good(name)
    except UsageError:
        return False
    return True


def test_the_name_says_instance_and_moment() -> None:
    assert default_name("shop", datetime(2024, 5, 1, 10, 2, tzinfo=UTC)) == "shop-20240501t100200z"
    assert (
        default_name("shop", datetime(2024, 5, 1, 10, 2, 3, 40, tzinfo=UTC)) == "shop-20240501t10020300004z"
    )


@given(instances, moments)
def test_every_default_name_is_good(instance: str, target: datetime) -> None:
    require_good(default_name(instance, target))


@given(instances, moments, moments)
def test_different_moments_have_different_names(instance: str, one: datetime, other: datetime) -> None:
    assert (default_name(instance, one) == default_name(instance, other)) == (one == other)


def test_the_longest_instance_keeps_the_whole_moment() -> None:
    longest = "x" * 40
    assert instance_name_is_valid(longest) and not instance_name_is_valid(longest + "x")
    target = datetime(2024, 5, 1, 10, 2, 3, 123456, tzinfo=UTC)
    assert default_name(longest, target).endswith("-20240501t100203123456z")


@given(st.text(max_size=70))
def test_a_log_source_never_has_a_name_a_user_can_choose(name: str) -> None:
    assert not good(log_name(name))


@pytest.mark.parametrize("name", ["r1", "0", "a_b-c", "x" * 63])
def test_good_names(name: str) -> None:
    assert good(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "R1",
        "-r",
        "_r",
        "a b",
        "a/b",
        "a@b",
        "a.b",
        "..",
        "a\n",
        "\u00e4",
        "x" * 64,
        "a#b",
        "--help",
        "a%b",
    ],
)
def test_bad_names(name: str) -> None:
    assert not good(name)
    with pytest.raises(UsageError, match="cannot be a clone's name"):
        require_good(name)


@given(instances)
def test_no_user_has_a_name_that_is_destroyed_without_being_asked(instance: str) -> None:
    assert len(own_names(instance)) == 3 * MOST_OWN
    for name in own_names(instance):
        require_good(name)
        with pytest.raises(UsageError, match="uses for that instance itself"):
            require_wanted(name, own_names(instance))


def test_a_clone_of_a_user_s_has_a_good_name_that_zbackup_does_not_use_itself() -> None:
    require_wanted("mine", own_names("shop"))
    for name in ("Mine", "a/b", *own_names("shop")):
        with pytest.raises(UsageError):
            require_wanted(name, own_names("shop"))
