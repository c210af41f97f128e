"""zbackup: backups of databases by ZFS snapshots, and point-in-time recovery from them.

Imports run downwards only: cli > daemon > app > jobs > catalog > destinations > engines | zfs > proc >
plan | config > model. Each room says in its own docstring what is in it and what to read first.
"""

import os

# Without it pydantic looks through all that is installed, and imports what calls itself its plugin. It looks
# when the first type is made for it, in whichever module that is.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
