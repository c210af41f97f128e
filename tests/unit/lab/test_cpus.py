"""Guests are spread over the CPUs."""

from tests.lab.cpus import fewest


def test_a_cpu_without_a_guest_comes_first() -> None:
    assert fewest({0, 1, 2}, [0, 1]) == 2
    assert fewest({0, 1}, []) == 0


def test_with_guests_on_all_the_one_with_the_fewest() -> None:
    assert fewest({0, 1}, [0, 0, 1]) == 1


def test_guests_on_cpus_that_are_not_ours_do_not_count() -> None:
    assert fewest({2, 3}, [0, 0, 2]) == 3
