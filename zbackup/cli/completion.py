"""Offer completions after a Tab. Silent when nothing can be known: a completion never fails."""

from zbackup import app
from zbackup.config.load import load
from zbackup.config.settings import Settings
from zbackup.model.errors import ZbackupError
from zbackup.model.log_entry import KINDS
from zbackup.model.target import LATEST


def instances(incomplete: str) -> list[str]:
    """Names of instances in the configuration that would be used."""
    settings = _settings()
    return [name for name in settings.instance if name.startswith(incomplete)] if settings else []


def destinations(incomplete: str) -> list[str]:
    """Names of destinations of any instance."""
    settings = _settings()
    names = {ship.label for i in settings.instance.values() for ship in i.ship} if settings else set()
    return sorted(name for name in names if name.startswith(incomplete))


def clusters(incomplete: str) -> list[str]:
    """Names of clusters in the configuration that would be used."""
    settings = _settings()
    return [name for name in settings.cluster if name.startswith(incomplete)] if settings else []


def clones(incomplete: str) -> list[str]:
    """Names of the clones there are, as far as ZFS tells without being asked for long."""
    settings = _settings()
    if settings is None:
        return []
    try:
        names = app.clone_names(settings)
    except ZbackupError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """What a target of a restore begins with, but for times and transactions."""
    words = (LATEST, "now", "backup:", "label:", "before-drop:", "before-truncate:")
    return [word for word in words if word.startswith(incomplete)]


def kinds(incomplete: str) -> list[str]:
    """What can be done to a table."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def _settings() -> Settings | None:
    try:
        return load()
    except ZbackupError:
        return None
