"""Nouns: what a backup, a record, a recovery target, a clone, a stream and an error are.

Nothing in here imports from another room, reads a file or asks the time. All that others can write is bounded
where it is parsed.

Read first: record (what is written down with each snapshot); then backup, moment, errors (the exit
statuses).
"""
