"""Output of zbackup switch, and what it wants to hear first."""

from dataclasses import replace

import pytest

from tests.unit.switched import PLAN, REPORT
from zbackup.features.switch import command
from zbackup.model.errors import UsageError


def test_for_people() -> None:
    assert command._plan_text(PLAN).splitlines() == [
        "stop    systemctl stop -- a.service",
        "rename  tank/mysql to tank/mysql-before-1",
        "rename  tank/zbackup/good/0 to tank/mysql",
        "start   /bin/start 'my db'",
    ]
    assert command._text(REPORT).splitlines() == [
        "shop is what good was",
        "  set aside  tank/mysql-before-1",
        "  backup     zbackup-20240501T100000Z",
        "  note       look after it",
        "  to undo    zbackup switch shop --undo --confirm shop",
    ]
    undone = replace(REPORT, outcome="undone", backup=None, remarks=())
    assert command._text(undone).splitlines() == [
        "shop is what it was before the switch to good",
        "  set aside  tank/mysql-before-1",
    ]


@pytest.mark.parametrize("given", ["", "shop2", "good"])
def test_the_instance_has_to_be_named_once_more(given: str) -> None:
    with pytest.raises(UsageError):
        command._require_confirmed("shop", given)
    command._require_confirmed("shop", "shop")
