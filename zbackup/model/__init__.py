"""Nouns: what a backup, a record, a recovery target, a clone, a stream and an error are.

Everybody may import from here; nothing in here imports from another room, reads a file or asks the time.
Read first: record (what is written down with each snapshot), backup, moment, errors (the exit statuses).
"""
