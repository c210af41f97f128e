"""A year of backups every five minutes, which takes longer than all other tests of retention together."""

from tests.unit.plan.test_retention import a_year


def test_a_year_at_a_cadence_of_five_minutes_with_a_prune_now_and_then() -> None:
    assert a_year(5, "every 5 minutes for 2 hours") == [25, 49, 31, 9, 13, 2]
