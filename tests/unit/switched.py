"""Reports of a switch for tests, and their JSON."""

from typing import Any

from tests.unit.samples import NOON
from zbackup.features.switch import command
from zbackup.features.switch.switch import SwitchPlan, SwitchReport
from zbackup.model.clone import Clone
from zbackup.model.switch import ServiceCommands

CLONE = Clone(
    id="i", name="good", instance="shop", engine="mysql", kind="restore", state="switched", created=NOON,
    backup="zbackup-20240501T080000Z",
)  # fmt: skip
PLAN = SwitchPlan(
    clone=CLONE,
    renames=(("tank/mysql", "tank/mysql-before-1"), ("tank/zbackup/good/0", "tank/mysql")),
    service=ServiceCommands(
        stop=("systemctl", "stop", "--", "a.service"), start=("/bin/start", "my db"), limit=1
    ),
)
REPORT = SwitchReport(
    clone=CLONE,
    outcome="switched",
    aside=("tank/mysql-before-1",),
    backup="zbackup-20240501T100000Z",
    remarks=("look after it",),
)


def in_json() -> dict[str, Any]:
    """By command."""
    return {"switch": command._shape(REPORT), "switch --dry-run": command._plan_shape(PLAN)}
