"""zbackup fleet: every host that ships to another host or a bucket, how old and how exposed its copies are.

Read first: command; then look and judgement.
"""

from zbackup.config.settings import Settings
from zbackup.model.fleet import Fleet


def configured(settings: Settings) -> Fleet:
    """The fleet as the configuration's web page shows it."""
    from zbackup.features.fleet.command import configured as look

    return look(settings)
