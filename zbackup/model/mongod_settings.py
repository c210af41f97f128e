"""The settings that a mongod had when a backup of it was taken, as it told them itself (getCmdLineOpts).

They lie in the backup's record, which came from another host perhaps: anything may stand there.
"""

from collections.abc import Mapping
from typing import Any

from zbackup.model import bounds
from zbackup.model.errors import VerificationFailed


def recorded_settings(server: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the settings by the names that a file of settings has for them. `server` is Record.server.

    Raise VerificationFailed when what is recorded are no settings.
    """
    try:
        settings = bounds.from_json(server.get("options", "{}"))
    except ValueError as damaged:
        raise VerificationFailed(
            f"the mongod's recorded settings cannot be understood: {damaged}"
        ) from damaged
    if not isinstance(settings, dict):
        raise VerificationFailed(
            "the mongod's recorded settings cannot be understood: they are no JSON object"
        )
    return settings


def setting(settings: Mapping[str, Any], path: str) -> Any:
    """The one at a path such as `net.tls.mode`; None where nothing is there."""
    found: Any = settings
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
