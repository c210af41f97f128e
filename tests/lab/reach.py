"""Programs that tests run as another user, on a machine where python or the project is in a closed home."""

import os
from pathlib import Path


def let_reach(*files: Path) -> None:
    """Everybody can get at these files, and at what they are links to.

    A guest forgets it at its end. Elsewhere nothing is changed, and an AssertionError says what to do.
    """
    for directory in {parent for file in files for end in (file, file.resolve()) for parent in end.parents}:
        mode = directory.stat().st_mode
        if not mode & 0o001:
            inside = os.environ.get("LAB_INSIDE") == "guest"
            assert inside, f"{directory} is closed to other users: have the project and its python elsewhere"
            directory.chmod(mode | 0o001)
