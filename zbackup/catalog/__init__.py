"""List the backups and clones that there are, as ZFS says it: snapshots with records, grouped and put in
order.

Jobs come in here. Read first: local.
"""
