"""List the backups and clones that there are, as ZFS says it.

Snapshots with records are grouped to backups and put in order; what another server's switch left behind
counts, too. Nothing is stored here: each look asks ZFS.

Read first: local; then switched.
"""
