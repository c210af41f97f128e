"""zbackup: backups of databases by ZFS snapshots, and point-in-time recovery from them.

Imports run downwards only: cli > daemon > app > jobs > catalog > destinations > engines | zfs > proc >
plan | config > model. Each room says in its own docstring what is in it and what to read first.
"""
