"""ZFS as argument lists, and what it answers as types: datasets, snapshots, holds, streams, errors.

No decision is made in here.

Read first: datasets; then streams and errors (standard error as types).
"""
