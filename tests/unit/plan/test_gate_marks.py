"""Properties of copies, and tokens, that pass the gate."""

import shlex

import pytest

from tests.unit.plan.test_gate import APPEND, FULL, READ, ROOT, allowed, policy
from zbackup.model.errors import Refused
from zbackup.model.record import MOST_MEMBERS, PREFIX
from zbackup.model.shipping import COMMITTED, LONG_PARTS, PARTS, commit_properties
from zbackup.plan.ship.gate import GateOrder, require_below, still_to_mark


def marking(*names: str, **values: str) -> GateOrder:
    line = ["zfs", "set", *(f"{PREFIX}{k}={v}" for k, v in values.items()), *names]
    order = allowed(shlex.join(line), APPEND)
    assert order is not None and order.kind == "mark"
    return order


ONE, TWO = f"{ROOT}/a@s", f"{ROOT}/a/b@s"


def test_a_snapshot_is_marked_once() -> None:
    order = marking(ONE, TWO, version="1", committed="today")
    assert still_to_mark(order, {}) == order.argv


def test_what_is_committed_is_not_changed() -> None:
    order = marking(ONE, version="2", committed="today")
    with pytest.raises(Refused, match="is committed"):
        still_to_mark(order, {ONE: {COMMITTED: "yesterday", f"{PREFIX}version": "1"}})


def test_nothing_is_added_to_what_is_committed() -> None:
    with pytest.raises(Refused, match="is committed"):
        still_to_mark(marking(ONE, gtid="x"), {ONE: {COMMITTED: "yesterday"}})


def test_a_commit_that_was_cut_short_is_taken_up_for_the_rest() -> None:
    """And what it wrote before stays as it was, with its time."""
    order = marking(ONE, TWO, version="1", committed="today")
    argv = still_to_mark(order, {ONE: {COMMITTED: "yesterday", f"{PREFIX}version": "1"}})
    assert argv == ("zfs", "set", f"{PREFIX}version=1", f"{COMMITTED}=today", TWO)


def test_a_commit_that_is_repeated_does_nothing() -> None:
    order = marking(ONE, version="1", committed="today")
    assert still_to_mark(order, {ONE: {COMMITTED: "yesterday", f"{PREFIX}version": "1"}}) == ()


def test_every_property_of_a_commit_passes() -> None:
    properties = commit_properties(FULL, [1, 2], "2026-01-01T00:00:00+00:00")
    line = ["zfs", "set", *(f"{k}={v}" for k, v in properties.items()), ONE]
    assert allowed(shlex.join(line), APPEND) is not None


def test_every_property_of_a_commit_of_as_many_parts_as_there_may_be_passes() -> None:
    properties = commit_properties(FULL, [2**64 - 1] * MOST_MEMBERS, "2026-01-01T00:00:00+00:00")
    assert list(properties)[-1] == COMMITTED and PARTS not in properties and set(LONG_PARTS) < set(properties)
    for key, value in properties.items():
        assert allowed(shlex.join(["zfs", "set", f"{key}={value}", ONE]), APPEND) is not None


@pytest.mark.parametrize("behind", [f".{len(LONG_PARTS) - 1}", ".00", ".x", ".parts.parts", ".", "_", ":0"])
def test_no_other_property_called_like_that_passes(behind: str) -> None:
    assert allowed(shlex.join(["zfs", "set", f"{LONG_PARTS[-1]}=1", ONE]), APPEND) is not None
    assert allowed(shlex.join(["zfs", "set", f"{PARTS}{behind}=1", ONE]), APPEND) is None


def test_what_it_consists_of_is_not_changed_either_once_it_is_committed() -> None:
    order = allowed(shlex.join(["zfs", "set", f"{LONG_PARTS[1]}=1", ONE]), APPEND)
    assert order is not None
    with pytest.raises(Refused, match="is committed"):
        still_to_mark(order, {ONE: {COMMITTED: "yesterday", PARTS: "[]"}})


SAYS = (
    "resume token contents:\nnvlist version: 0\n\ttoguid = 0x1\n\ttoname = {0}\nfull\t{1}\t100\nsize\t100\n"
)


@pytest.mark.parametrize(
    ("named", "sent", "passes"),
    [
        (f"{ROOT}/a@s", f"{ROOT}/a@s", True),
        ("tank/other@s", f"{ROOT}/a@s", False),
        (f"{ROOT}/a@s", "tank/other@s", False),
        (f"{ROOT}2/a@s", f"{ROOT}2/a@s", False),
    ],
)
def test_a_token_is_of_something_below_the_root(named: str, sent: str, passes: bool) -> None:
    said = SAYS.format(named, sent)
    if passes:
        require_below(said, policy(READ))
    else:
        with pytest.raises(Refused, match="not below"):
            require_below(said, policy(READ))


def test_what_an_incremental_token_sends_is_its_third_word() -> None:
    for sent, passes in ((f"{ROOT}/a@s", True), ("tank/other@s", False)):
        said = f"\ttoname = {ROOT}/a@s\nincremental\t{ROOT}/a@r\t{sent}\t100\n"
        if passes:
            require_below(said, policy(READ))
        else:
            with pytest.raises(Refused, match="tank/other@s' is not below"):
                require_below(said, policy(READ))


@pytest.mark.parametrize(
    "said",
    [
        f"\ttoname = {ROOT}/a@s\n",
        f"full\t{ROOT}/a@s\t100\n",
        f"\ttoname = {ROOT}/a@s\n\ttoname = {ROOT}/b@s\nfull\t{ROOT}/a@s\t100\n",
        f"\ttoname = {ROOT}/a@s\nfull\t{ROOT}/a@s\t100\nfull\t{ROOT}/b@s\t100\n",
        f"\ttoname = {ROOT}/a@s\nfull\t{ROOT}/a@s\n",
        f"\ttoname = {ROOT}/a@s\nother\t{ROOT}/a@s\t100\n",
        f"\ttoname = {ROOT}/a@s\nother\t{ROOT}/a@r\t{ROOT}/a@s\t100\n",
        f"\ttoname = {ROOT}/a@s\nincremental\t{ROOT}/a@r\t{ROOT}/a@s\n",
    ],
)
def test_a_token_that_tells_of_none_or_of_several_is_refused(said: str) -> None:
    with pytest.raises(Refused, match="dataset could not be determined"):
        require_below(said, policy(READ))


def test_what_cannot_be_told_of_a_token_is_refused() -> None:
    with pytest.raises(Refused, match="dataset could not be determined"):
        require_below("size\t100\n", policy(READ))
