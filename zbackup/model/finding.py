"""Words for what somebody should know of an instance: how bad, what, why it matters, and what puts it
right.
"""

from dataclasses import dataclass
from typing import Literal

Health = Literal["ok", "warning", "critical"]
"""The state of an instance or a host, in the same words everywhere."""

Severity = Literal[Health, "advice"]
"""A critical finding keeps backups from being taken or restored, a warning may; advice makes them faster or
smaller, or explains, and changes no state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`subject` was looked at; `text` says what was found.

    `why` is why it matters and `fix` the command or setting that puts it right, where there is one. `key`
    tells findings of one subject apart, the same at every look: a gap's cause and beginning, a destination,
    a dataset. `acknowledged` is how bad it is, where an operator said that it is known and it is advice now.
    """

    severity: Severity
    subject: str
    text: str
    why: str = ""
    fix: str = ""
    exit_status: int = 0
    key: str = ""
    acknowledged: Severity | None = None


def worst(findings: tuple[Finding, ...]) -> Health:
    """The worst severity among them; "ok" of none."""
    there = {finding.severity for finding in findings}
    # Advice is no reason to call anybody.
    return "critical" if "critical" in there else "warning" if "warning" in there else "ok"
