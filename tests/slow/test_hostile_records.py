"""Records and catalogues that somebody made up: many more of them than the unit tests have time for."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit import hostile
from tests.unit.model import test_hostile
from tests.unit.plan import test_arrival, test_hostile_catalogues
from tests.unit.plan.histories import History, histories, policies, sound_histories
from zbackup.model.retention import Retention

pytestmark = pytest.mark.timeout(5400)


def many(count: int) -> settings:
    return settings(max_examples=count, database=None, deadline=None, suppress_health_check=list(HealthCheck))


@given(hostile.properties)
@many(100_000)
def test_a_record_is_within_bounds_or_refused(properties: dict[str, str]) -> None:
    test_hostile.test_a_record_is_within_bounds_or_refused.hypothesis.inner_test(properties)  # type: ignore[attr-defined]


@given(st.lists(hostile.properties, min_size=1, max_size=4), policies, st.booleans())
@many(10_000)
def test_every_plan_ends(forged: list[dict[str, str]], rules: Retention, synchronised: bool) -> None:
    inner = test_hostile_catalogues.test_every_plan_ends.hypothesis.inner_test  # type: ignore[attr-defined]
    inner(forged, rules, synchronised)


@given(histories() | sound_histories(), policies, st.data())
@many(3_000)
def test_nothing_that_is_added_makes_another_go(
    history: History, rules: Retention, data: st.DataObject
) -> None:
    name = "test_nothing_that_is_added_makes_another_go_while_real_ones_arrive"
    getattr(test_arrival, name).hypothesis.inner_test(history, rules, data)


@given(sound_histories(), st.data())
@many(3_000)
def test_a_recovery_that_worked_without_is_the_same(history: History, data: st.DataObject) -> None:
    test_arrival.test_a_recovery_that_worked_without_is_the_same.hypothesis.inner_test(history, data)  # type: ignore[attr-defined]
