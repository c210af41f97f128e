"""Ports of clones that outgoing connections get, too."""

import pytest

from zbackup.model.cloning import CloneRules
from zbackup.plan.health.doctor import SUGGESTED, shared_with_connections

KERNELS = "32768\t60999\n"


@pytest.mark.parametrize(
    ("ports", "kernels", "reserved"),
    [
        (CloneRules().ports, KERNELS, "\n"),
        ((32668, 32767), KERNELS, "\n"),
        ((61000, 61000), KERNELS, "\n"),
        ((33100, 33199), "", ""),
        ((33100, 33199), "nobody knows", ""),
        ((33100, 33199), KERNELS, "8080,33100-33150,33151-33199\n"),
        ((60999, 61005), KERNELS, "60999\n"),
    ],
)
def test_ports_of_clones_alone_are_no_problem(ports: tuple[int, int], kernels: str, reserved: str) -> None:
    assert shared_with_connections(ports, kernels, reserved) == []


@pytest.mark.parametrize(
    ("ports", "reserved"),
    [
        ((33100, 33199), "\n"),
        ((32700, 32768), "\n"),
        ((60999, 61005), "\n"),
        ((33100, 33199), "33100-33198\n"),
        ((33100, 33199), "-,x,33100-y\n"),
    ],
)
def test_those_that_a_connection_may_have_are_told_with_others(ports: tuple[int, int], reserved: str) -> None:
    (found,) = shared_with_connections(ports, KERNELS, reserved)
    assert found.severity == "warning" and found.fix.startswith(f'[clones] ports = "{SUGGESTED}"')
    assert f"{ports[0]}-{ports[1]} are among" in found.text and "(32768-60999, " in found.text


def test_the_suggested_ones_are_the_default() -> None:
    assert "{}-{}".format(*CloneRules().ports) == SUGGESTED
