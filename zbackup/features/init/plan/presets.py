"""The three retention policies that are offered, with what each reaches and costs. Pure."""

from zbackup.features.init.setup import Preset
from zbackup.model.errors import UsageError

PRESETS = (
    Preset(
        name="short",
        snapshot="1h",
        prune="1h",
        keep=("hourly for 2 days", "daily for 14 days"),
        window="2 days",
        backups=62,
        reach="any moment of the last 2 days, then a backup a day for 14 days",
    ),
    Preset(
        name="standard",
        snapshot="15m",
        prune="1h",
        keep=(
            "every 15 minutes for 4 hours",
            "hourly for 2 days",
            "daily for 30 days",
            "weekly for 8 weeks",
        ),
        window="7 days",
        backups=102,
        reach="any moment of the last 7 days, then a backup a day for 30 days, a week for 8 weeks",
    ),
    Preset(
        name="long",
        snapshot="5m",
        prune="1h",
        keep=(
            "every 5 minutes for 2 hours",
            "hourly for 7 days",
            "daily for 90 days",
            "weekly for 26 weeks",
            "monthly for 24 months",
        ),
        window="14 days",
        backups=332,
        reach="any moment of the last 14 days, then a backup a day for 90 days, a week for half a year, "
        "a month for 2 years",
    ),
)
USUAL = PRESETS[1]

_LOCKED_FOR = {"short": "14 days", "standard": "8 weeks", "long": "2 years"}


def preset(name: str) -> Preset:
    """The policy of that name. Raise UsageError, saying which there are."""
    found = next((each for each in PRESETS if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in PRESETS)
        raise UsageError(f'there is no retention preset "{name}": choose one of {known}')
    return found


def cost(chosen: Preset) -> str:
    """Say what a policy takes, in a line for people: ZFS keeps a block for as long as a snapshot has it."""
    return (
        f"about {chosen.backups} backups, one every {_spoken(chosen.snapshot)}; the pool keeps what was "
        f"overwritten or deleted in up to {_LOCKED_FOR[chosen.name]}"
    )


def reaches(chosen: Preset, *, log: bool) -> str:
    """Say what can be restored: without a log nothing between two backups."""
    if log:
        return chosen.reach
    return f"{chosen.reach} (of a server without a log, its backups alone: no moment between them)"


def _spoken(every: str) -> str:
    return {"1h": "hour", "15m": "15 minutes", "5m": "5 minutes"}[every]
