"""Take a backup, complete its record, and delete what the retention policy no longer needs.

Used by the command line, the daemon and switch. Read first: snapshot; then complete_record and prune.
"""
